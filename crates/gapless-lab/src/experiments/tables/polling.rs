//! How all readers that poll go about it, so that only their questions differ.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

/// How often a reader looks whether there is more.
const PAUSE: Duration = Duration::from_millis(50);

/// A reader that asks for what is new.
pub(super) trait Poll {
    /// Reads pages as long as there are more; says whether there was something new.
    async fn poll(&mut self) -> anyhow::Result<bool>;
}

/// Polls until it is told to finish, and then until nothing new comes.
pub(super) async fn follow(reader: &mut impl Poll, finish: watch::Receiver<bool>) -> anyhow::Result<()> {
    let mut beat = interval(PAUSE);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !*finish.borrow() {
        beat.tick().await;
        reader.poll().await?;
    }
    while reader.poll().await? {}
    Ok(())
}
