//! A gateway over real sockets and a real store: what its clients can rely on.

#![allow(clippy::unwrap_used, reason = "a test that can't go on ends")]

mod client;
mod http;
mod order;
mod test_server;
