//! An indexer that hands in blocks, and so knows what is canonical.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, bail};
use gapless_proto::{BlockNumber, ChainPoint};
use tokio::time::timeout;

use super::{CHAIN, Held, PATIENCE};
use crate::elapse::elapse;
use crate::http;
use crate::moment::{self, Moment};

/// Mines a chain in memory and hands its blocks to a server. Every event has a number of its own, whatever becomes of it, and a value
/// with that number for its key; so a snapshot tells which events it stands for.
#[derive(Debug)]
pub(crate) struct Indexer {
    server: SocketAddr,
    blocks: Vec<MinedBlock>,
    /// How often the chain was reorganised: blocks of different branches have different hashes.
    branch: u64,
    next_number: u64,
    padding: String,
}

/// A canonical block.
#[derive(Debug, Clone)]
struct MinedBlock {
    number: u64,
    branch: u64,
    events: Vec<u64>,
    mined_at: Moment,
}

impl Indexer {
    /// One that hands in to a server which lets everyone in.
    pub(crate) fn new(server: SocketAddr) -> Self {
        Self { server, blocks: Vec::new(), branch: 0, next_number: 0, padding: String::new() }
    }

    /// Makes the payloads of the events to come about so long.
    pub(crate) fn pad_payloads(&mut self, bytes: usize) {
        self.padding = "x".repeat(bytes);
    }

    /// Mines blocks with so many events each, and hands them in one by one.
    pub(crate) async fn mine(&mut self, blocks: &[u64]) -> anyhow::Result<()> {
        for events in blocks {
            self.append(*events);
            self.hand_in(1).await?;
        }
        Ok(())
    }

    /// Takes the newest blocks back, and mines others in their place, which are handed in together.
    pub(crate) async fn reorganise(&mut self, depth: usize, blocks: &[u64]) -> anyhow::Result<()> {
        let kept = self.blocks.len().checked_sub(depth).context("there are no more blocks to take back")?;
        self.blocks.truncate(kept);
        self.branch += 1;
        for events in blocks {
            self.append(*events);
        }
        self.hand_in(blocks.len()).await
    }

    /// The number that the next event will have.
    pub(crate) fn next_number(&self) -> u64 {
        self.next_number
    }

    /// The canonical events, oldest first.
    pub(crate) fn canonical(&self) -> Vec<Held> {
        let held_of = |block: &MinedBlock| {
            let number = BlockNumber::new(block.number).expect("a chain of the lab is short");
            let events = block.events.iter().zip(0..);
            events
                .map(|(event, log)| Held { point: ChainPoint { block: number, log }, number: *event })
                .collect::<Vec<_>>()
        };
        self.blocks.iter().flat_map(held_of).collect()
    }

    fn append(&mut self, events: u64) {
        let first = self.next_number;
        self.next_number += events;
        self.blocks.push(MinedBlock {
            number: self.blocks.last().map_or(1, |last| last.number + 1),
            branch: self.branch,
            events: (first..self.next_number).collect(),
            mined_at: moment::now(),
        });
    }

    /// Hands in the newest blocks, until the server has them.
    async fn hand_in(&self, newest: usize) -> anyhow::Result<()> {
        let from = self.blocks.len() - newest;
        let blocks: Vec<_> = (from..self.blocks.len()).map(|index| self.block(index)).collect();
        let body = format!(r#"{{"blocks":[{}]}}"#, blocks.join(","));
        let path = format!("/v1/chains/{CHAIN}/blocks?user=indexer");
        let handing_in = async {
            loop {
                match http::post(self.server, &path, &body).await {
                    Ok(answer) if answer.status == 200 => return Ok(()),
                    Ok(answer) if answer.status < 500 => bail!("a block was refused: {}", answer.body),
                    // The server is down, or about to go.
                    Ok(_) | Err(_) => elapse(RETRY_PAUSE).await,
                }
            }
        };
        timeout(PATIENCE, handing_in).await.context("the server takes no blocks")?
    }

    fn block(&self, index: usize) -> String {
        let MinedBlock { number, events, mined_at, .. } = &self.blocks[index];
        let parent = index.checked_sub(1).map_or_else(|| hash(0, 0), |parent| self.hash(parent));
        let events: Vec<_> =
            events.iter().zip(0_u32..).map(|(event, log)| self.event(*event, log, *mined_at)).collect();
        format!(
            r#"{{"number":{number},"hash":"{}","parent":"{parent}","time":{number},"events":[{}]}}"#,
            self.hash(index),
            events.join(",")
        )
    }

    fn event(&self, number: u64, log: u32, mined_at: Moment) -> String {
        let padding = &self.padding;
        format!(
            r#"{{"log":{log},"topic":"transfers","payload":{{"number":{number},"mined_at":{mined_at},"padding":"{padding}"}},"changes":[{{"key":"{number}","set":{number}}}]}}"#
        )
    }

    fn hash(&self, index: usize) -> String {
        let MinedBlock { number, branch, .. } = self.blocks[index];
        hash(number, branch)
    }
}

fn hash(number: u64, branch: u64) -> String {
    format!("0x{branch:032x}{number:032x}")
}

const RETRY_PAUSE: Duration = Duration::from_millis(20);
