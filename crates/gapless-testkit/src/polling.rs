//! Asks again and again, where nothing tells when something has happened.

use std::thread;
use std::time::{Duration, Instant};

/// How long between two questions.
const PAUSE: Duration = Duration::from_millis(5);

/// Asks `condition` until it has an answer, at most for `patience`.
pub fn poll_until<T>(
    patience: Duration,
    mut condition: impl FnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<Option<T>> {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(answer) = condition()? {
            return Ok(Some(answer));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        thread::sleep(PAUSE);
    }
}
