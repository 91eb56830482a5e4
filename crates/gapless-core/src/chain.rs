//! What an ingested block does to the feed of a chain.
//!
//! A store locks the feed's row and has its [`BlockTree`]. [`plan`] tells which of the blocks that came in are new, and where each
//! stretch of them belongs; a stretch begins on the head or at a fork. For each stretch the store reads what [`Stretch::values`]
//! asks for, lets [`Stretch::write`] decide, and writes what that says, all in one transaction.

mod amount;
mod plan;
mod tree;
mod write;

use std::fmt;

use gapless_proto::{BlockHash, BlockNumber, Body};

pub use amount::{Amount, AmountError};
pub use plan::{Stretch, plan};
pub use tree::{BlockRefusal, BlockTree, Placement};
pub use write::{ChainEntry, ChainEntryKind, ChainWrite, EventRefusal, ValueName, ValueVersion, Voided};

#[cfg(test)]
mod tests;

/// A block by its height and hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockRef {
    /// Its height.
    pub number: BlockNumber,
    /// Its hash.
    pub hash: BlockHash,
}

impl fmt::Display for BlockRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.number, self.hash)
    }
}

/// A block with those of its events that anyone may subscribe to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Which.
    pub at: BlockRef,
    /// The block before it.
    pub parent: BlockHash,
    /// When it was made, in seconds since the Unix epoch, as the chain has it.
    pub time: u64,
    /// Its events, in the order of their logs.
    pub events: Vec<ChainEvent>,
}

/// Something that happened on a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainEvent {
    /// The log's index in the block.
    pub log: u32,
    /// Under which topic it is found.
    pub topic: String,
    /// What happened.
    pub payload: Body,
    /// What it does to the values of the topic.
    pub changes: Vec<Change>,
}

/// What an event does to one value of its topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The value's name.
    pub key: String,
    /// What becomes of it.
    pub effect: Effect,
}

/// What becomes of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// It is replaced.
    Set(Body),
    /// An amount is added to it; one that isn't there counts as 0.
    Add(Amount),
}
