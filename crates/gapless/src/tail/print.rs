//! Entries on the screen.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use gapless_client::{Advance, Handled};
use gapless_proto::{Body, ConvId, Entry, Event, Kind, MembershipChange, Seq, Timestamp};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Deserialize;

use crate::connection::remark;
use crate::output::{visible, visible_json};

/// A catch-up over more entries than this shows how far it is.
const PROGRESS_FROM: u64 = 500;

/// Why printing ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    /// Whoever read the output has gone.
    #[error("nobody reads the output")]
    NoReader,
    /// The output takes nothing.
    #[error("the output can't be written: {0}")]
    Output(String),
    /// The conversation is shorter than `--after` says.
    #[error("the conversation has no seq {after} yet, so nothing can come after it; leave out --after")]
    AfterHead {
        /// What was asked for.
        after: Seq,
    },
}

/// Where a failure is left for who waits for the printer's end.
#[derive(Debug, Clone, Default)]
pub(super) struct FailureSlot(Arc<Mutex<Option<Failure>>>);

impl FailureSlot {
    pub(super) fn take(&self) -> Option<Failure> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take()
    }

    fn put(&self, failure: &Failure) {
        *self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(failure.clone());
    }
}

/// Prints what is handed over, before it counts as seen.
pub(super) struct Printer {
    screen: Screen,
    json: bool,
    /// `--after`, until something was printed.
    after: Option<Seq>,
    failure: FailureSlot,
}

impl Printer {
    pub(super) fn new(screen: Screen, json: bool, after: Option<Seq>) -> Self {
        Self { screen, json, after: after.filter(|seq| *seq > Seq::ZERO), failure: FailureSlot::default() }
    }

    pub(super) fn failure(&self) -> FailureSlot {
        self.failure.clone()
    }

    pub(super) fn print(&mut self, what: Handled<'_>) -> Result<(), Failure> {
        let outcome = match what {
            Handled::Entries(conv, advance) => self.print_entries(conv, advance),
            Handled::Reset(conv) => self.print_reset(conv),
        };
        if let Err(failure) = &outcome {
            self.failure.put(failure);
        }
        outcome
    }

    fn print_entries(&mut self, conv: &ConvId, advance: &Advance) -> Result<(), Failure> {
        self.after = None;
        let mut text = String::new();
        if let Some(range) = &advance.trimmed {
            self.add_trimmed(&mut text, conv, range);
        }
        for entry in &advance.entries {
            if self.json {
                let event = Event { conv: conv.clone(), epoch: advance.position.epoch, entry: entry.clone() };
                text.push_str(&self.json_line(&event.encode()));
            } else {
                push_entry(&mut text, entry);
            }
            text.push('\n');
        }
        self.screen.show(&text, advance.position.seq, advance.head)
    }

    /// A line for programs, to whom only a terminal stands in the way.
    fn json_line(&self, json: &str) -> String {
        if self.screen.is_terminal { visible_json(json) } else { json.to_owned() }
    }

    fn add_trimmed(&self, text: &mut String, conv: &ConvId, range: &RangeInclusive<Seq>) {
        let (from, to) = (range.start(), range.end());
        if self.json {
            let line = serde_json::json!({
                "t": "trimmed", "conv": conv, "from": from.get(), "to": to.get(),
            });
            text.push_str(&format!("{line}\n"));
        } else {
            self.screen.remark(&format!("{from} to {to} are no longer kept by the server"));
        }
    }

    fn print_reset(&mut self, conv: &ConvId) -> Result<(), Failure> {
        if let Some(after) = self.after {
            return Err(Failure::AfterHead { after });
        }
        if self.json {
            let line = serde_json::json!({ "t": "reset", "conv": conv });
            return self.screen.show(&format!("{line}\n"), Seq::ZERO, Seq::ZERO);
        }
        self.screen
            .remark("the log was rewound (a restore from a backup?); it starts over from the beginning");
        Ok(())
    }
}

/// The output, and the bar below it while a long catch-up lasts.
#[derive(Debug, Clone)]
pub(super) struct Screen {
    bar: ProgressBar,
    /// Whether there is anyone to look at a bar.
    is_watched: bool,
    /// Whether a terminal gets the output.
    is_terminal: bool,
}

impl Screen {
    pub(super) fn new() -> Self {
        let is_watched = io::stderr().is_terminal();
        let bar = ProgressBar::hidden();
        if let Ok(style) = ProgressStyle::with_template("catching up {bar:40} {pos} of {len}, {eta} left") {
            bar.set_style(style);
        }
        Self { bar, is_watched, is_terminal: io::stdout().is_terminal() }
    }

