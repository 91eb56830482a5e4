//! The follower: asks nodes for news and brings the store to it.

use std::convert::Infallible;
use std::hash::{BuildHasher as _, RandomState};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use alloy_primitives::U256;
use gapless_proto::{BlockHash, BlockNumber};
use gapless_store::ChainInfo;
use tokio::sync::mpsc;
use tokio::time::{self, Instant};

use crate::config::{ConfigError, FollowConfig};
use crate::doubts::Doubts;
use crate::endpoints::{Choice, Endpoints, Failure};
use crate::errors::Trouble;
use crate::gather::{Gather, GatherError};
use crate::node::error::NodeError;
use crate::node::{NewHeads, Node, Tag};
use crate::range_policy::RangePolicy;
use crate::report::{Alarm, NodeState, Report, Reporter};
use crate::round::{Round, RoundError, Seen, remedy};
use crate::sink::Sink;
use crate::topics::Topics;

/// Follows one chain and keeps a store up to date with it.
///
/// It holds nothing that a restart would lose: each look at a node begins with what the store has. One ingestion is under way at a
/// time.
pub struct Follower<S> {
    config: FollowConfig,
    topics: Arc<Topics>,
    sink: S,
    reporter: Reporter,
    endpoints: Endpoints,
    connections: Vec<Option<Connection>>,
    /// How much each node is asked for at once.
    policies: Vec<RangePolicy>,
    /// The node that was asked last.
    asked: Option<usize>,
    /// Whether to look at once.
    is_due: bool,
    genesis: Option<BlockHash>,
    doubts: Doubts,
}

struct Connection {
    node: Node,
    new_heads: Option<NewHeads>,
}

impl<S: Sink> Follower<S> {
    /// Prepares to follow. Reports go to `reports`; they are dropped when it is full, and alarms are repeated.
    pub fn new(
        config: FollowConfig,
        topics: Topics,
        sink: S,
        reports: mpsc::Sender<Report>,
    ) -> Result<Self, ConfigError> {
        config.check()?;
        let nodes = config.nodes.len();
        Ok(Self {
            endpoints: Endpoints::new(nodes, config.stall_timeout, RandomState::new().hash_one("pauses")),
            connections: (0..nodes).map(|_| None).collect(),
            policies: vec![RangePolicy::new(config.range_blocks_max); nodes],
            asked: None,
            is_due: true,
            genesis: config.genesis,
            doubts: Doubts::default(),
            reporter: Reporter(reports),
            config,
            topics: Arc::new(topics),
            sink,
        })
    }

