//! The follower against nodes that lie, and against a real one.

#![allow(clippy::unwrap_used, reason = "a test that can't go on ends")]
#![allow(clippy::wildcard_enum_match_arm, reason = "a test looks for one thing among others")]

mod anvil;
mod backfill;
mod kills;
mod lies;
mod long_answers;
mod lying_node;
mod network;
mod random_chains;
mod real_reorgs;
mod reorgs;
mod several_nodes;
mod subscriptions;
mod world;
