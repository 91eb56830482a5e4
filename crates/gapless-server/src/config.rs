//! What an operator may choose.

use std::time::Duration;

use gapless_core::{DeliveryConfig, HeartbeatConfig, HubConfig};

/// How a gateway runs.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// Who is told what, and when again.
    pub hub: HubConfig,
    /// What each connection may cost.
    pub session: SessionConfig,
    /// How a gateway stops.
    pub drain: DrainConfig,
    /// How the gateway keeps in step with the store.
    pub upkeep: UpkeepConfig,
}

/// The bounds and times of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionConfig {
    /// The longest body in bytes.
    pub body_bytes_max: usize,
    /// What may wait to be written to it.
    pub delivery: DeliveryConfig,
    /// When it is asked for a sign of life, and given up.
    pub heartbeat: HeartbeatConfig,
    /// How long it may take no byte.
    pub write_stall_max: Duration,
    /// How long the handshake may take: headers, token, upgrade.
    pub handshake_max: Duration,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            body_bytes_max: 64 << 10,
            delivery: DeliveryConfig::default(),
            heartbeat: HeartbeatConfig::default(),
            write_stall_max: Duration::from_secs(30),
            handshake_max: Duration::from_secs(10),
        }
    }
}

/// How a gateway stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrainConfig {
    /// Clients are told to come back after a random time of at most this.
    pub reconnect_spread: Duration,
    /// When the connections that haven't finished are dropped.
    pub deadline: Duration,
}

impl Default for DrainConfig {
    fn default() -> Self {
        Self { reconnect_spread: Duration::from_secs(5), deadline: Duration::from_secs(10) }
    }
}

/// How often the gateway compares what it told with what there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpkeepConfig {
    /// Between two looks for readers that lag behind.
    pub sweep_interval: Duration,
    /// Between two looks at the store's heads.
    pub heads_interval: Duration,
}

impl Default for UpkeepConfig {
    fn default() -> Self {
        Self { sweep_interval: Duration::from_secs(1), heads_interval: Duration::from_secs(3) }
    }
}
