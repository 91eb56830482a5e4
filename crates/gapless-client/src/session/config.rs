//! The bounds and times of a session.

use std::time::Duration;

use gapless_core::{BackoffConfig, FeedReaderConfig, HeartbeatConfig, OutboxConfig};

/// Bounds and times of a [`Session`](crate::Session).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionConfig {
    /// Which conversations it follows.
    pub follow: Follow,
    /// How many conversations it follows at most.
    pub conversations_max: usize,
    /// Whether another token can be had when one is refused or expires.
    pub token_is_renewable: bool,
    /// How long a connection may take until the server's `welcome`.
    pub connect_timeout: Duration,
    /// How long a connection must have lived for the next failure to count as the first.
    pub healthy_after: Duration,
    /// How long to wait between connections.
    pub reconnect: BackoffConfig,
    /// When the server is taken for dead. The server may ask for pings that are more frequent.
    pub heartbeat: HeartbeatConfig,
    /// How long a request may stay unanswered on a live connection before the connection is replaced.
    pub answer_timeout: Duration,
    /// How long acks are held back, so that one of them tells about many entries.
    pub ack_delay: Duration,
    /// How many entries a page has at most.
    pub page_limit: u32,
    /// How many conversations sync at the same time.
    pub syncs_in_flight_max: usize,
    /// The bounds of the outbox.
    pub outbox: OutboxConfig,
    /// The bounds of each conversation's reader.
    pub reader: FeedReaderConfig,
}

/// Which conversations a session follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Follow {
    /// Those that are watched, those that the local state knows, and any that the server sends news of.
    All,
    /// Only those that are watched.
    Watched,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            follow: Follow::All,
            conversations_max: 10_000,
            token_is_renewable: false,
            connect_timeout: Duration::from_secs(15),
            healthy_after: Duration::from_secs(10),
            reconnect: BackoffConfig::RECONNECT,
            heartbeat: HeartbeatConfig::default(),
            answer_timeout: Duration::from_secs(60),
            ack_delay: Duration::from_millis(100),
            page_limit: 50,
            syncs_in_flight_max: 32,
            outbox: OutboxConfig::default(),
            reader: FeedReaderConfig::default(),
        }
    }
}
