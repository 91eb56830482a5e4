//! The world's time.

use std::fmt;
use std::time::{Duration, Instant};

use gapless_proto::Timestamp;

/// A clock that stands still until it is told to jump.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    start: Instant,
    now: Instant,
}

/// What the calendars of a world show when it begins, in milliseconds since the Unix epoch.
const CALENDAR_START: u64 = 1_767_225_600_000;

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "which moment a world begins at changes nothing in it")]
    pub(crate) fn new() -> Self {
        let start = Instant::now();
        Self { start, now: start }
    }

    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// Jumps to `to`; never back.
    pub(crate) fn advance(&mut self, to: Instant) {
        self.now = self.now.max(to);
    }

    pub(crate) fn elapsed(&self) -> Elapsed {
        Elapsed(self.now - self.start)
    }

    /// What the calendar of the store shows.
    pub(crate) fn timestamp(&self) -> Timestamp {
        let elapsed_ms = u64::try_from(self.elapsed().0.as_millis()).expect("worlds are short");
        Timestamp::new(CALENDAR_START + elapsed_ms).expect("worlds are short")
    }
}

/// How long a world has lived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Elapsed(Duration);

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>4}.{:06}", self.0.as_secs(), self.0.subsec_micros())
    }
}
