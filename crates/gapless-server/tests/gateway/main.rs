//! The live half of the gateway over real sockets and a real store: what clients on a WebSocket can rely on.

#![allow(clippy::unwrap_used, reason = "a test that can't go on ends")]

mod client;
mod order;
mod test_server;
