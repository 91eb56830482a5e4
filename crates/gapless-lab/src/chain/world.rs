//! What an experiment about chains finds: a database, a server, and an indexer.

use std::net::SocketAddr;

use anyhow::Context as _;
use gapless_testkit::{FaultyProxy, Gateway, free_port};
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

use super::Indexer;
use crate::database::{Database, Databases};
use crate::network::Network;
use crate::plain_sql::PlainSql;
use crate::server;

/// One experiment's database and the server on it, which comes back on the same port when it is restarted.
pub(crate) struct ChainWorld {
    database: Database,
    server: Option<Gateway>,
    address: SocketAddr,
    settings: Vec<(&'static str, String)>,
    network: Network,
    /// Who hands in the blocks.
    pub(crate) indexer: Indexer,
}

impl ChainWorld {
    /// Makes the database, starts the server, and hands in a first block without events. Settings are named as in `chains.confirmations`.
    pub(crate) async fn begin(
        databases: &Databases,
        network: Network,
        settings: &[(&'static str, &str)],
    ) -> anyhow::Result<Self> {
        let database = databases.fresh().await?;
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        network.spoil(address).await?;
        let settings = settings.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let indexer = Indexer::new(address);
        let mut world = Self { database, server: None, address, settings, network, indexer };
        world.start_server().await?;
        // A chain is known once a block of it is there.
        world.indexer.mine(&[0]).await?;
        Ok(world)
    }

    /// Stops the server and deletes the database.
    pub(crate) async fn end(mut self) -> anyhow::Result<()> {
        self.drain_server().await?;
        self.database.discard().await
    }

    /// Where the server listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// A connection of its own between clients and the server, over the network of this run, that can be cut.
    pub(crate) fn line(&self) -> anyhow::Result<FaultyProxy> {
        self.network.line(self.address)
    }

    /// A connection that speaks SQL to the same database.
    pub(crate) async fn plain_sql(&self) -> anyhow::Result<PlainSql> {
        self.database.plain_sql().await
    }

    /// The memory of the server that is in RAM now.
    pub(crate) fn server_bytes(&self) -> anyhow::Result<u64> {
        self.server()?.resident_bytes()
    }

    /// Starts the server where it was.
    pub(crate) async fn start_server(&mut self) -> anyhow::Result<()> {
        let server = server::serve_at(&self.database.url(), self.address, &self.settings).await?;
        self.server = Some(server);
        Ok(())
    }

    /// Kills the server at once.
    pub(crate) async fn kill_server(&mut self) -> anyhow::Result<()> {
        let mut server = self.server.take().context("the server is stopped")?;
        tokio::task::spawn_blocking(move || server.kill_9()).await?
    }

    /// Stops the server as an operator would.
    pub(crate) async fn drain_server(&mut self) -> anyhow::Result<()> {
        match self.server.take() {
            Some(server) => server::stop(server).await,
            None => Ok(()),
        }
    }

    /// Stops the server where it stands; what it is sent waits.
    pub(crate) fn freeze_server(&mut self) -> anyhow::Result<()> {
        self.server.as_mut().context("the server is stopped")?.freeze()
    }

    /// What lets it go on.
    pub(crate) fn thaw(&self) -> anyhow::Result<impl FnOnce() -> anyhow::Result<()> + use<>> {
        let pid = Pid::from_raw(self.server()?.pid().cast_signed());
        Ok(move || signal::kill(pid, Signal::SIGCONT).context("letting the server go on"))
    }

    fn server(&self) -> anyhow::Result<&Gateway> {
        self.server.as_ref().context("the server is stopped")
    }
}
