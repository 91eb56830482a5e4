//! Thousands of clients, in processes of their own.
//!
//! A process can only have so many open files, and an address only so many ports towards one server; so each process has at most
//! [`CLIENTS_A_PROCESS`] clients, which come from an address of the loopback network of their own.

mod member;
mod process;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use clap::ValueEnum;
use gapless_proto::TopicResetReason;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

pub(crate) use self::process::{Membership, live};
use crate::chain::Held;

/// How many clients a process has at most.
const CLIENTS_A_PROCESS: u64 = 12_000;
/// How long all of them may take to connect, or to catch up.
const PATIENCE: Duration = Duration::from_secs(600);

/// How clients wait before they come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub(crate) enum Pause {
    /// As `PROTOCOL.md` says: each a different time, and as long as the server asks for.
    Spread,
    /// All the same time.
    Even,
}

/// Clients that follow the topic of the lab from its beginning, and come back when they lose their connection.
pub(crate) struct Crowd {
    processes: Vec<Process>,
}

struct Process {
    _child: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

/// What became of a crowd. Times are in milliseconds since the Unix epoch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reunion {
    /// When somebody tried to come back.
    pub(crate) tries_ms: Vec<u64>,
    /// When somebody was back and had subscribed.
    pub(crate) returns_ms: Vec<u64>,
    /// How many hold the same in the end, by its digest.
    pub(crate) holding: BTreeMap<String, u64>,
    /// How many events were told twice.
    pub(crate) doubles: u64,
    /// Why they were reset.
    pub(crate) resets: Vec<TopicResetReason>,
}

impl Crowd {
    /// Starts so many clients, and waits until each has subscribed.
    pub(crate) async fn gather(server: SocketAddr, clients: u64, pause: Pause) -> anyhow::Result<Self> {
        let mut processes = Vec::new();
        let mut left = clients;
        while left > 0 {
            let members = left.min(CLIENTS_A_PROCESS);
            left -= members;
            let host = u8::try_from(2 + processes.len()).context("there are too many clients")?;
            processes.push(Process::start(server, members, Ipv4Addr::new(127, 0, 0, host), pause)?);
        }
        let mut crowd = Self { processes };
        for process in &mut crowd.processes {
            process.expect(READY).await?;
        }
        Ok(crowd)
    }

    /// Tells them which event is the last. It must not have come yet.
    pub(crate) async fn announce_last(&mut self, number: u64) -> anyhow::Result<()> {
        for process in &mut self.processes {
            process.orders.write_all(format!("{number}\n").as_bytes()).await?;
            process.expect(HEARD).await?;
        }
        Ok(())
    }

    /// Waits until each has been told the last event.
    pub(crate) async fn reunite(self) -> anyhow::Result<Reunion> {
        let mut all = Reunion::default();
        for mut process in self.processes {
            let reunion: Reunion = serde_json::from_str(&process.line().await?)?;
            all.include(reunion);
        }
        Ok(all)
    }
}

impl Process {
    fn start(server: SocketAddr, members: u64, source: Ipv4Addr, pause: Pause) -> anyhow::Result<Self> {
        let pause = pause.to_possible_value().context("every pause has a name")?;
        let program = std::env::current_exe().context("looking for this program")?;
        let mut child = Command::new(program)
            .args(["crowd", "--server", &server.to_string(), "--members", &members.to_string()])
            .args(["--source", &source.to_string(), "--pause", pause.get_name()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("starting clients")?;
        let orders = child.stdin.take().context("it has no standard input")?;
        let answers = child.stdout.take().context("it has no standard output")?;
        Ok(Self { _child: child, orders, answers: BufReader::new(answers).lines() })
    }

    async fn expect(&mut self, expected: &str) -> anyhow::Result<()> {
        let line = self.line().await?;
        if line != expected {
            bail!("the clients should have said {expected:?} and said {line:?}");
        }
        Ok(())
    }

    async fn line(&mut self) -> anyhow::Result<String> {
        let line = timeout(PATIENCE, self.answers.next_line()).await.context("the clients say nothing")??;
        line.context("the clients have ended")
    }
}

impl Reunion {
    fn include(&mut self, other: Self) {
        self.tries_ms.extend(other.tries_ms);
        self.returns_ms.extend(other.returns_ms);
        for (digest, count) in other.holding {
            *self.holding.entry(digest).or_default() += count;
        }
        self.doubles += other.doubles;
        self.resets.extend(other.resets);
    }

    /// How many hold exactly this.
    pub(crate) fn holding(&self, held: &[Held]) -> u64 {
        self.holding.get(&digest(held)).copied().unwrap_or(0)
    }
}

/// What tells two lists of events apart.
fn digest(held: &[Held]) -> String {
    let mut hasher = DefaultHasher::new();
    for Held { point, number } in held {
        (point.block.get(), point.log, number).hash(&mut hasher);
    }
    format!("{:016x}", hasher.finish())
}

/// Milliseconds since the Unix epoch, which processes have in common.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// The most moments that lie within a time of each other.
pub(crate) fn peak(moments_ms: &[u64], within: Duration) -> u64 {
    let mut sorted = moments_ms.to_vec();
    sorted.sort_unstable();
    let within_ms = within.as_millis() as u64;
    let counts = sorted
        .iter()
        .enumerate()
        .map(|(index, first)| sorted[index..].partition_point(|moment| moment - first < within_ms));
    counts.max().unwrap_or(0) as u64
}

const READY: &str = "ready";
const HEARD: &str = "heard";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_is_found_wherever_it_begins() {
        assert_eq!(peak(&[], Duration::from_millis(100)), 0);
        assert_eq!(peak(&[0, 90, 100, 110, 189, 190, 400], Duration::from_millis(100)), 4);
    }
}
