//! The source, against a real PostgreSQL.

#![allow(clippy::unwrap_used, reason = "a test that can't go on ends")]

mod changes;
mod follower;
mod keys;

mod late;
mod paging;
mod plans;
mod purge;
mod setup;

mod shop;
mod storm;
mod values;
