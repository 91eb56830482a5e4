//! A gateway over real sockets and a real store: what its clients can rely on.

#![allow(clippy::unwrap_used, reason = "a test that can't go on ends")]
#![allow(clippy::wildcard_enum_match_arm, reason = "a test looks for one thing among others")]

mod client;
mod drain;
mod faulty_store;
mod garbage;
mod heartbeat;
mod http;
mod membership;
mod order;
mod outages;
mod positions;
mod sends;
mod slow_readers;
mod sweep;
mod test_server;
mod tokens;
