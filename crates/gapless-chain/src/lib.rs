//! Follows an EVM node over JSON-RPC and hands its blocks to a store.
//!
//! What decides is pure: [`Topics`] (which logs are events), [`classify`] (what a refusal means), [`check_logs`] (whether logs can be
//! those of a block), [`Walk`] (which blocks are missing), [`RangePolicy`] (how much is asked for at once), [`route()`] (what to do about a
//! head), [`Endpoints`] (whom to ask).

mod ahead;
mod checks;
mod config;
mod doubts;
mod endpoints;
mod errors;
mod follower;
mod gather;
mod node;
mod range;
mod range_policy;
mod report;
mod round;
mod route;
mod sink;
mod stretch;
mod topics;
mod walk;
mod wire;

pub use checks::{CheckedLogs, LogsFault, check_logs, check_receipts, decoded};
pub use config::{ConfigError, FollowConfig};
pub use endpoints::{Choice, Endpoints, Failure};
pub use errors::{RangeHint, Trouble, classify, classify_http};
pub use follower::Follower;
pub use node::{NodeUrl, NodeUrlError};
pub use range_policy::{Heights, RangePolicy, RangeStep};
pub use report::{Alarm, NodeState, Report};
pub use route::{Route, Start, backfill_end, route};
pub use sink::Sink;
pub use stretch::{Break, chained};
pub use topics::{Builtin, TopicConfig, TopicError, TopicProblem, Topics, Undecodable};
pub use walk::{Outcome, Walk, WalkBounds, Want};
pub use wire::{Header, Log, Receipt};
