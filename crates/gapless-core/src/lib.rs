//! The decisions of gapless as pure state machines.
//!
//! Nothing here reads a clock, rolls dice, opens a socket or awaits: what happened and `now` go in, what to do comes out. The
//! stores, the gateway, the client and the simulation all drive this same code.

mod append;
mod delivery;
mod hub;
mod membership;

pub use append::{
    Append, AppendBatch, AppendOutcome, AppendRefusal, Appended, Authority, FeedRow, FeedState, Operation,
    StoredContent, StoredKey,
};
pub use delivery::{Delivery, DeliveryConfig, Outgoing};
pub use hub::{FeedNews, Fresh, Hub, HubCommand, HubConfig, Standing};
pub use membership::{History, Interval, MemberState, MembershipRow};
