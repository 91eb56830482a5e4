//! The built command, as somebody types it.

#![allow(clippy::unwrap_used, reason = "a test that can't go on ends")]

mod admin;
mod check_config;
mod command;
mod crash;
mod floods;
mod migrate;
mod send;
mod serve;
mod tail;
mod token;
mod websocket;
