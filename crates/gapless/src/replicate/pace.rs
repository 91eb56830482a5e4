//! How fast a copy goes, and how long it still takes.

use std::time::Duration;

/// Follows a copy that catches up. How much there is nobody counts; but each page tells how far its last row is behind, and that falls to
/// nothing at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pace {
    /// When it began, on whatever clock its owner has, and how far it was behind.
    begin: (Duration, Duration),
    now: (Duration, Duration),
    rows: u64,
}

impl Pace {
    /// Begins at a time, with what the first page tells.
    pub(super) fn new(now: Duration, lag: Duration) -> Self {
        Self { begin: (now, lag), now: (now, lag), rows: 0 }
    }

    /// Takes what a page tells.
    pub(super) fn handle_page(&mut self, now: Duration, lag: Duration, rows: u64) {
        self.now = (now, lag);
        self.rows += rows;
    }

    /// Rows behind the first page.
    pub(super) fn rows(self) -> u64 {
        self.rows
    }

    /// Rows a second.
    pub(super) fn rate(self) -> f64 {
        let seconds = self.now.0.saturating_sub(self.begin.0).as_secs_f64();
        if seconds > 0.0 { self.rows as f64 / seconds } else { 0.0 }
    }

    /// Which part is done, from 0 to 1.
    pub(super) fn share(self) -> f64 {
        let all = self.begin.1.as_secs_f64();
        let done = self.begin.1.saturating_sub(self.now.1).as_secs_f64();
        if all > 0.0 { done / all } else { 0.0 }
    }

    /// How long it still takes, if that can be told.
    pub(super) fn remaining(self) -> Option<Duration> {
        let share = self.share();
        let seconds = self.now.0.saturating_sub(self.begin.0).as_secs_f64();
        // Less tells nothing.
        (share > 0.001).then(|| Duration::from_secs_f64(seconds * (1.0 - share) / share))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn what_is_left_takes_as_long_as_what_is_done() {
        let mut pace = Pace::new(Duration::from_secs(5), 100 * HOUR);
        pace.handle_page(Duration::from_secs(15), 75 * HOUR, 1_000);
        assert_eq!((pace.share(), pace.rate(), pace.rows()), (0.25, 100.0, 1_000));
        assert_eq!(pace.remaining(), Some(Duration::from_secs(30)));
    }

    #[test]
    fn rows_of_one_moment_tell_nothing_of_what_is_left() {
        let mut pace = Pace::new(Duration::ZERO, HOUR);
        assert_eq!((pace.rate(), pace.remaining()), (0.0, None));
        pace.handle_page(Duration::from_secs(1), HOUR + Duration::from_secs(1), 10);
        assert_eq!((pace.share(), pace.remaining()), (0.0, None));
    }
}
