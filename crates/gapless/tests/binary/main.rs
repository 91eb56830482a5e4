//! The built command, as somebody types it.

#![allow(clippy::unwrap_used, reason = "a test that can't go on ends")]
#![allow(clippy::wildcard_enum_match_arm, reason = "a test looks for one thing among others")]

mod admin;
mod chain_blocks;
mod chain_storm;
mod check_config;
mod command;
mod crash;
mod event_source;
mod floods;
mod follow;
mod follow_kills;
mod migrate;
mod node;
mod readme;
mod replicate;
mod replicate_kills;
mod replicate_metrics;
mod send;
mod serve;
mod shop;
mod tail;
mod tail_topics;
mod tls;
mod token;
mod verify;
mod websocket;
