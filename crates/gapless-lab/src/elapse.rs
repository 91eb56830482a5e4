//! Time that must pass because time is what is examined: how long somebody is away, how slowly one reads, when a client comes back.
//!
//! It is never a stand-in for something that could be waited for.

use std::time::Duration;

/// Lets a time pass.
pub(crate) async fn elapse(time: Duration) {
    tokio::time::sleep(time).await;
}
