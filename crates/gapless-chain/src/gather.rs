//! Whole blocks, put together from what a node tells and checked.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::stream::{self, StreamExt as _};
use gapless_proto::{Block, BlockHash, BlockRef};

use crate::checks::{CheckedLogs, LogsFault, check_logs, check_receipts, decoded};
use crate::errors::Trouble;
use crate::node::error::NodeError;
use crate::node::{Node, Tag};
use crate::range::{ReadBlock, UnreadRange};
use crate::range_policy::Heights;
use crate::stretch::{Break, chained};
use crate::topics::{Topics, Undecodable};
use crate::wire::{Header, Log};

/// Blocks that are fetched at the same time.
const BLOCKS_AT_ONCE: usize = 8;

/// Gets blocks with their events from a node. Nothing that fails a check gets through.
#[derive(Clone, Copy)]
pub(crate) struct Gather<'a> {
    pub(crate) node: &'a Node,
    pub(crate) topics: &'a Arc<Topics>,
    /// Blocks whose logs were asked for so often that they are believed, whatever the bloom says.
    pub(crate) believed: &'a BTreeSet<BlockHash>,
}

/// A block, and what was remarkable about it.
#[derive(Debug)]
pub(crate) struct Gathered {
    pub(crate) block: Block,
    pub(crate) undecodable: Vec<Undecodable>,
    /// Why its logs were asked for again.
    pub(crate) refetched: Option<LogsFault>,
}

/// Why there is no block.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GatherError {
    #[error(transparent)]
    Node(#[from] NodeError),
    #[error("block {block}: {fault}")]
    Fault { block: BlockRef, fault: LogsFault },
    /// Logs and blooms don't fit, and the node can't show receipts to settle it.
    #[error("the logs of {} blocks aren't those of their blooms, and the node has no eth_getBlockReceipts to settle it", _0.len())]
    Unsettled(Vec<BlockRef>),
    /// The blocks of a range aren't on the one before it.
    #[error("block {} isn't on the block before it", _0.at)]
    Fork(Header),
    /// The blocks of a range don't follow each other.
    #[error("block {at} isn't on the block before it; the node shows two forks at once")]
    Torn { at: gapless_proto::BlockNumber },
}

impl GatherError {
    /// What helps.
    pub(crate) fn trouble(&self) -> Trouble {
        match self {
            Self::Node(error) => error.trouble,
            Self::Fault { .. } | Self::Unsettled(_) => Trouble::Untrustworthy,
            Self::Fork(_) | Self::Torn { .. } => Trouble::UnknownBlock,
        }
    }
}

