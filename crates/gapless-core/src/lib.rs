//! The decisions of gapless as pure state machines.
//!
//! Nothing here reads a clock, rolls dice, opens a socket or awaits: what happened and `now` go in, what to do comes out. The
//! stores, the gateway, the client and the simulation all drive this same code.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test begins at some moment"))]

mod append;
mod backoff;
mod chain;
mod delivery;
mod feed_reader;
mod heartbeat;
mod hub;
mod membership;
mod outbox;
mod seen;
mod table;

pub use append::{
    Append, AppendBatch, AppendOutcome, AppendRefusal, Appended, Authority, FeedRow, FeedState, Operation,
    StoredContent, StoredKey,
};
pub use backoff::{Backoff, BackoffConfig};
pub use chain::{
    BlockRefusal, BlockTree, ChainEntry, ChainEntryKind, ChainHead, ChainTail, ChainWrite, EventRefusal,
    PROGRESS_PAUSE, Placement, Slice, SliceEntry, Step, Stretch, Subscription, TailEntry, ValueName,
    ValueVersion, Voided, plan, safe_block,
};
pub use delivery::{Delivery, DeliveryConfig, Outgoing};
pub use feed_reader::{
    Advance, FeedCommand, FeedReader, FeedReaderConfig, PageError, ResetReason, SyncRequest,
};
pub use heartbeat::{Beat, Heartbeat, HeartbeatConfig};
pub use hub::{FeedNews, Fresh, Hub, HubCommand, HubConfig, Standing};
pub use membership::{History, Interval, MemberState, MembershipRow};
pub use outbox::{Outbox, OutboxConfig, OutboxError, OutboxId, OutboxMessage};
pub use seen::{CursorRefusal, Seen};
pub use table::{
    Boundary, Floor, FollowerStep, Found, Mark, Place, Repeats, Snapshot, SnapshotError, StepEnd,
    TableCursor, TableFollower, TableStep, TableTail,
};
