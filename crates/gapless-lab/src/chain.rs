//! A chain under a real server: who hands in its blocks, and who reads its events.

mod fold;
mod following_client;
mod indexer;
mod told;
mod topic_reader;
mod world;

pub(crate) use self::fold::{Fold, Held, Payload};
pub(crate) use self::following_client::FollowingClient;
pub(crate) use self::indexer::Indexer;
pub(crate) use self::told::Told;
pub(crate) use self::topic_reader::TopicReader;
pub(crate) use self::world::ChainWorld;

use std::time::Duration;

use gapless_proto::{Cursor, Topic};

/// The chain's id.
pub(crate) const CHAIN: u64 = 1;

/// How long anybody may take for what must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The topic of all its events.
pub(crate) fn topic() -> anyhow::Result<Topic> {
    Ok(Topic::new(&format!("chain:{CHAIN}:transfers"))?)
}

/// The position before everything.
pub(crate) fn beginning() -> anyhow::Result<Cursor> {
    Ok(Cursor::new(&format!("{CHAIN}:0:0"))?)
}
