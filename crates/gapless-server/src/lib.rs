//! The gateway: WebSocket and HTTP over the store.
//!
//! [`run`] serves until it is told to stop, and returns once every session and task has ended.

mod auth;
mod config;
mod gateway;
mod http;
mod hub;
mod refusal;

pub use auth::{AuthError, Authenticator, Identity};
pub use config::{Config, DrainConfig, SessionConfig, UpkeepConfig};
pub use gateway::{RunError, run};
