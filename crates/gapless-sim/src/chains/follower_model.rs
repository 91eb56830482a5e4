//! A follower without its sockets: the real [`route`], [`Walk`], [`chained`], [`check_logs`], [`RangePolicy`] and [`Endpoints`], and the
//! sequence of its steps in the shape of the real one. A crash may come between any two of them.

mod gathering;

use std::convert::Infallible;
use std::time::{Duration, Instant};

use gapless_chain::{
    Break, Choice, Endpoints, Header, Heights, Outcome, RangePolicy, RangeStep, Route, Start, Trouble, Walk,
    WalkBounds, Want, backfill_end, chained, route,
};
use gapless_core::BlockRefusal;
use gapless_proto::{Block, BlockHash, BlockNumber, BlockRef};
use gapless_store::{ChainInfo, Ingestion};

use super::coverage::ChainLandmark;
use super::errand::{Desk, Errand};
use super::fault::ChainFault;
use super::node_model::{Answer, Ask};
use crate::store_model::Down;

/// The bounds of a follower; small, so that they are reached.
#[derive(Debug, Clone, Copy)]
pub(super) struct FollowerConfig {
    pub(super) start: Start,
    pub(super) window: u64,
    pub(super) live_blocks: u64,
    pub(super) batch_blocks: usize,
    pub(super) range_blocks_max: u64,
    pub(super) poll: Duration,
    pub(super) nodes: usize,
    pub(super) stall_timeout: Duration,
}

/// What a follower wants.
#[derive(Debug)]
pub(super) enum Request {
    /// An answer of a node.
    Node { node: usize, ask: Ask },
    /// Where the feed is.
    Info,
    /// Which of these blocks are kept, and whether they are canonical.
    Kept(Vec<BlockHash>),
    /// Blocks to be taken.
    Ingest(Ingestion),
    /// To be woken then, or when the node announces a head.
    Rest { until: Instant, node: Option<usize> },
    /// An operator: what a node has contradicts a block that can't be taken back.
    Alarm,
    /// Nothing; something worth noting has happened.
    Note(ChainLandmark),
}

/// What came of a request; it fits.
#[derive(Debug)]
pub(super) enum Reply {
    Node(Answer),
    Info(Result<Option<ChainInfo>, Down>),
    Kept(Result<Vec<(BlockHash, bool)>, Down>),
    Ingested(Result<Result<(), BlockRefusal>, Down>),
    Done,
}

/// One life of a follower.
pub(super) type FollowerModel = Errand<Request, Reply, Infallible>;

/// Starts one.
pub(super) fn start(
    config: FollowerConfig,
    fault: Option<ChainFault>,
    seed: u64,
    now: Instant,
) -> FollowerModel {
    let endpoints = Endpoints::new(config.nodes, config.stall_timeout, seed);
    Errand::new(now, |desk| follow(Questions { desk, fault }, config, endpoints))
}

/// Why a round ended early. What was taken until then stays and is right.
#[derive(Debug)]
enum Failure {
    Node(Trouble),
    /// The blocks of a range aren't on the one before it.
    Fork(Header),
    Store,
    DeepReorg,
}

impl From<Down> for Failure {
    fn from(Down: Down) -> Self {
        Self::Store
    }
}

/// How long to wait after the store failed.
const STORE_PAUSE: Duration = Duration::from_secs(1);

async fn follow(questions: Questions, config: FollowerConfig, mut endpoints: Endpoints) -> Infallible {
    let mut asked = None;
    let mut is_due = true;
    let mut policies = vec![RangePolicy::new(config.range_blocks_max); config.nodes];
    loop {
        let now = questions.desk.now();
        let node = match endpoints.choose(now) {
            Choice::Wait(until) => {
                questions.rest(until, None).await;
                continue;
            }
            Choice::Ask(node) => node,
        };
        if asked.replace(node) == Some(node) && !is_due {
            questions.rest(now + config.poll, Some(node)).await;
        }
        let round = Round { questions: &questions, config, node };
        match round.run(&mut policies[node]).await {
            Ok((head, has_more)) => {
                is_due = has_more;
                endpoints.handle_success(node);
                if endpoints.handle_head(node, head, questions.desk.now()) {
                    questions.note(ChainLandmark::NodeStalled).await;
                }
            }
            Err(failure) => {
                is_due = true;
                let trouble = match failure {
                    Failure::Store => {
                        questions.rest(questions.desk.now() + STORE_PAUSE, None).await;
                        continue;
                    }
                    Failure::Node(trouble) => trouble,
                    Failure::Fork(_) => Trouble::UnknownBlock,
                    Failure::DeepReorg => {
                        questions.alarm().await;
                        Trouble::Untrustworthy
                    }
                };
                endpoints.handle_failure(node, trouble, questions.desk.now());
            }
        }
    }
}

/// One look at a node, and all that follows from it.
struct Round<'a> {
    questions: &'a Questions,
    config: FollowerConfig,
    node: usize,
}

