//! When a client was told what.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

use crate::bench::filled_node::{CHAIN, TOKEN};
use crate::bench::frames::{self, Incoming};
use crate::raw_client::{Socket, connect_socket};

const PATIENCE: Duration = Duration::from_secs(20);
/// How much may have arrived that nobody has looked at.
const ARRIVALS_MAX: usize = 64;

/// One client, which notes when something arrives.
pub(super) struct Arrivals {
    arrived: mpsc::Receiver<Arrival>,
    reader: JoinHandle<anyhow::Result<()>>,
}

/// Something that arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub(super) at: Instant,
    pub(super) kind: Kind,
}

/// What arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Event,
    Revoke,
}

impl Arrivals {
    /// A bare client of a node, subscribed to the logs of the token.
    pub(super) async fn of_node(ws_url: &str) -> anyhow::Result<Self> {
        let address = ws_url.trim_start_matches("ws://");
        let stream = TcpStream::connect(address).await.context("connecting to the node")?;
        stream.set_nodelay(true)?;
        let (mut socket, _) = tokio_tungstenite::client_async(ws_url, stream).await?;
        let question = json!({
            "jsonrpc": "2.0", "id": 1, "method": "eth_subscribe", "params": ["logs", {"address": TOKEN}],
        });
        socket.send(Message::text(question.to_string())).await?;
        let answer = text(&mut socket).await?;
        if !answer.contains("\"result\"") {
            bail!("the node doesn't let anybody subscribe: {answer}");
        }
        Ok(Self::read(socket, |frame| frame.contains("eth_subscription").then_some(Kind::Event)))
    }

    /// A client of gapless, subscribed to the token's topic.
    pub(super) async fn of_gapless(server: SocketAddr) -> anyhow::Result<Self> {
        let mut socket = connect_socket(server, "ann", "latency").await?;
        socket.send(Message::text(frames::subscribe(&format!("chain:{CHAIN}:transfers"), None))).await?;
        let answer = text(&mut socket).await?;
        if frames::read(&answer) != Incoming::Subscribed {
            bail!("the server doesn't let anybody subscribe: {answer}");
        }
        Ok(Self::read(socket, |frame| match frames::read(frame) {
            Incoming::Event { .. } => Some(Kind::Event),
            Incoming::Revoke => Some(Kind::Revoke),
            Incoming::Sent { .. }
            | Incoming::Page
            | Incoming::Ping
            | Incoming::Subscribed
            | Incoming::Other { .. } => None,
        }))
    }

    /// What arrived next, or will.
    pub(super) async fn next(&mut self) -> anyhow::Result<Arrival> {
        let arrival = timeout(PATIENCE, self.arrived.recv()).await.context("nothing arrives")?;
        arrival.context("the connection ended")
    }

    /// Ends the connection.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        self.reader.abort();
        match self.reader.await {
            Ok(ended) => ended,
            Err(aborted) if aborted.is_cancelled() => Ok(()),
            Err(panicked) => Err(panicked.into()),
        }
    }

    fn read(mut socket: Socket, kind_of: fn(&str) -> Option<Kind>) -> Self {
        let (arrivals, arrived) = mpsc::channel(ARRIVALS_MAX);
        let reader = tokio::spawn(async move {
            while let Some(frame) = socket.next().await {
                let at = Instant::now();
                let Message::Text(frame) = frame? else { continue };
                if let Some(kind) = kind_of(&frame) {
                    arrivals.send(Arrival { at, kind }).await?;
                } else if frames::read(&frame) == Incoming::Ping {
                    socket.send(Message::text(frames::PONG)).await?;
                }
            }
            Ok(())
        });
        Self { arrived, reader }
    }
}

async fn text(socket: &mut Socket) -> anyhow::Result<String> {
    match timeout(PATIENCE, socket.next()).await.context("no answer comes")? {
        Some(Ok(Message::Text(text))) => Ok(text.as_str().to_owned()),
        other => bail!("unexpected: {other:?}"),
    }
}
