//! Whether the machine has slept.

use std::time::{Duration, Instant, SystemTime};

use tokio::time;

/// Notices a sleep by the two clocks: the one that measures time stands still in it, the one on the wall goes on.
///
/// A wall clock that is set forward looks the same; the connection is then tested for nothing, which does no harm.
pub(super) struct WakeWatch {
    measured: Instant,
    wall: SystemTime,
}

/// How often the clocks are compared.
const INTERVAL: Duration = Duration::from_secs(5);

/// How far the clocks may drift apart between two comparisons.
const DRIFT_MAX: Duration = Duration::from_secs(3);

impl WakeWatch {
    pub(super) fn new() -> Self {
        Self { measured: time::Instant::now().into_std(), wall: SystemTime::now() }
    }

    /// Compares the clocks.
    pub(super) fn has_slept(&mut self) -> bool {
        let last = std::mem::replace(self, Self::new());
        let measured = self.measured.saturating_duration_since(last.measured);
        let wall = self.wall.duration_since(last.wall).unwrap_or_default();
        wall > measured + DRIFT_MAX
    }

    /// When to compare next.
    pub(super) fn poll_timeout(&self) -> Instant {
        self.measured + INTERVAL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_clock_that_ran_ahead_means_that_the_machine_slept() {
        let mut watch = WakeWatch::new();
        assert!(!watch.has_slept());
        watch.wall -= Duration::from_secs(60);
        assert!(watch.has_slept());
        assert!(!watch.has_slept());
    }

    #[test]
    fn a_wall_clock_that_is_set_back_means_nothing() {
        let mut watch = WakeWatch::new();
        watch.wall += Duration::from_secs(60);
        assert!(!watch.has_slept());
    }
}
