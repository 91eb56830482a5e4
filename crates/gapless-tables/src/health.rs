//! Whether a table can be read, and whether that is worth a warning.

use std::time::{Duration, Instant};

use crate::source::SourceError;

/// How a table was when somebody last asked it.
#[derive(Debug)]
pub(crate) struct Health {
    /// Whether it could be read.
    pub(crate) is_readable: bool,
    warned_at: Option<Instant>,
}

/// For how long after a warning others notice the same.
const SAME_TROUBLE: Duration = Duration::from_secs(60);

impl Default for Health {
    fn default() -> Self {
        Self { is_readable: true, warned_at: None }
    }
}

impl Health {
    /// Takes in what a question came to. Says whether that is worth a warning, and not just one more of those that the last one told of.
    pub(crate) fn handle_answer(&mut self, error: Option<&SourceError>, now: Instant) -> bool {
        match error {
            None => self.is_readable = true,
            // Whoever asks has to ask otherwise.
            Some(SourceError::Cursor(_) | SourceError::Request(_)) => return false,
            // It can be read, by others.
            Some(SourceError::Crowded) => {}
            Some(SourceError::Setup(_) | SourceError::Changed(_) | SourceError::Unavailable(_)) => {
                self.is_readable = false;
            }
        }
        let is_known = self.warned_at.is_some_and(|at| now.saturating_duration_since(at) < SAME_TROUBLE);
        let is_news = error.is_some() && !is_known;
        if is_news {
            self.warned_at = Some(now);
        }
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::CursorError;

    #[test]
    fn what_many_notice_at_once_is_one_warning_a_minute() {
        let (mut health, start) = (Health::default(), Instant::now());
        let failed = SourceError::Unavailable("refused".to_owned());
        let mut told = Vec::new();
        for second in 0..150 {
            // Where some questions are answered, the others are no news either.
            health.handle_answer(None, start);
            let is_news = health.handle_answer(Some(&failed), start + Duration::from_secs(second));
            told.extend(is_news.then_some(second));
        }
        assert_eq!(told, [0, 60, 120]);
    }

    #[test]
    fn only_a_fault_of_the_table_counts_against_it() {
        let (mut health, now) = (Health::default(), Instant::now());
        for (error, is_news, is_readable) in [
            (Some(SourceError::Cursor(CursorError::Invalid)), false, true),
            (Some(SourceError::Request("limit".to_owned())), false, true),
            (Some(SourceError::Crowded), true, true),
            (Some(SourceError::Changed("dropped".to_owned())), false, false),
            (Some(SourceError::Cursor(CursorError::Invalid)), false, false),
            (None, false, true),
        ] {
            assert_eq!(health.handle_answer(error.as_ref(), now), is_news, "{error:?}");
            assert_eq!(health.is_readable, is_readable, "{error:?}");
        }
    }
}
