//! The log, on standard error.

use std::io::{self, IsTerminal as _};

use gapless_server::{LogConfig, LogFormat};
use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, fmt};

/// Logs what our own code says from `config.level` on, and what libraries say only when it is a warning.
pub(crate) fn start(config: LogConfig) {
    let filter =
        Targets::new().with_default(config.level.min(Level::WARN)).with_target("gapless", config.level);
    let layer = fmt::layer().with_writer(io::stderr).with_ansi(io::stderr().is_terminal());
    let layer = match config.format {
        LogFormat::Text => layer.boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    };
    tracing_subscriber::registry().with(layer.with_filter(filter)).init();
}