impl Round<'_> {
    /// Brings the store to the head that the node has. Returns that, and whether there is more to do at once.
    async fn run(&self, policy: &mut RangePolicy) -> Result<(BlockRef, bool), Failure> {
        let head = self.header(Ask::Latest).await?.ok_or(Failure::Node(Trouble::UnknownBlock))?;
        let at = head.at;
        let info = self.questions.info().await?;
        let have = info.and_then(|info| info.block);
        if self.questions.fault == Some(ChainFault::LowerHeadIsReorg) && self.is_lower(at, have).await? {
            let taken = self.ingest(Vec::new(), Some(at.hash), None).await?;
            return taken.map(|()| (at, false)).map_err(|_| Failure::Node(Trouble::UnknownBlock));
        }
        let bounds = WalkBounds {
            have,
            finalized: info.and_then(|info| info.finalized),
            window: self.config.window,
            batch_blocks: self.config.batch_blocks,
        };
        match (route(have, at, self.config.start, self.config.live_blocks), have) {
            (Route::Wait, _) => Ok((at, false)),
            (Route::Begin(first), _) => {
                let first = self.first(first, at.number).await?;
                self.walk(bounds, first).await?;
                Ok((at, true))
            }
            (Route::Backfill, Some(have)) => {
                self.close_in(have, head, bounds, policy).await?;
                Ok((at, true))
            }
            (Route::Walk | Route::Backfill, _) => {
                self.walk(bounds, head).await?;
                self.settle(bounds.finalized).await?;
                Ok((at, false))
            }
        }
    }

    /// Whether the store has a head that builds on the node's.
    async fn is_lower(&self, head: BlockRef, have: Option<BlockRef>) -> Result<bool, Failure> {
        let kept = self.questions.kept(vec![head.hash]).await?;
        Ok(have.is_some_and(|have| head.number < have.number) && kept == [(head.hash, true)])
    }

    async fn close_in(
        &self,
        have: BlockRef,
        head: Header,
        bounds: WalkBounds,
        policy: &mut RangePolicy,
    ) -> Result<(), Failure> {
        let finalized = self.header(Ask::Finalized).await?.map(|header| header.at.number);
        let to = backfill_end(head.at, finalized, self.config.live_blocks);
        match self.backfill(have, to, finalized, policy).await {
            Err(Failure::Fork(header)) => self.walk(bounds, header).await,
            Ok(0) if head.at.number.below(self.config.window) <= have.number => self.walk(bounds, head).await,
            Ok(0) => Err(Failure::Node(Trouble::UnknownBlock)),
            done => done.map(drop),
        }
    }

    /// The first block there is from a height on.
    async fn first(&self, from: BlockNumber, to: BlockNumber) -> Result<Header, Failure> {
        for height in from.get()..=to.get() {
            let number = BlockNumber::new(height).unwrap_or(to);
            if let Some(header) = self.header(Ask::Number(number)).await? {
                return Ok(header);
            }
        }
        Err(Failure::Node(Trouble::UnknownBlock))
    }

    async fn walk(&self, bounds: WalkBounds, head: Header) -> Result<(), Failure> {
        let mut walk = Walk::new(bounds, head);
        loop {
            match walk.want() {
                Want::Kept(hashes) => walk.handle_kept(&self.questions.kept(hashes).await?),
                Want::Header(hash) => walk.handle_header(self.header(Ask::Header(hash)).await?),
                Want::Blocks(headers) => {
                    let mut blocks = Vec::new();
                    for header in headers {
                        blocks.push(self.block(header).await?);
                    }
                    walk.handle_blocks(blocks);
                }
                Want::Ingest { blocks, head } => match self.ingest(blocks, head, None).await? {
                    Ok(()) => walk.handle_ingested(),
                    Err(refusal) => walk.handle_refusal(refusal),
                },
                Want::Nothing(outcome) => return self.ended(outcome).await,
            }
        }
    }

    /// Takes blocks by ranges. Returns how many there were.
    async fn backfill(
        &self,
        have: BlockRef,
        to: BlockNumber,
        finalized: Option<BlockNumber>,
        policy: &mut RangePolicy,
    ) -> Result<usize, Failure> {
        let (mut after, mut taken) = (have, 0);
        loop {
            let blocks = self.range(after, to, policy).await?;
            let Some(last) = blocks.last().map(Block::at) else { return Ok(taken) };
            self.questions.note(ChainLandmark::RangeTaken).await;
            taken += blocks.len();
            let finalized = finalized.map(|finalized| finalized.min(last.number));
            if let Err(refusal) = self.ingest(blocks, Some(last.hash), finalized).await? {
                self.refused(refusal).await?;
            }
            if last.number >= to {
                return Ok(taken);
            }
            after = last;
        }
    }

    /// The next blocks after one, as many as the node gives at once.
    async fn range(
        &self,
        after: BlockRef,
        to: BlockNumber,
        policy: &mut RangePolicy,
    ) -> Result<Vec<Block>, Failure> {
        let mut from = above(after.number);
        while from <= to {
            let heights = policy.next(Heights { from, to });
            match self.range_of(after.hash, heights).await {
                Ok(blocks) if blocks.is_empty() => from = above(heights.to),
                Ok(blocks) => {
                    policy.handle_answer();
                    return Ok(blocks);
                }
                Err(Failure::Node(trouble)) => match policy.handle_trouble(heights, trouble) {
                    RangeStep::AskForLess => {}
                    RangeStep::OneByOne => return Err(Failure::Node(Trouble::Passing)),
                    RangeStep::GiveUp => return Err(Failure::Node(trouble)),
                },
                Err(failure) => return Err(failure),
            }
        }
        Ok(Vec::new())
    }

    async fn range_of(&self, after: BlockHash, heights: Heights) -> Result<Vec<Block>, Failure> {
        let Answer::Headers(headers) = self.answer(Ask::Headers(heights)).await? else {
            unreachable!("the answer fits the question")
        };
        let logs = self.logs(Ask::LogsIn(heights)).await?;
        let headers = chained(after, headers).map_err(|broken| match broken {
            Break::Fork(header) => Failure::Fork(header),
            Break::Torn { .. } => Failure::Node(Trouble::UnknownBlock),
        })?;
        let mut blocks = Vec::new();
        for header in headers {
            let hash = Some(alloy_primitives::B256::from(header.at.hash.0));
            let logs = logs.iter().filter(|log| log.block_hash == hash).cloned().collect();
            blocks.push(self.block_with(header, logs).await?);
        }
        Ok(blocks)
    }

    /// Tells the store what is final now, if it holds the very block that the node calls so.
    async fn settle(&self, known: Option<BlockNumber>) -> Result<(), Failure> {
        let at = self.header(Ask::Finalized).await?.map(|header| header.at);
        let Some(at) = at.filter(|at| Some(at.number) > known) else {
            return Ok(());
        };
        if self.questions.kept(vec![at.hash]).await? == [(at.hash, true)]
            && let Err(refusal) = self.ingest(Vec::new(), None, Some(at.number)).await?
        {
            return self.refused(refusal).await;
        }
        Ok(())
    }

    async fn ingest(
        &self,
        blocks: Vec<Block>,
        head: Option<BlockHash>,
        finalized: Option<BlockNumber>,
    ) -> Result<Result<(), BlockRefusal>, Down> {
        let ingestion = Ingestion { blocks, head, finalized, window: self.config.window };
        self.questions.ingest(ingestion).await
    }

    async fn refused(&self, refusal: BlockRefusal) -> Result<(), Failure> {
        self.ended(match refusal {
            BlockRefusal::MissingParent { .. } | BlockRefusal::UnknownHead => Outcome::Moved,
            BlockRefusal::NotAboveParent { .. } => Outcome::Nonsense,
            BlockRefusal::DeepReorg { floor } | BlockRefusal::TooOld { oldest: floor } => {
                Outcome::DeepReorg { floor }
            }
        })
        .await
    }

    async fn ended(&self, outcome: Outcome) -> Result<(), Failure> {
        match outcome {
            Outcome::Arrived => Ok(()),
            Outcome::Lags => {
                self.questions.note(ChainLandmark::NodeLagged).await;
                Ok(())
            }
            Outcome::Behind { .. } | Outcome::Moved => Err(Failure::Node(Trouble::UnknownBlock)),
            Outcome::Nonsense => Err(Failure::Node(Trouble::Untrustworthy)),
            Outcome::DeepReorg { .. } => Err(Failure::DeepReorg),
        }
    }
}

