//! Clients of a [`PushServer`](crate::push_server::PushServer), as they are usually written.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use anyhow::Context as _;
use gapless_core::{Backoff, BackoffConfig};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::chain::PATIENCE;
use crate::elapse::elapse;
use crate::latencies::Latencies;
use crate::moment;
use crate::push_server::{Ask, Line};

/// A client that follows a server until it is stopped, and reconnects as ours does.
pub(crate) struct PushClient {
    task: JoinHandle<anyhow::Result<Shown>>,
    stop: watch::Sender<bool>,
    is_connected: watch::Receiver<bool>,
    newest: watch::Receiver<Option<u64>>,
}

/// What its user was shown.
#[derive(Debug)]
pub(crate) struct Shown {
    /// The numbers of the events that the screen shows.
    pub(crate) holding: BTreeSet<u64>,
    /// Those that came as they happened, or were pulled.
    pub(crate) told: BTreeSet<u64>,
    /// How many came again.
    pub(crate) doubles: u64,
    /// How long each took.
    pub(crate) latencies: Latencies,
}

impl PushClient {
    /// Begins with a question that is asked again over each connection.
    pub(crate) fn start(server: SocketAddr, ask: Ask) -> anyhow::Result<Self> {
        let (stop, is_stopped) = watch::channel(false);
        let (connected, is_connected) = watch::channel(false);
        let shown = Shown {
            holding: BTreeSet::new(),
            told: BTreeSet::new(),
            doubles: 0,
            latencies: Latencies::new()?,
        };
        let (newest_told, newest) = watch::channel(None);
        let following = Following { server, ask, connected, newest_told, shown, pulled: 0 };
        Ok(Self { task: tokio::spawn(following.run(is_stopped)), stop, is_connected, newest })
    }

    /// Waits until it is connected.
    pub(crate) async fn connected(&mut self) -> anyhow::Result<()> {
        let connected = self.is_connected.wait_for(|is| *is);
        timeout(PATIENCE, connected)
            .await
            .context("a client can't connect")?
            .context("the client has ended")?;
        Ok(())
    }

    /// Waits until it is told of an event.
    pub(crate) async fn told_of(&mut self, number: u64) -> anyhow::Result<()> {
        let told = self.newest.wait_for(|newest| *newest == Some(number));
        timeout(PATIENCE, told).await.context("a client isn't told")?.context("the client has ended")?;
        Ok(())
    }

    /// Ends it. Returns what it was shown.
    pub(crate) async fn stop(self) -> anyhow::Result<Shown> {
        self.stop.send_replace(true);
        self.task.await?
    }
}

struct Following {
    server: SocketAddr,
    ask: Ask,
    connected: watch::Sender<bool>,
    newest_told: watch::Sender<Option<u64>>,
    shown: Shown,
    /// Up to where the log was pulled.
    pulled: usize,
}

impl Following {
    async fn run(mut self, mut is_stopped: watch::Receiver<bool>) -> anyhow::Result<Shown> {
        let stopped = async move { is_stopped.wait_for(|is| *is).await.map(|_| ()) };
        tokio::select! {
            stopped = stopped => stopped.context("the client was dropped")?,
            failed = self.follow() => failed?,
        }
        Ok(self.shown)
    }

    /// Never ends by itself but with a fault of the lab's own.
    async fn follow(&mut self) -> anyhow::Result<()> {
        let mut backoff = Backoff::new(BackoffConfig::RECONNECT, rand::random());
        loop {
            if let Ok(stream) = TcpStream::connect(self.server).await {
                // Whatever ends a connection, another one is tried.
                self.follow_connection(stream).await.ok();
            }
            self.connected.send_replace(false);
            elapse(backoff.next_delay()).await;
        }
    }

    async fn follow_connection(&mut self, stream: TcpStream) -> anyhow::Result<()> {
        stream.set_nodelay(true)?;
        let mut lines = BufReader::new(stream).lines();
        let question = self.ask.clone();
        ask(&mut lines, &question).await?;
        self.connected.send_replace(true);
        let mut is_pulling = false;
        // Whether there was a signal while a pull was under way.
        let mut again = false;
        while let Some(line) = lines.next_line().await? {
            match serde_json::from_str(&line)? {
                Line::Signal if is_pulling => again = true,
                Line::Signal => {
                    is_pulling = true;
                    ask(&mut lines, &Ask::Pull { after: self.pulled }).await?;
                }
                Line::Pulled { lines: pulled, next } => {
                    self.pulled = next;
                    again |= !pulled.is_empty();
                    for line in pulled {
                        self.show(line)?;
                    }
                    is_pulling = std::mem::take(&mut again);
                    if is_pulling {
                        ask(&mut lines, &Ask::Pull { after: self.pulled }).await?;
                    }
                }
                line @ (Line::Event { .. } | Line::Removed { .. } | Line::Newest { .. }) => {
                    self.show(line)?
                }
            }
        }
        Ok(())
    }

    fn show(&mut self, line: Line) -> anyhow::Result<()> {
        match line {
            Line::Event { number, mined_at, .. } => {
                self.shown.holding.insert(number);
                self.newest_told.send_replace(Some(number));
                if self.shown.told.insert(number) {
                    self.shown.latencies.record(moment::since(mined_at))?;
                } else {
                    self.shown.doubles += 1;
                }
            }
            Line::Removed { number } => {
                self.shown.holding.remove(&number);
            }
            Line::Newest { numbers } => self.shown.holding = numbers.into_iter().collect(),
            Line::Signal | Line::Pulled { .. } => {}
        }
        Ok(())
    }
}

async fn ask(lines: &mut Lines<BufReader<TcpStream>>, ask: &Ask) -> anyhow::Result<()> {
    let line = serde_json::to_string(ask)? + "\n";
    Ok(lines.get_mut().write_all(line.as_bytes()).await?)
}