    pub(super) fn remark(&self, text: &str) {
        self.bar.suspend(|| remark(text));
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// Prints lines, and how far they bring the reader.
    fn show(&self, lines: &str, position: Seq, head: Seq) -> Result<(), Failure> {
        let missing = head.get() - position.get().min(head.get());
        if self.is_watched && self.bar.is_hidden() && missing > PROGRESS_FROM {
            self.bar.reset();
            self.bar.set_length(head.get());
            self.bar.set_position(position.get());
            self.bar.reset_eta();
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.bar.enable_steady_tick(Duration::from_millis(250));
        }
        self.bar.suspend(|| print(lines))?;
        if !self.bar.is_hidden() {
            self.bar.set_length(head.get());
            self.bar.set_position(position.get());
            if missing == 0 {
                self.bar.finish_and_clear();
                self.bar.set_draw_target(ProgressDrawTarget::hidden());
            }
        }
        Ok(())
    }
}

/// Writes lines to stdout, at once.
pub(super) fn print(lines: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(lines.as_bytes()).and_then(|()| stdout.flush()).map_err(|error| {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Failure::NoReader
        } else {
            Failure::Output(error.to_string())
        }
    })
}

/// A body as `gapless send` makes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    text: String,
}

/// One line for people; others choose the words in it.
fn push_entry(line: &mut String, entry: &Entry) {
    let Entry { seq, kind, sender, ts, body, .. } = entry;
    let words = match (kind, body.parse::<MembershipChange>()) {
        (Kind::Join, Ok(change)) if change.user == *sender => format!("{sender} joined"),
        (Kind::Join, Ok(change)) => format!("{sender} added {}", change.user),
        (Kind::Leave, Ok(change)) if change.user == *sender => format!("{sender} left"),
        (Kind::Leave, Ok(change)) => format!("{sender} removed {}", change.user),
        (Kind::Message, _) => format!("{sender}: {}", content(body)),
        (Kind::Join | Kind::Leave | Kind::Other(_), _) => format!("{sender} [{kind}]: {}", content(body)),
    };
    // Writing into a `String` doesn't fail.
    write!(line, "{seq:>6}  {}  {}", time(*ts), visible(&words)).ok();
}

/// The time in UTC; the bare number if it is beyond the calendar.
fn time(ts: Timestamp) -> String {
    let time = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(ts.get()));
    let mut text = String::new();
    match write!(text, "{time}") {
        Ok(()) => text,
        Err(_) => ts.to_string(),
    }
}

/// The text of a message, or the JSON as it is.
fn content(body: &Body) -> String {
    body.parse::<Text>().map_or_else(|_| body.as_str().to_owned(), |Text { text }| text)
}

#[cfg(test)]
mod tests {
    use gapless_proto::UserId;

    use super::*;

    #[test]
    fn a_message_is_one_line_even_if_its_text_is_not() {
        assert_eq!(
            line(Kind::Message, r#"{"text":"a\nb\u001b[2J"}"#),
            "    65  2026-01-01T00:00:00Z  alice: a\\nb\\u{1b}[2J"
        );
    }

    #[test]
    fn a_line_can_not_be_turned_around_by_its_text_nor_by_a_name() {
        assert_eq!(line(Kind::Message, "{\"text\":\"a\u{202e}b\"}")[30..], *"alice: a\\u{202e}b");
        let named = line(Kind::Join, "{\"user\":\"b\u{202e}ob\"}");
        assert_eq!(named[30..], *"alice added b\\u{202e}ob");
    }

    #[test]
    fn joins_and_leaves_tell_who_did_what() {
        let words = |kind, body| line(kind, body)[30..].to_owned();
        assert_eq!(words(Kind::Join, r#"{"user":"alice"}"#), "alice joined");
        assert_eq!(words(Kind::Join, r#"{"user":"bob"}"#), "alice added bob");
        assert_eq!(words(Kind::Leave, r#"{"user":"alice"}"#), "alice left");
        assert_eq!(words(Kind::Leave, r#"{"user":"bob"}"#), "alice removed bob");
    }

    // Behaviour 7
    #[test]
    fn what_is_not_known_is_shown_as_it_is() {
        let words = |kind, body| line(kind, body)[30..].to_owned();
        assert_eq!(words(Kind::Other("poll".to_owned()), "[1,2.50]"), "alice [poll]: [1,2.50]");
        assert_eq!(words(Kind::Join, "7"), "alice [join]: 7");
        assert_eq!(words(Kind::Message, r#"{"text":1}"#), r#"alice: {"text":1}"#);
    }

    #[test]
    fn a_time_that_no_calendar_has_does_not_stop_it() {
        let mut text = String::new();
        push_entry(
            &mut text,
            &Entry { ts: Timestamp::new((1 << 53) - 1).unwrap(), ..entry(Kind::Message, "1") },
        );
        assert!(text.ends_with("alice: 1"), "{text}");
    }

    fn line(kind: Kind, body: &str) -> String {
        let mut text = String::new();
        push_entry(&mut text, &entry(kind, body));
        text
    }

    fn entry(kind: Kind, body: &str) -> Entry {
        Entry {
            seq: Seq::new(65).unwrap(),
            kind,
            sender: UserId::new("alice").unwrap(),
            key: None,
            ts: Timestamp::new(1_767_225_600_000).unwrap(),
            body: Body::from_text(body.to_owned()).unwrap(),
        }
    }
}
