//! Moments that can stand in a payload.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Microseconds since this process looked at the clock first.
pub(crate) type Moment = u64;

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// This moment.
pub(crate) fn now() -> Moment {
    START.elapsed().as_micros() as u64
}

/// How long ago one was.
pub(crate) fn since(moment: Moment) -> Duration {
    Duration::from_micros(now().saturating_sub(moment))
}
