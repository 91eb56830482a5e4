//! What the log is told when the store fails: that it does, and why, but not once for everyone who notices.

use std::error::Error as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use gapless_store::StoreError;
use tokio::time;
use tracing::{debug, error, warn};

/// For how long after a warning others notice the same trouble.
const SAME_TROUBLE: Duration = Duration::from_secs(60);

/// The log is the process's own, and so is what stands in it already.
static TROUBLE: Mutex<Trouble> = Mutex::new(Trouble { warned_at: None });

/// Tells the log that the store failed and what couldn't be done: a passing failure as a warning once a minute, with the cause,
/// and otherwise as a detail; a lasting one always.
pub(crate) fn tell(failure: &StoreError, what: &'static str) {
    let cause = failure.source().map(words);
    if !failure.is_retryable() {
        error!(error = %failure, cause, what, "the store failed");
    } else if is_news(time::Instant::now().into_std()) {
        warn!(error = %failure, cause, what, "the store can't serve now; for a minute, more of this is only logged at level debug");
    } else {
        debug!(error = %failure, cause, what, "the store can't serve now");
    }
}

fn is_news(now: Instant) -> bool {
    TROUBLE.lock().unwrap_or_else(PoisonError::into_inner).is_news(now)
}

/// An error and its causes, in words.
fn words(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| (*error).source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Remembers when the log was told.
#[derive(Debug)]
struct Trouble {
    warned_at: Option<Instant>,
}

impl Trouble {
    /// Whether a failure is worth a warning, and not just one more of those that the last one told of.
    fn is_news(&mut self, now: Instant) -> bool {
        let is_known = self.warned_at.is_some_and(|at| now.saturating_duration_since(at) < SAME_TROUBLE);
        if !is_known {
            self.warned_at = Some(now);
        }
        !is_known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_many_notice_at_once_is_one_warning_a_minute() {
        let start = Instant::now();
        let mut trouble = Trouble { warned_at: None };
        let told: Vec<u64> =
            (0..150).filter(|second| trouble.is_news(start + Duration::from_secs(*second))).collect();
        assert_eq!(told, [0, 60, 120]);
    }

    #[test]
    fn the_cause_is_told_down_to_its_root() {
        let refused = std::io::Error::other("connection refused");
        let failure = StoreError::Unreachable(Box::new(StoreError::Unreachable(refused.into())));
        assert_eq!(failure.source().map(words).unwrap(), "the store can't be reached: connection refused");
    }
}
