//! The source, against a real PostgreSQL.

#![allow(clippy::unwrap_used, reason = "a test that can't go on ends")]

mod changes;

mod late;
mod paging;

mod shop;
