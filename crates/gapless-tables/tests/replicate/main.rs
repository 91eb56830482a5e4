//! Where copies go, against a real PostgreSQL and real files.

#![allow(clippy::unwrap_used, reason = "a test that can't go on ends")]

mod contract;
mod mending;
mod pages;
mod postgres;
mod target;
