//! Push servers as they are usually written: events go to whoever is connected, over TCP, a line each.
//!
//! They are the baselines of the experiments, and honest ones: they push what is taken back, too, and a client of theirs reconnects as
//! ours does.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;

use crate::moment::Moment;

/// A line of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "snake_case")]
pub(crate) enum Line {
    /// Something happened.
    Event {
        /// Its number.
        number: u64,
        /// When.
        mined_at: Moment,
        /// Makes it as long as wanted.
        padding: String,
    },
    /// An event is void.
    Removed {
        /// Its number.
        number: u64,
    },
    /// The newest events that hold, as a list on a screen has them.
    Newest {
        /// Their numbers, oldest first.
        numbers: Vec<u64>,
    },
    /// There is more: pull.
    Signal,
    /// What came after a position of the log, and the position behind it.
    Pulled {
        /// What came.
        lines: Vec<Self>,
        /// The next question.
        next: usize,
    },
}

/// What a client asks for, a line each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "snake_case")]
pub(crate) enum Ask {
    /// Events as they happen.
    Push,
    /// The newest events, and then those that happen.
    RefreshAndPush,
    /// A signal whenever something happens.
    Signals,
    /// What came after a position of the log.
    Pull {
        /// The position.
        after: usize,
    },
}

/// A running server.
#[derive(Debug)]
pub(crate) struct PushServer {
    address: SocketAddr,
    pushes: broadcast::Sender<Line>,
    log: Arc<Mutex<Log>>,
    connections: JoinSet<()>,
}

/// What the server knows; only those who pull, or refresh, ever see it.
#[derive(Debug, Default)]
struct Log {
    lines: Vec<Line>,
    holding: Vec<u64>,
}

impl PushServer {
    /// Starts one whose clients may have `queue_max` lines waiting each. When more wait, the oldest are dropped, and nobody is told.
    pub(crate) async fn start(queue_max: usize) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("listening for a push server")?;
        let address = listener.local_addr()?;
        let pushes = broadcast::Sender::new(queue_max);
        let log = Arc::<Mutex<Log>>::default();
        let mut connections = JoinSet::new();
        connections.spawn(accept(listener, pushes.clone(), Arc::clone(&log)));
        Ok(Self { address, pushes, log, connections })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Something happened.
    pub(crate) fn push(&self, line: Line) {
        let mut log = self.log.lock().expect("nobody panics with the log");
        match &line {
            Line::Event { number, .. } => log.holding.push(*number),
            Line::Removed { number } => log.holding.retain(|held| held != number),
            Line::Newest { .. } | Line::Signal | Line::Pulled { .. } => {}
        }
        log.lines.push(line.clone());
        drop(log);
        // Without anybody connected nobody gets it.
        self.pushes.send(line).ok();
    }

    /// Ends it and its connections.
    pub(crate) async fn stop(mut self) {
        self.connections.shutdown().await;
    }
}

impl Log {
    fn newest(&self) -> Line {
        let from = self.holding.len().saturating_sub(NEWEST);
        Line::Newest { numbers: self.holding[from..].to_vec() }
    }

    fn pulled(&self, after: usize) -> Line {
        let lines = self.lines.get(after..).unwrap_or_default();
        let lines = lines.iter().take(PULLED_MAX).cloned().collect::<Vec<_>>();
        Line::Pulled { next: after + lines.len(), lines }
    }
}

async fn accept(listener: TcpListener, pushes: broadcast::Sender<Line>, log: Arc<Mutex<Log>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (pushes, log) = (pushes.subscribe(), Arc::clone(&log));
        // A client that went away is no fault.
        connections.spawn(async move { serve(stream, pushes, log).await.ok() });
    }
}

async fn serve(
    mut stream: TcpStream,
    mut pushes: broadcast::Receiver<Line>,
    log: Arc<Mutex<Log>>,
) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let (reading, mut writing) = stream.split();
    let mut asks = BufReader::new(reading).lines();
    let mut pushed = None;
    loop {
        let line = tokio::select! {
            ask = asks.next_line() => {
                let Some(ask) = ask? else { return Ok(()) };
                let ask: Ask = serde_json::from_str(&ask)?;
                let log = log.lock().expect("nobody panics with the log");
                match ask {
                    Ask::Push => {
                        pushed = Some(ask);
                        continue;
                    }
                    Ask::Signals => {
                        pushed = Some(ask);
                        Line::Signal
                    }
                    Ask::RefreshAndPush => {
                        pushed = Some(ask);
                        log.newest()
                    }
                    Ask::Pull { after } => log.pulled(after),
                }
            }
            push = pushes.recv() => match (push, &pushed) {
                (Ok(_), Some(Ask::Signals)) => Line::Signal,
                (Ok(line), Some(_)) => line,
                (Ok(_), None) => continue,
                (Err(RecvError::Lagged(_)), _) => continue,
                (Err(RecvError::Closed), _) => return Ok(()),
            },
        };
        let mut line = serde_json::to_string(&line)?;
        line.push('\n');
        writing.write_all(line.as_bytes()).await?;
    }
}

/// How many events a refresh shows.
const NEWEST: usize = 10;
/// How many lines are pulled at once.
const PULLED_MAX: usize = 100;
