//! How fast a copy goes, and how long it still takes.

use std::time::Duration;

/// Follows a copy that catches up. The first one is done when it has about as many rows as its source; where nobody knows those, or they
/// aren't all to come, each page tells how far its last row is behind, and that falls to nothing at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pace {
    begin: Milestone,
    now: Milestone,
    rows_estimate: Option<u64>,
}

/// How far it is behind some page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Milestone {
    /// When, on whatever clock its owner has.
    pub(super) at: Duration,
    /// How far the page's last row is behind.
    pub(super) lag: Duration,
    /// The rows up to there.
    pub(super) rows: u64,
}

/// Less than this part of the whole tells nothing of the rest.
const SHARE_MIN: f64 = 0.001;

impl Pace {
    /// Begins behind the first page. `rows_estimate`: about how many rows come in all.
    pub(super) fn new(first: Milestone, rows_estimate: Option<u64>) -> Self {
        Self { begin: first, now: first, rows_estimate: rows_estimate.filter(|rows| *rows > 0) }
    }

    /// Takes the next page.
    pub(super) fn handle_page(&mut self, at: Duration, lag: Duration, rows: u64) {
        self.now = Milestone { at, lag, rows: self.now.rows + rows };
    }

    /// All rows.
    pub(super) fn rows(self) -> u64 {
        self.now.rows
    }

    /// Rows a second.
    pub(super) fn rate(self) -> f64 {
        let rows = self.now.rows - self.begin.rows;
        if self.seconds() > 0.0 { rows as f64 / self.seconds() } else { 0.0 }
    }

    /// Which part is done, from 0 to 1.
    pub(super) fn share(self) -> f64 {
        self.share_at(self.now)
    }

    /// How long it still takes, if that can be told.
    pub(super) fn remaining(self) -> Option<Duration> {
        let (done, left) = (self.share() - self.share_at(self.begin), 1.0 - self.share());
        // An estimate may turn out too low.
        let can_be_told = done > SHARE_MIN && left > 0.0;
        can_be_told.then(|| Duration::from_secs_f64(self.seconds() * left / done))
    }

    fn share_at(self, milestone: Milestone) -> f64 {
        let (done, all) = match self.rows_estimate {
            Some(all) => (milestone.rows as f64, all as f64),
            None => {
                let all = self.begin.lag;
                (all.saturating_sub(milestone.lag).as_secs_f64(), all.as_secs_f64())
            }
        };
        if all > 0.0 { (done / all).min(1.0) } else { 0.0 }
    }

    fn seconds(self) -> f64 {
        self.now.at.saturating_sub(self.begin.at).as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn begun(at: u64, lag: Duration, rows_estimate: Option<u64>) -> Pace {
        Pace::new(Milestone { at: Duration::from_secs(at), lag, rows: 1_000 }, rows_estimate)
    }

    #[test]
    fn what_is_left_takes_as_long_as_what_is_done() {
        let mut pace = begun(5, 100 * HOUR, None);
        pace.handle_page(Duration::from_secs(15), 75 * HOUR, 1_000);
        assert_eq!((pace.share(), pace.rate(), pace.rows()), (0.25, 100.0, 2_000));
        assert_eq!(pace.remaining(), Some(Duration::from_secs(30)));
    }

    #[test]
    fn where_the_rows_are_known_their_times_do_not_matter() {
        let mut pace = begun(5, HOUR, Some(10_000));
        pace.handle_page(Duration::from_secs(15), HOUR, 1_000);
        assert_eq!((pace.share(), pace.rate(), pace.rows()), (0.2, 100.0, 2_000));
        assert_eq!(pace.remaining(), Some(Duration::from_secs(80)));
        pace.handle_page(Duration::from_secs(95), HOUR, 9_000);
        assert_eq!((pace.share(), pace.remaining()), (1.0, None));
    }

    #[test]
    fn rows_of_one_moment_tell_nothing_of_what_is_left() {
        let mut pace = begun(0, HOUR, None);
        assert_eq!((pace.rate(), pace.remaining()), (0.0, None));
        pace.handle_page(Duration::from_secs(1), HOUR + Duration::from_secs(1), 10);
        assert_eq!((pace.share(), pace.remaining()), (0.0, None));
        assert_eq!(begun(0, Duration::ZERO, Some(0)).share(), 0.0);
    }
}
