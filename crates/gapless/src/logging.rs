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
    let layer = fmt::layer().with_writer(io::stderr).with_ansi(io::stderr().is_terminal());
    let layer = match config.format {
        LogFormat::Text => layer.boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    };
    tracing_subscriber::registry().with(layer.with_filter(filter(config.level))).init();
}

fn filter(level: Level) -> Targets {
    Targets::new()
        .with_default(level.min(Level::WARN))
        // Warns of each connection that broke with the database; the store tells of that once.
        .with_target("deadpool", Level::ERROR)
        .with_target("gapless", level)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_only_warn_and_not_of_each_connection_to_the_database() {
        let filter = filter(Level::DEBUG);
        for (target, level, is_logged) in [
            ("gapless_server::session", Level::DEBUG, true),
            ("gapless_server::session", Level::TRACE, false),
            ("hyper", Level::WARN, true),
            ("hyper", Level::INFO, false),
            ("deadpool.postgres", Level::WARN, false),
        ] {
            assert_eq!(filter.would_enable(target, &level), is_logged, "{target} {level}");
        }
    }
}
