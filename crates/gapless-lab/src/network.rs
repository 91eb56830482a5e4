//! The network between clients and the server.

use std::net::SocketAddr;

use clap::ValueEnum;
use gapless_testkit::FaultyProxy;

/// Which network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Network {
    /// The machine's own.
    Near,
}

impl Network {
    /// Makes a connection of its own to a server.
    pub(crate) fn line(self, server: SocketAddr) -> anyhow::Result<FaultyProxy> {
        match self {
            Self::Near => FaultyProxy::start(server),
        }
    }
}
