//! What an operator may choose.
//!
//! [`RawConfig`] is what was typed, on the command line, in the environment, in a file; [`RawConfig::check`] makes a [`Config`]
//! of it or says everything that is wrong.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use gapless_core::{DeliveryConfig, HeartbeatConfig, HubConfig};
use gapless_store::StoreUrl;

mod auth;
mod check;
mod error;
mod file;
mod key;
mod origins;
mod raw;
mod reader;
mod report;
mod secret;
#[cfg(test)]
mod tests;

pub use auth::AuthConfig;
pub use error::{ConfigError, ConfigErrors};
pub use key::{KEYS, Key};
pub use origins::Origins;
pub use raw::{ConfigSources, Flag, Place, RawConfig};
pub use secret::{Secret, SecretError, Secrets};

/// How a gateway runs. The default listens on loopback and lets nobody in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Where the logs are.
    pub store: StoreUrl,
    /// Who is let in.
    pub auth: AuthConfig,
    /// Who is told what, and when again.
    pub hub: HubConfig,
    /// What each connection may cost.
    pub session: SessionConfig,
    /// What HTTP requests may cost, and which web pages may make them.
    pub http: HttpConfig,
    /// How a gateway stops.
    pub drain: DrainConfig,
    /// How chains are followed.
    pub chains: ChainsConfig,
    /// Which tables are read for others.
    pub tables: TablesConfig,
    /// How the gateway keeps in step with the store.
    pub upkeep: UpkeepConfig,
    /// What is logged.
    pub log: LogConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 7700)),
            store: StoreUrl::Sqlite(PathBuf::from("gapless.db")),
            auth: AuthConfig::default(),
            hub: HubConfig::default(),
            session: SessionConfig::default(),
            http: HttpConfig::default(),
            drain: DrainConfig::default(),
            chains: ChainsConfig::default(),
            tables: TablesConfig::default(),
            upkeep: UpkeepConfig::default(),
            log: LogConfig::default(),
        }
    }
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

/// What HTTP requests may cost, and which web pages may make them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpConfig {
    /// How long one may take, from its headers to its answer.
    pub request_max: Duration,
    /// The web pages that may use HTTP.
    pub origins: Origins,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self { request_max: Duration::from_secs(30), origins: Origins::default() }
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

/// Which tables are read for others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TablesConfig {
    /// Files that declare tables of a database each. The gateway doesn't read them; whoever starts it does.
    pub serve: Vec<PathBuf>,
}

/// How chains are followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainsConfig {
    /// Files that declare a chain to follow each. The gateway doesn't read them; whoever starts it does.
    pub follow: Vec<PathBuf>,
    /// A block is confirmed when the head is so many blocks above it.
    pub confirmations: u64,
    /// How many blocks below the head a reorg may reach.
    pub reorg_blocks_max: u64,
    /// How many of the newest entries of a chain's log are kept, at least, for those who come back.
    pub replay_entries: u64,
    /// Between two looks for what is older.
    pub trim_interval: Duration,
    /// How long a feed may stand still while its node has more.
    pub stall_max: Duration,
}

impl Default for ChainsConfig {
    fn default() -> Self {
        Self {
            follow: Vec::new(),
            confirmations: 12,
            reorg_blocks_max: 1_024,
            replay_entries: 10_000_000,
            trim_interval: Duration::from_secs(60),
            stall_max: Duration::from_secs(120),
        }
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

/// What is logged, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogConfig {
    /// The form of a line.
    pub format: LogFormat,
    /// What is left out: all that is less than this.
    pub level: tracing::Level,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { format: LogFormat::Text, level: tracing::Level::INFO }
    }
}

/// The form of a line in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
}
