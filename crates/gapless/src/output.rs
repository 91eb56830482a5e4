//! What a command was run for, on standard output.

use std::future::pending;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;

use anyhow::Context as _;
use tokio::io::Interest;
use tokio::net::unix::pipe;

/// Says a line. Whoever waits for it has it when this returns.
pub(crate) fn say(line: impl std::fmt::Display) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}").and_then(|()| stdout.flush()).context("the output can't be written")
}

/// Says something to whoever wants to read it: it is no fault that they have seen enough.
pub(crate) fn show(text: impl std::fmt::Display) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("the output can't be written"),
    }
}

/// Waits until nobody reads the output any more; for ever where the system doesn't tell, as of a file.
pub(crate) async fn reader_gone() {
    let watched = io::stdout().as_fd().try_clone_to_owned();
    // Nothing is written to it here, so it doesn't matter that a write would block.
    let watched = watched.and_then(pipe::Sender::from_owned_fd_unchecked);
    if let Ok(stdout) = watched
        && stdout.ready(Interest::ERROR).await.is_ok()
    {
        return;
    }
    pending().await
}

/// A text with what would command a terminal or mislead its reader written out, as in `\u{202e}`.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// JSON that means the same, with [`visible`]'s characters written as JSON does; they stand in strings only.
pub(crate) fn visible_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        if is_hidden(c) {
            shown.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Control characters; those that end a line or a paragraph; and those that change the direction of what is shown after them.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hides_or_turns_text_around_is_written_out() {
        assert_eq!(visible("a\u{202e}b\u{2066}c\u{200f}"), "a\\u{202e}b\\u{2066}c\\u{200f}");
        assert_eq!(visible("\n\r\u{1b}[2J\u{9b}\u{7f}"), "\\n\\r\\u{1b}[2J\\u{9b}\\u{7f}");
        assert_eq!(visible("a\u{2028}b"), "a\\u{2028}b");
    }

    #[test]
    fn ordinary_text_of_any_script_is_left_as_it_is() {
        for text in
            ["naïve", "שלום, מה נשמע", "مرحبا", "日本語", "👩\u{200d}👩\u{200d}👧", "می\u{200c}خواهم", "a\\b"]
        {
            assert_eq!(visible(text), text);
            assert_eq!(visible_json(text), text);
        }
    }

    #[test]
    fn json_means_the_same_when_it_is_made_visible() {
        let json = serde_json::json!({ "text": "a\u{202e}b\u{9b}\u{7f}\n" }).to_string();
        let shown = visible_json(&json);
        assert!(shown.contains("\\u202e") && shown.contains("\\u009b"), "{shown}");
        assert_eq!(shown.parse::<serde_json::Value>().unwrap(), json.parse::<serde_json::Value>().unwrap());
    }
}