    /// Follows until `shutdown` is there. What is being ingested then is stored or not, as after a crash; both are right.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) {
        let shutdown = pin!(shutdown);
        tokio::select! {
            () = shutdown => {}
            never = self.follow() => match never {},
        }
    }

    async fn follow(&mut self) -> Infallible {
        loop {
            match self.endpoints.choose(Instant::now().into_std()) {
                Choice::Wait(until) => time::sleep_until(until.into()).await,
                Choice::Ask(index) => match self.ask(index).await {
                    Ok(seen) => self.handle_seen(index, seen),
                    Err(error) => self.handle_error(index, error).await,
                },
            }
        }
    }

    async fn ask(&mut self, index: usize) -> Result<Seen, RoundError> {
        if self.asked.replace(index) != Some(index) {
            self.is_due = true;
        }
        let mut connection = match self.connections[index].take() {
            Some(connection) => connection,
            None => {
                self.is_due = true;
                self.connect(index).await?
            }
        };
        if !self.is_due {
            connection.wake(self.config.poll).await?;
        }
        let round = Round {
            config: &self.config,
            sink: &self.sink,
            gather: Gather { node: &connection.node, topics: &self.topics, believed: self.doubts.believed() },
            reporter: &self.reporter,
            index,
            has_progressed: AtomicBool::new(false),
        };
        let seen = round.run(&mut self.policies[index]).await;
        if round.has_progressed.into_inner() {
            // What comes now is a new failure, not one more in a row.
            self.handle_success(index);
        }
        let is_kept = match &seen {
            Ok(_) => true,
            Err(RoundError::Gather(error)) => is_connected(error.trouble()),
            Err(RoundError::Store(_) | RoundError::Refused(_) | RoundError::DeepReorg { .. }) => true,
        };
        if is_kept {
            self.connections[index] = Some(connection);
        }
        seen
    }

    /// Connects to a node and makes sure that it is one of the chain.
    async fn connect(&mut self, index: usize) -> Result<Connection, NodeError> {
        let node = Node::connect(&self.config.nodes[index], &self.config).await?;
        let (chain, expected) = (node.chain_id().await?, self.config.chain);
        if chain != U256::from(expected.get()) {
            let reason = format!(
                "this is a node of chain {chain}, not of {expected}; remove it, or correct the chain"
            );
            return Err(NodeError::new(Trouble::Fatal, &reason));
        }
        self.check_genesis(&node).await?;
        let new_heads = node.new_heads().await?;
        self.reporter.tell(Report::Node { node: index, state: NodeState::Connected });
        Ok(Connection { node, new_heads })
    }

    /// Makes sure that a node has the same block 0 as the others, as far as it is known. What was learnt from a node holds until
    /// the feed begins anew.
    async fn check_genesis(&mut self, node: &Node) -> Result<(), NodeError> {
        let first = node.header_at(Tag::Number(BlockNumber::default())).await?;
        let first = first.ok_or_else(|| NodeError::new(Trouble::UnknownBlock, "the node has no block 0"))?;
        let (chain, genesis) = (self.config.chain, first.at.hash);
        let expected = *self.genesis.get_or_insert(genesis);
        if genesis == expected {
            return Ok(());
        }
        let is_empty = |info: Option<ChainInfo>| info.and_then(|info| info.block).is_none();
        if self.config.genesis.is_none() && self.sink.chain(chain).await.is_ok_and(is_empty) {
            self.genesis = Some(genesis);
            return Ok(());
        }
        let reason = format!(
            "the node's block 0 is {genesis}, not {expected}: it is of another chain with the same id, or was started anew; {}",
            remedy(chain)
        );
        Err(NodeError::new(Trouble::Fatal, &reason))
    }

    fn handle_seen(&mut self, index: usize, seen: Seen) {
        self.is_due = seen.has_more;
        self.handle_success(index);
        self.doubts.clear();
        if self.endpoints.handle_head(index, seen.head, Instant::now().into_std()) {
            self.reporter.tell(Report::Node { node: index, state: NodeState::Stalled });
        }
    }

    fn handle_success(&mut self, index: usize) {
        let failures = self.endpoints.handle_success(index);
        if failures > 0 {
            self.reporter.tell(Report::Node { node: index, state: NodeState::Recovered { failures } });
        }
    }

    async fn handle_error(&mut self, index: usize, error: RoundError) {
        self.is_due = true;
        let reason = error.to_string();
        let trouble = match error {
            RoundError::Store(error) => {
                self.reporter.tell(Report::Store { reason });
                return time::sleep(error.retry_after()).await;
            }
            RoundError::Gather(error) => {
                if let GatherError::Unsettled(blocks) = &error {
                    self.doubts.note(blocks.iter().map(|block| block.hash));
                }
                error.trouble()
            }
            RoundError::Refused(_) => {
                self.reporter.tell(Report::Alarm(Alarm::Refused { reason: reason.clone() }));
                Trouble::Untrustworthy
            }
            RoundError::DeepReorg { head, floor } => {
                self.reporter.tell(Report::Alarm(Alarm::DeepReorg { node: index, head, floor }));
                Trouble::Untrustworthy
            }
        };
        let now = Instant::now().into_std();
        let Failure { pause, failures } = self.endpoints.handle_failure(index, trouble, now);
        let state = NodeState::Failed { trouble, reason, pause, failures };
        self.reporter.tell(Report::Node { node: index, state });
    }
}

impl Connection {
    /// Waits until the node has announced something, or for the poll.
    async fn wake(&mut self, poll: time::Duration) -> Result<(), NodeError> {
        let Some(new_heads) = &mut self.new_heads else {
            time::sleep(poll).await;
            return Ok(());
        };
        match time::timeout(poll, new_heads.changed()).await {
            Ok(true) | Err(_) => Ok(()),
            Ok(false) => Err(NodeError::new(Trouble::Passing, "the connection ended")),
        }
    }
}

/// Whether a node that has given such an answer is the one that was checked, beyond doubt.
fn is_connected(trouble: Trouble) -> bool {
    match trouble {
        Trouble::RangeTooLarge(_)
        | Trouble::RateLimited { .. }
        | Trouble::UnknownBlock
        | Trouble::NullRound
        | Trouble::Unsupported => true,
        Trouble::TimedOut | Trouble::Passing | Trouble::Untrustworthy | Trouble::Fatal => false,
    }
}
