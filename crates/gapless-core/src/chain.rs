//! What an ingested block does to the feed of a chain.
//!
//! A store locks the feed's row and has its [`BlockTree`]. [`plan`] tells which of the blocks that came in are new, and where each
//! stretch of them belongs; a stretch begins on the head or at a fork. For each stretch the store reads what [`Stretch::values`]
//! asks for, lets [`Stretch::write`] decide, and writes what that says, all in one transaction.

mod plan;
mod safe;
mod subscription;
mod tail;
mod tree;
mod write;

pub use plan::{Stretch, plan};
pub use safe::safe_block;
pub use subscription::{PROGRESS_PAUSE, Slice, SliceEntry, Step, Subscription};
pub use tail::{ChainHead, ChainTail, TailEntry};
pub use tree::{BlockRefusal, BlockTree, Placement};
pub use write::{ChainEntry, ChainEntryKind, ChainWrite, EventRefusal, ValueName, ValueVersion, Voided};

#[cfg(test)]
mod tests;
