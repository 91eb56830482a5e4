//! The real client, and what it tells.

use std::net::SocketAddr;

use anyhow::{Context as _, bail};
use gapless_client::{
    Client, ClientConfig, ClientEvent, Credentials, Events, MemoryState, Topics, TopicsStart,
};
use gapless_proto::{DeviceId, Mode, UserId};
use tokio::time::timeout;

use super::{Fold, PATIENCE, Told, topic};

/// A client of the crate `gapless-client` that follows the topic, with all that it was told.
pub(crate) struct FollowingClient {
    client: Client,
    events: Events,
    told: Vec<Told>,
    fold: Fold,
    disconnects: u64,
}

impl FollowingClient {
    /// Starts, and subscribes.
    pub(crate) async fn start(server: SocketAddr, start: TopicsStart) -> anyhow::Result<Self> {
        let credentials = Credentials::Open { user: UserId::new("follower")?, device: DeviceId::new("lab")? };
        let config = ClientConfig::new(format!("http://{server}").parse()?, credentials);
        let (client, events) = Client::start(config, MemoryState::new()).await?;
        client.subscribe(Topics { names: vec![topic()?], mode: Mode::Instant, start }).await?;
        Ok(Self { client, events, told: Vec::new(), fold: Fold::default(), disconnects: 0 })
    }

    /// The next thing that is told of the subscription; `None` if the connection was lost.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<Told>> {
        loop {
            let event = timeout(PATIENCE, self.events.next()).await.context("the client tells nothing")?;
            match event.context("the client has ended")? {
                ClientEvent::Topics { told, .. } => {
                    if let Some(told) = Told::from_client(told).map(Told::anywhere) {
                        self.fold.take(&told)?;
                        if !matches!(told, Told::Progress(_)) {
                            self.told.push(told.clone());
                        }
                        return Ok(Some(told));
                    }
                }
                ClientEvent::TopicsRefused { code, message, .. } => {
                    bail!("a subscription was refused ({code}): {message}")
                }
                ClientEvent::Disconnected { .. } => {
                    self.disconnects += 1;
                    return Ok(None);
                }
                ClientEvent::Stopped(reason) => bail!("the client has ended: {reason}"),
                ClientEvent::Connected { .. }
                | ClientEvent::Entries { .. }
                | ClientEvent::UpToDate { .. }
                | ClientEvent::Reset { .. }
                | ClientEvent::Refused { .. }
                | ClientEvent::Sent(_)
                | ClientEvent::SendRefused(_)
                | ClientEvent::TokenExpiring { .. }
                | ClientEvent::Fault(_) => {}
            }
        }
    }

    /// Takes what is told until what is held fits.
    pub(crate) async fn follow_until(&mut self, fits: impl Fn(&Fold) -> bool) -> anyhow::Result<()> {
        while !fits(&self.fold) {
            self.next().await?;
        }
        Ok(())
    }

    /// Waits until it has lost its connection.
    pub(crate) async fn lose_connection(&mut self) -> anyhow::Result<()> {
        while self.next().await?.is_some() {}
        Ok(())
    }

    /// All that it was told, in order, but that nothing happened.
    pub(crate) fn told(&self) -> &[Told] {
        &self.told
    }

    /// What it holds.
    pub(crate) fn fold(&self) -> &Fold {
        &self.fold
    }

    /// How often a connection was lost, or didn't come about.
    pub(crate) fn disconnects(&self) -> u64 {
        self.disconnects
    }

    /// Ends it.
    pub(crate) async fn close(self) {
        self.client.close().await;
    }
}
