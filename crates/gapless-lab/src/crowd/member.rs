//! One client of a crowd: small, since there are many.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use gapless_core::{Backoff, BackoffConfig};
use gapless_proto::{Cursor, Mode};
use tokio::net::TcpSocket;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::Instant;

use super::{Pause, Reunion, digest, now_ms};
use crate::chain::{Fold, TopicReader, beginning};
use crate::elapse::elapse;

/// A client that keeps what it holds over its connections.
pub(super) struct Member {
    server: SocketAddr,
    source: Ipv4Addr,
    pause: Pause,
    /// The number of the last event, once it is known.
    last: watch::Receiver<Option<u64>>,
    backoff: Backoff,
    even_pause: Duration,
    fold: Fold,
    tries_ms: Vec<u64>,
    returns_ms: Vec<u64>,
}

impl Member {
    pub(super) fn new(
        server: SocketAddr,
        source: Ipv4Addr,
        pause: Pause,
        last: watch::Receiver<Option<u64>>,
    ) -> Self {
        Self {
            server,
            source,
            pause,
            last,
            backoff: Backoff::new(BackoffConfig::RECONNECT, rand::random()),
            even_pause: BackoffConfig::RECONNECT.base,
            fold: Fold::default(),
            tries_ms: Vec::new(),
            returns_ms: Vec::new(),
        }
    }

    /// Waits for its turn to connect, drops `subscribed` once it has subscribed, and ends with the last event.
    pub(super) async fn live(
        mut self,
        turn: Arc<Semaphore>,
        subscribed: mpsc::Sender<()>,
    ) -> anyhow::Result<Reunion> {
        let mut reader = {
            let _turn = turn.acquire().await?;
            self.connect_first().await
        };
        drop(subscribed);
        loop {
            let connected_at = Instant::now();
            let asked_to_wait = match self.read(&mut reader).await {
                Ok(()) => break,
                Err(_) => reader.reconnect_after(),
            };
            self.fold = reader.into_fold();
            if connected_at.elapsed() > HEALTHY_AFTER {
                self.proved_healthy();
            }
            reader = self.come_back(asked_to_wait).await;
        }
        let Self { tries_ms, returns_ms, .. } = self;
        let fold = reader.fold();
        let holding = [(digest(fold.held()), 1)].into();
        Ok(Reunion { tries_ms, returns_ms, holding, doubles: fold.doubles(), resets: fold.resets().to_vec() })
    }

    /// Connects, however often it takes.
    async fn connect_first(&mut self) -> TopicReader {
        loop {
            match self.connect().await {
                Ok(reader) => {
                    self.proved_healthy();
                    return reader;
                }
                Err(_) => elapse(self.next_pause()).await,
            }
        }
    }

    /// Begins with the shortest pause again.
    fn proved_healthy(&mut self) {
        self.backoff.reset();
        self.even_pause = BackoffConfig::RECONNECT.base;
    }

    /// Reads up to the last event.
    async fn read(&self, reader: &mut TopicReader) -> anyhow::Result<()> {
        loop {
            reader.next().await?;
            let newest = reader.fold().newest();
            if newest.is_some() && *self.last.borrow() == newest {
                return Ok(());
            }
        }
    }

    async fn come_back(&mut self, asked_to_wait: Option<Duration>) -> TopicReader {
        let mut pause = match (self.pause, asked_to_wait) {
            (Pause::Spread, Some(asked)) => asked,
            (Pause::Spread, None) | (Pause::Even, _) => self.next_pause(),
        };
        loop {
            elapse(pause).await;
            self.tries_ms.push(now_ms());
            if let Ok(reader) = self.connect().await {
                self.returns_ms.push(now_ms());
                return reader;
            }
            pause = self.next_pause();
        }
    }

    fn next_pause(&mut self) -> Duration {
        match self.pause {
            Pause::Spread => self.backoff.next_delay(),
            Pause::Even => {
                let pause = self.even_pause;
                self.even_pause = (pause * 2).min(BackoffConfig::RECONNECT.cap);
                pause
            }
        }
    }

    /// Connects, and goes on where it was.
    async fn connect(&mut self) -> anyhow::Result<TopicReader> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(IpAddr::V4(self.source), 0))?;
        let mut reader = TopicReader::connect_from(socket, self.server).await?;
        let cursor: Cursor = self.fold.cursor().cloned().map_or_else(beginning, Ok)?;
        reader.subscribe_with(self.fold.clone(), cursor, Mode::Instant).await?;
        Ok(reader)
    }
}

/// How long a connection must have lasted for the next failure to count as the first.
const HEALTHY_AFTER: Duration = Duration::from_secs(10);
