//! Follows an EVM node over JSON-RPC and hands its blocks to a store.

mod checks;
mod errors;
mod topics;
mod walk;
mod wire;

pub use checks::{CheckedLogs, LogsFault, check_logs, check_receipts, decoded};
pub use errors::{RangeHint, Trouble, classify, classify_http};
pub use topics::{Builtin, TopicConfig, TopicError, TopicProblem, Topics, Undecodable};
pub use walk::{Outcome, Walk, WalkBounds, Want};
pub use wire::{Header, Log, Receipt};
