//! The network between clients and the server.

use std::net::SocketAddr;
use std::time::Duration;

use clap::ValueEnum;
use gapless_testkit::FaultyProxy;

/// Which network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Network {
    /// The machine's own.
    Near,
}

impl Network {
    /// How long a byte takes to the other side.
    pub(crate) fn delay(self) -> Duration {
        match self {
            Self::Near => Duration::ZERO,
        }
    }

    /// Makes a connection of its own to a server.
    pub(crate) fn line(self, server: SocketAddr) -> anyhow::Result<FaultyProxy> {
        match self {
            Self::Near => FaultyProxy::start(server),
        }
    }
}
