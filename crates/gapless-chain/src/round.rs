//! One look at a node, and all that follows from it.

use std::convert::Infallible;
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};

use gapless_core::BlockRefusal;
use gapless_proto::{Block, BlockHash, BlockNumber, BlockRef, ChainId};
use gapless_store::{IngestError, Ingestion, StoreError};

use crate::ahead::{Ahead, Fetched};
use crate::config::FollowConfig;
use crate::errors::Trouble;
use crate::gather::{Gather, GatherError, Gathered};
use crate::node::Tag;
use crate::node::error::NodeError;
use crate::range_policy::{Heights, RangePolicy};
use crate::report::{Report, Reporter};
use crate::route::{Route, backfill_end, route};
use crate::sink::Sink;
use crate::walk::{Outcome, Walk, WalkBounds, Want};
use crate::wire::Header;

/// The most blocks of a walk that are ingested at once.
const WALK_BATCH_BLOCKS: u64 = 50;
/// Brings the store to the head that a node has.
pub(crate) struct Round<'a, S> {
    pub(crate) config: &'a FollowConfig,
    pub(crate) sink: &'a S,
    pub(crate) gather: Gather<'a>,
    pub(crate) reporter: &'a Reporter,
    /// Which node it is.
    pub(crate) index: usize,
    /// Whether the store took something, however the round ends.
    pub(crate) has_progressed: AtomicBool,
}

/// What a round came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The node's head.
    pub(crate) head: BlockRef,
    /// Whether there is more to do at once.
    pub(crate) has_more: bool,
}

/// Why a round ended early. What was ingested until then stays and is right.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RoundError {
    #[error(transparent)]
    Gather(#[from] GatherError),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store will never take this.
    #[error("{0}")]
    Refused(String),
    #[error("block {head} contradicts block {floor}, which can't be taken back")]
    DeepReorg { head: BlockRef, floor: BlockNumber },
}

impl From<NodeError> for RoundError {
    fn from(error: NodeError) -> Self {
        Self::Gather(error.into())
    }
}