impl Gather<'_> {
    /// Blocks with their events, each by its hash.
    pub(crate) async fn blocks(self, headers: Vec<Header>) -> Result<Vec<Gathered>, GatherError> {
        all(headers.into_iter().map(|header| self.block(header)).collect()).await
    }

    /// The blocks of a range that follow on one, with logs by range.
    pub(crate) async fn range(self, after: BlockHash, heights: Heights) -> Result<UnreadRange, GatherError> {
        let headers = self.node.headers(heights);
        let (headers, logs) = tokio::try_join!(headers, self.node.logs_in(heights, self.topics))?;
        Ok(UnreadRange { headers: follow_on(after, headers)?, logs })
    }

    /// The blocks of a range that was read; those that fail a check are fetched again.
    pub(crate) async fn range_blocks(self, range: Vec<ReadBlock>) -> Result<Vec<Gathered>, GatherError> {
        all(range.into_iter().map(|block| self.range_block(block)).collect()).await
    }

    /// The blocks of a range that follow on one, each with logs by its hash.
    pub(crate) async fn one_by_one(
        self,
        after: BlockHash,
        heights: Heights,
    ) -> Result<Vec<Gathered>, GatherError> {
        let headers = self.node.headers(heights).await?;
        self.blocks(follow_on(after, headers)?).await
    }

    async fn range_block(self, block: ReadBlock) -> Result<Gathered, GatherError> {
        match block {
            ReadBlock::Checked(gathered) => Ok(gathered),
            ReadBlock::Faulty { header, fault } => {
                let gathered = self.block(header).await?;
                Ok(Gathered { refetched: gathered.refetched.or(Some(fault)), ..gathered })
            }
        }
    }

    async fn block(self, header: Header) -> Result<Gathered, GatherError> {
        let block = header.at;
        let logs = match self.node.logs_of(block.hash, self.topics).await {
            // One block can't be made smaller, but its receipts are another way to its logs.
            Err(NodeError { trouble: Trouble::RangeTooLarge(_), .. }) => {
                let receipts = self.node.receipts(block.hash).await?;
                let receipts =
                    receipts.ok_or_else(|| NodeError::new(Trouble::UnknownBlock, "no receipts"))?;
                receipts.into_iter().flat_map(|receipt| receipt.logs).collect()
            }
            // Not every node takes a hash there.
            Err(NodeError { trouble: Trouble::Unsupported | Trouble::Fatal, .. }) => {
                self.logs_at_height(block).await?
            }
            logs => logs?,
        };
        match check_logs(&header, logs.clone(), self.topics) {
            Ok(logs) => Ok(Gathered::new(&header, &logs, self.topics, None)),
            Err(fault @ (LogsFault::Promised { .. } | LogsFault::Unpromised { .. })) => {
                let logs = self.settle(&header, logs, &fault).await?;
                Ok(Gathered::new(&header, &logs, self.topics, Some(fault)))
            }
            Err(fault) => Err(GatherError::Fault { block, fault }),
        }
    }

    /// The logs of a height, if the block is still there afterwards.
    async fn logs_at_height(self, block: BlockRef) -> Result<Vec<Log>, NodeError> {
        let height = Heights { from: block.number, to: block.number };
        let logs = self.node.logs_in(height, self.topics).await?.read()?;
        let header = self.node.header_at(Tag::Number(block.number)).await?;
        match header.is_some_and(|header| header.at == block) {
            true => Ok(logs),
            false => Err(NodeError::new(Trouble::UnknownBlock, "the block was replaced meanwhile")),
        }
    }

    /// Finds out whether the logs or the bloom are wrong.
    async fn settle(
        self,
        header: &Header,
        logs: Vec<Log>,
        fault: &LogsFault,
    ) -> Result<CheckedLogs, GatherError> {
        let block = header.at;
        match self.node.receipts(block.hash).await {
            Ok(Some(receipts)) => {
                check_receipts(header, receipts).map_err(|fault| GatherError::Fault { block, fault })
            }
            Ok(None) => Err(GatherError::Fault { block, fault: fault.clone() }),
            Err(NodeError { trouble: Trouble::Unsupported, .. }) if self.believed.contains(&block.hash) => {
                let unchecked = Header { bloom: None, ..header.clone() };
                check_logs(&unchecked, logs, self.topics).map_err(|fault| GatherError::Fault { block, fault })
            }
            Err(NodeError { trouble: Trouble::Unsupported, .. }) => Err(GatherError::Unsettled(vec![block])),
            Err(error) => Err(error.into()),
        }
    }
}

impl Gathered {
    pub(crate) fn new(
        header: &Header,
        logs: &CheckedLogs,
        topics: &Topics,
        refetched: Option<LogsFault>,
    ) -> Self {
        let (block, undecodable) = decoded(header, logs, topics);
        Self { block, undecodable, refetched }
    }
}

/// Waits for blocks, a few at a time. What isn't settled is named all at once, so that a range isn't asked for again for each.
async fn all(
    blocks: Vec<impl Future<Output = Result<Gathered, GatherError>>>,
) -> Result<Vec<Gathered>, GatherError> {
    let mut gathered = Vec::with_capacity(blocks.len());
    let mut unsettled = Vec::new();
    let mut coming = stream::iter(blocks).buffered(BLOCKS_AT_ONCE);
    while let Some(block) = coming.next().await {
        match block {
            Ok(block) => gathered.push(block),
            Err(GatherError::Unsettled(blocks)) => unsettled.extend(blocks),
            Err(error) => return Err(error),
        }
    }
    match unsettled.is_empty() {
        true => Ok(gathered),
        false => Err(GatherError::Unsettled(unsettled)),
    }
}

fn follow_on(after: BlockHash, headers: Vec<Option<Header>>) -> Result<Vec<Header>, GatherError> {
    chained(after, headers).map_err(|broken| match broken {
        Break::Fork(header) => GatherError::Fork(header),
        Break::Torn { at } => GatherError::Torn { at },
    })
}
