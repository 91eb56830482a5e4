//! What the follower tells of its work.

use std::time::Duration;

use gapless_proto::{BlockNumber, BlockRef};
use tokio::sync::mpsc;

use crate::errors::Trouble;
use crate::topics::Undecodable;

/// Something worth a log line, a metric or a call in the night. Nodes are named by their place in the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// The state of a node changed.
    Node {
        /// Which node.
        node: usize,
        /// Its state.
        state: NodeState,
    },
    /// Where the node and the store are. The difference of their heights is the lag.
    Heads {
        /// Which node.
        node: usize,
        /// Its newest block.
        head: BlockRef,
        /// The newest block of the store; `None` when it has none.
        have: Option<BlockRef>,
    },
    /// A range of old blocks was ingested.
    Backfill {
        /// Where this backfill began.
        from: BlockNumber,
        /// How far it has come.
        at: BlockNumber,
        /// Where it ends.
        to: BlockNumber,
    },
    /// Blocks were ingested.
    Ingested {
        /// The newest block of the store.
        head: Option<BlockRef>,
        /// How many blocks were new.
        blocks: usize,
        /// How many events are in what was handed over.
        events: usize,
    },
    /// Blocks were taken back.
    Reorg {
        /// How many.
        depth: usize,
        /// The newest block of the store.
        head: Option<BlockRef>,
    },
    /// The logs of a block were asked for again, since what came first couldn't be.
    Refetched {
        /// The block.
        block: BlockRef,
        /// What was wrong.
        reason: String,
    },
    /// A log only looks like the event of a topic; it is no event of the feed.
    Undecodable {
        /// Its block.
        block: BlockRef,
        /// The log.
        log: Undecodable,
    },
    /// The store failed; the follower tries again.
    Store {
        /// Why, for the log.
        reason: String,
    },
    /// The follower can't go on without somebody. Comes again for as long as it holds.
    Alarm(Alarm),
}

/// What somebody has to decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Alarm {
    /// A node contradicts what can't be taken back any more. Either the node is wrong: remove it; or the feed is: begin it anew with
    /// [`restart_chain`](gapless_store::ChainStore::restart_chain), and the follower fills it again.
    DeepReorg {
        /// Which node.
        node: usize,
        /// Its newest block.
        head: BlockRef,
        /// The lowest block that a reorg may leave as the last that holds.
        floor: BlockNumber,
    },
    /// The store refuses an event, as when a balance isn't a number.
    Refused {
        /// Why.
        reason: String,
    },
}

/// How a node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeState {
    /// It is connected, and of the right chain.
    Connected,
    /// It failed, and isn't asked for a while.
    Failed {
        /// What the trouble is.
        trouble: Trouble,
        /// For the log; holds no address.
        reason: String,
        /// For how long it isn't asked.
        pause: Duration,
        /// How often it has failed in a row, from 1.
        failures: u32,
    },
    /// It failed before, and now answers all that it is asked.
    Recovered {
        /// How often it had failed.
        failures: u32,
    },
    /// It answers, but its head stands still; another is asked.
    Stalled,
}

/// Sends reports. When the channel is full they are dropped: following goes before telling of it.
#[derive(Debug, Clone)]
pub(crate) struct Reporter(pub(crate) mpsc::Sender<Report>);

impl Reporter {
    pub(crate) fn tell(&self, report: Report) {
        if self.0.try_send(report).is_err() {
            tracing::trace!("a report found no room or no reader");
        }
    }
}