impl<S: Sink> Round<'_, S> {
    pub(crate) async fn run(&self, policy: &mut RangePolicy) -> Result<Seen, RoundError> {
        let (latest, info) =
            tokio::join!(self.gather.node.header_at(Tag::Latest), self.sink.chain(self.config.chain));
        let head =
            latest?.ok_or_else(|| NodeError::new(Trouble::UnknownBlock, "the node has no newest block"))?;
        let info = info?;
        let have = info.and_then(|info| info.block);
        self.reporter.tell(Report::Heads { node: self.index, head: head.at, have });

        let bounds = WalkBounds {
            have,
            finalized: info.and_then(|info| info.finalized),
            window: self.config.window,
            batch_blocks: self.config.range_blocks_max.min(WALK_BATCH_BLOCKS) as usize,
        };
        let seen = Seen { head: head.at, has_more: false };
        match (route(have, head.at, self.config.start, self.config.live_blocks), have) {
            (Route::Wait, _) => Ok(seen),
            (Route::Begin(first), _) => {
                let first = self.first(Heights { from: first, to: head.at.number }).await?;
                self.walk(bounds, first).await?;
                Ok(Seen { has_more: true, ..seen })
            }
            (Route::Backfill, Some(have)) => {
                self.close_in(have, head, bounds, policy).await?;
                Ok(Seen { has_more: true, ..seen })
            }
            (Route::Walk | Route::Backfill, _) => {
                self.walk(bounds, head).await?;
                self.settle(bounds.finalized).await?;
                Ok(seen)
            }
        }
    }

    /// Takes blocks that are far below the head.
    async fn close_in(
        &self,
        have: BlockRef,
        head: Header,
        bounds: WalkBounds,
        policy: &mut RangePolicy,
    ) -> Result<(), RoundError> {
        let finalized = self.finalized().await?.map(|header| header.at.number);
        let to = backfill_end(head.at, finalized, self.config.live_blocks);
        match self.backfill(have, to, finalized, policy).await {
            // The node's chain leaves ours below; the walk finds where.
            Err(RoundError::Gather(GatherError::Fork(header))) => self.walk(bounds, header).await,
            // All heights in between may be left out; the walk finds what comes next, if that isn't far.
            Ok(0) if head.at.number.below(self.config.window) <= have.number => self.walk(bounds, head).await,
            Ok(0) => Err(NodeError::new(Trouble::UnknownBlock, "the node has no old blocks").into()),
            done => done.map(drop),
        }
    }

    /// The newest block that the node calls final; many chains and nodes have no such thing.
    async fn finalized(&self) -> Result<Option<Header>, NodeError> {
        match self.gather.node.header_at(Tag::Finalized).await {
            Err(NodeError {
                trouble: Trouble::Fatal | Trouble::Unsupported | Trouble::UnknownBlock, ..
            }) => Ok(None),
            answer => answer,
        }
    }

    /// The first block there is in a range.
    async fn first(&self, heights: Heights) -> Result<Header, RoundError> {
        for height in heights.from.get()..=heights.to.get() {
            let number = BlockNumber::new(height).unwrap_or(heights.to);
            match self.gather.node.header_at(Tag::Number(number)).await {
                Ok(Some(header)) => return Ok(header),
                Ok(None) | Err(NodeError { trouble: Trouble::NullRound, .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(NodeError::new(Trouble::UnknownBlock, "the node has no block from the first on").into())
    }

    async fn walk(&self, bounds: WalkBounds, head: Header) -> Result<(), RoundError> {
        let at = head.at;
        let mut walk = Walk::new(bounds, head);
        loop {
            match walk.want() {
                Want::Kept(hashes) => {
                    let kept = self.sink.chain_blocks(self.config.chain, &hashes).await?;
                    let kept: Vec<_> = kept.iter().map(|block| (block.at.hash, block.is_canonical)).collect();
                    walk.handle_kept(&kept);
                }
                Want::Header(hash) => walk.handle_header(self.gather.node.header(hash).await?),
                Want::Blocks(headers) => {
                    let gathered = self.gather.blocks(headers).await?;
                    walk.handle_blocks(self.noted(gathered));
                }
                Want::Ingest { blocks, head } => match self.ingest(blocks, head, None).await? {
                    Ok(()) => walk.handle_ingested(),
                    Err(refusal) => walk.handle_refusal(refusal),
                },
                Want::Nothing(outcome) => return self.ended(outcome, at),
            }
        }
    }

    /// Takes blocks by ranges, while the next ones are fetched. Returns how many blocks there were.
    async fn backfill(
        &self,
        have: BlockRef,
        to: BlockNumber,
        finalized: Option<BlockNumber>,
        policy: &mut RangePolicy,
    ) -> Result<usize, RoundError> {
        let (ahead, mut fetched) = Ahead::new(self.gather, have, to);
        let fetching = async {
            ahead.fetch(policy).await;
            pending::<Infallible>().await
        };
        let ingesting = async {
            let mut taken = 0;
            while let Some(range) = fetched.recv().await {
                let Fetched { range, room: _room } = range?;
                let blocks = self.noted(range.gathered(self.gather).await?);
                taken += blocks.len();
                self.ingest_range(blocks, finalized, Heights { from: have.number, to }).await?;
            }
            Ok(taken)
        };
        tokio::select! {
            taken = ingesting => taken,
            never = fetching => match never {},
        }
    }

    async fn ingest_range(
        &self,
        blocks: Vec<Block>,
        finalized: Option<BlockNumber>,
        backfill: Heights,
    ) -> Result<(), RoundError> {
        let Some(last) = blocks.last().map(Block::at) else { return Ok(()) };
        let finalized = finalized.map(|finalized| finalized.min(last.number));
        // Blocks that the chain had left and has come back to are known, and become canonical only as ancestors of the head.
        if let Err(refusal) = self.ingest(blocks, Some(last.hash), finalized).await? {
            self.refused(refusal, last)?;
        }
        let Heights { from, to } = backfill;
        self.reporter.tell(Report::Backfill { from, at: last.number, to });
        Ok(())
    }

    async fn ingest(
        &self,
        blocks: Vec<Block>,
        head: Option<BlockHash>,
        finalized: Option<BlockNumber>,
    ) -> Result<Result<(), BlockRefusal>, RoundError> {
        let events = blocks.iter().map(|block| block.events.len()).sum();
        let ingestion = Ingestion { blocks, head, finalized, window: self.config.window };
        match self.sink.ingest(self.config.chain, ingestion).await {
            Ok(ingested) => {
                self.has_progressed.store(true, Ordering::Relaxed);
                let head = ingested.chain.block;
                if ingested.revoked > 0 {
                    self.reporter.tell(Report::Reorg { depth: ingested.revoked, head });
                }
                self.reporter.tell(Report::Ingested { head, blocks: ingested.taken, events });
                Ok(Ok(()))
            }
            Err(IngestError::Block(refusal)) => Ok(Err(refusal)),
            Err(IngestError::Store(error)) => Err(error.into()),
            Err(error @ (IngestError::Event(_) | IngestError::TooMany { .. })) => {
                Err(RoundError::Refused(error.to_string()))
            }
        }
    }

    /// Tells the store what is final now, if it holds the very block that the node calls so.
    async fn settle(&self, known: Option<BlockNumber>) -> Result<(), RoundError> {
        let Some(at) = self.finalized().await?.map(|header| header.at).filter(|at| Some(at.number) > known)
        else {
            return Ok(());
        };
        let kept = self.sink.chain_blocks(self.config.chain, &[at.hash]).await?;
        if kept.iter().any(|block| block.is_canonical)
            && let Err(refusal) = self.ingest(Vec::new(), None, Some(at.number)).await?
        {
            return self.refused(refusal, at);
        }
        Ok(())
    }

    fn ended(&self, outcome: Outcome, head: BlockRef) -> Result<(), RoundError> {
        let failed = |trouble, reason: &str| Err(NodeError::new(trouble, reason).into());
        match outcome {
            Outcome::Arrived | Outcome::Lags => Ok(()),
            Outcome::Behind { have } => failed(
                Trouble::UnknownBlock,
                &format!(
                    "the node is at block {}, the feed at {}, and they have no block in common: it isn't synced yet, or it is of \
                     another chain, as a development node that was started anew; wait, or {}",
                    head.number,
                    have.number,
                    remedy(self.config.chain)
                ),
            ),
            Outcome::Moved => {
                failed(Trouble::UnknownBlock, "the chain changed on the way back from its head")
            }
            Outcome::Nonsense => failed(Trouble::Untrustworthy, "the node's blocks can't be a chain"),
            Outcome::DeepReorg { floor } => Err(RoundError::DeepReorg { head, floor }),
        }
    }

    fn refused(&self, refusal: BlockRefusal, head: BlockRef) -> Result<(), RoundError> {
        self.ended(Outcome::of(refusal), head)
    }

    fn noted(&self, gathered: Vec<Gathered>) -> Vec<Block> {
        let note = |gathered: Gathered| {
            let block = gathered.block.at();
            if let Some(fault) = gathered.refetched {
                self.reporter.tell(Report::Refetched { block, reason: fault.to_string() });
            }
            for log in gathered.undecodable {
                self.reporter.tell(Report::Undecodable { block, log });
            }
            gathered.block
        };
        gathered.into_iter().map(note).collect()
    }
}

/// What to do about a node that isn't of the feed's chain.
pub(crate) fn remedy(chain: ChainId) -> String {
    format!("remove the node, or begin the feed anew: POST /v1/admin/chains/{chain}/restart")
}
