//! The gateway: WebSocket and HTTP over the store.
//!
//! [`run`] serves until it is told to stop, and returns once every session and task has ended.

mod auth;
mod chains;
mod config;
mod exposition;
mod gateway;
mod http;
mod hub;
mod listener;
mod live_tables;
mod mailbox;
mod meters;
mod metrics_listener;
mod page_size;
mod refusal;
mod session;
mod socket;
mod store_trouble;
mod subscription;
mod tips;
mod told;
mod upgrade;
mod wakers;
mod write_limit;

pub use auth::{
    AuthError, Authenticator, DEVICE_HEADER, Identity, Minted, Readable, Rights, Scope, Scopes, TokenRequest,
    USER_HEADER,
};
pub use config::{
    AuthConfig, Config, ConfigError, ConfigErrors, ConfigSources, DrainConfig, Flag, HttpConfig, KEYS, Key,
    LogConfig, LogFormat, Origins, Place, RawConfig, Secret, SecretError, Secrets, SessionConfig,
    TablesConfig, UpkeepConfig,
};
pub use gateway::{Beside, RunError, run};
pub use metrics_listener::MetricsListener;
pub use tips::ChainTips;