fn above(number: BlockNumber) -> BlockNumber {
    BlockNumber::new(number.get() + 1).unwrap_or(number)
}

/// The questions of a follower, each with its answer.
struct Questions {
    desk: Desk<Request, Reply>,
    fault: Option<ChainFault>,
}

impl Questions {
    async fn node(&self, node: usize, ask: Ask) -> Answer {
        let Reply::Node(answer) = self.desk.ask(Request::Node { node, ask }).await else {
            unreachable!("the reply fits the request")
        };
        answer
    }

    async fn info(&self) -> Result<Option<ChainInfo>, Down> {
        let Reply::Info(info) = self.desk.ask(Request::Info).await else {
            unreachable!("the reply fits the request")
        };
        info
    }

    async fn kept(&self, hashes: Vec<BlockHash>) -> Result<Vec<(BlockHash, bool)>, Down> {
        let Reply::Kept(kept) = self.desk.ask(Request::Kept(hashes)).await else {
            unreachable!("the reply fits the request")
        };
        kept
    }

    async fn ingest(&self, ingestion: Ingestion) -> Result<Result<(), BlockRefusal>, Down> {
        let Reply::Ingested(ingested) = self.desk.ask(Request::Ingest(ingestion)).await else {
            unreachable!("the reply fits the request")
        };
        ingested
    }

    async fn rest(&self, until: Instant, node: Option<usize>) {
        self.desk.ask(Request::Rest { until, node }).await;
    }

    async fn alarm(&self) {
        self.desk.ask(Request::Alarm).await;
    }

    async fn note(&self, landmark: ChainLandmark) {
        self.desk.ask(Request::Note(landmark)).await;
    }
}
