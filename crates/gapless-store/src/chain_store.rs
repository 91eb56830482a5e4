//! What a store promises of the feeds of chains.

use async_trait::async_trait;
use gapless_core::{BlockRefusal, ChainEntry, EventRefusal};
use gapless_proto::{
    Block, BlockHash, BlockNumber, BlockRef, Body, ChainId, ChainPoint, Epoch, Seq, Timestamp, Topic,
    ValueKey,
};

use crate::StoreError;

/// The most blocks that one ingestion takes.
pub const INGESTION_BLOCKS_MAX: usize = 1_000;
/// The most entries that one read returns.
pub const CHAIN_ENTRIES_MAX: u32 = 1_000;
/// About how many bytes of payloads and values one read returns at most; an entry that alone has more comes alone.
pub const CHAIN_SLICE_BYTES_MAX: usize = 1 << 20;
/// The most values that one read returns.
pub const CHAIN_VALUES_MAX: u32 = 10_000;

/// Keeps the feeds of chains: their blocks, the log of what became true and what was taken back, and values by key.
///
/// An ingestion that is answered with `Ok` is on disk and visible to every later read (G6); a block is stored with all of its events
/// or not at all. Each read is of one moment.
#[async_trait]
pub trait ChainStore: Send + Sync + 'static {
    /// Takes blocks, oldest first; all of them or none. The feed of a chain begins with the first block that comes.
    ///
    /// Blocks that are there already are passed over, so that an ingestion may be repeated. Ingestions of one chain take effect in the
    /// order in which this is called.
    async fn ingest(&self, chain: ChainId, ingestion: Ingestion) -> Result<Ingested, IngestError>;

    /// Where the feed of a chain is; `None` when there is none.
    async fn chain(&self, chain: ChainId) -> Result<Option<ChainInfo>, StoreError>;

    /// The blocks that are kept, canonical or not, of these hashes.
    async fn chain_blocks(&self, chain: ChainId, hashes: &[BlockHash]) -> Result<Vec<KeptBlock>, StoreError>;

    /// What a subscriber to some topics missed after a seq, as far as [`ChainLogRequest::limit`] and [`CHAIN_SLICE_BYTES_MAX`] let it.
    /// `None` when the chain has no feed.
    async fn chain_log(&self, request: ChainLogRequest) -> Result<Option<ChainSlice>, StoreError>;

    /// The seq of the last entry that still holds and is at or before a place, for a cursor that has none.
    ///
    /// `None` when the chain has no feed, or the place is older than what is kept.
    async fn chain_seq_at(&self, chain: ChainId, point: ChainPoint) -> Result<Option<Seq>, StoreError>;

    /// The values of some topics as they were after a block, in the order of topics and keys, beginning after a name. `None` when the chain has no feed.
    async fn chain_values(&self, request: ChainValuesRequest) -> Result<Option<ChainValues>, StoreError>;

    /// The chains that have feeds, in the order of their ids' texts, behind one of them; at most so many.
    async fn chains(&self, after: Option<ChainId>, limit: u32) -> Result<Vec<ChainId>, StoreError>;

    /// Deletes the log below a seq, in bounded steps: at most up to the head, and nothing that a reorg may still take back. The newest
    /// version of each value stays. Returns the oldest seq that is kept now; `None` when the chain has no feed.
    async fn trim_chain(&self, chain: ChainId, below: Seq) -> Result<Option<Seq>, StoreError>;

    /// Raises the epochs of all chains: what must be done after a restore from backup. Returns how many were raised.
    async fn raise_chain_epochs(&self) -> Result<u64, StoreError>;

    /// Begins the feed of a chain anew, after a reorg deeper than what can be taken back: raises the epoch, and deletes all blocks, entries
    /// and values. Seqs go on, so that no cursor fits by accident. `None` when the chain has no feed.
    ///
    /// What was there is out of sight at once, and is deleted in bounded steps. Until that is done, blocks are refused as
    /// [`StoreError::Busy`]. Should this be cut short, further ingestions and [`ChainStore::trim_chain`] go on with it.
    async fn restart_chain(&self, chain: ChainId) -> Result<Option<ChainInfo>, StoreError>;
}

/// Blocks to be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ingestion {
    /// The blocks, oldest first; at most [`INGESTION_BLOCKS_MAX`].
    pub blocks: Vec<Block>,
    /// The block that is the newest in the end, when that isn't the last of the new ones: so a chain comes back to a branch that it had left.
    pub head: Option<BlockHash>,
    /// Up to which height the chain never changes again, as the source says; what it says of heights above the head is passed over. Never
    /// falls.
    pub finalized: Option<BlockNumber>,
    /// How many heights below the head are kept for reorgs. A deeper one is refused.
    pub window: u64,
}

/// How many heights below the head are kept unless something else is wanted.
const WINDOW_DEFAULT: u64 = 1_024;

impl Default for Ingestion {
    fn default() -> Self {
        Self { blocks: Vec::new(), head: None, finalized: None, window: WINDOW_DEFAULT }
    }
}

/// What an ingestion came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ingested {
    /// Where the feed is.
    pub chain: ChainInfo,
    /// How many of the blocks were new.
    pub taken: usize,
    /// How many blocks that were canonical aren't any more.
    pub revoked: usize,
}

/// Why an ingestion was not taken. Nothing was stored.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// A block has no place.
    #[error(transparent)]
    Block(#[from] BlockRefusal),
    /// An event can't be taken.
    #[error(transparent)]
    Event(#[from] EventRefusal),
    /// There are too many blocks.
    #[error("{blocks} blocks are too many at once; send at most {INGESTION_BLOCKS_MAX}")]
    TooMany {
        /// How many there were.
        blocks: usize,
    },
    /// Whether it was stored isn't known: repeat it.
    #[error("the outcome isn't known; repeat it")]
    Store(#[from] StoreError),
}

/// Where the feed of a chain is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainInfo {
    /// The life of the log.
    pub epoch: Epoch,
    /// The newest seq.
    pub head: Seq,
    /// The oldest seq kept; one beyond the head when there is none.
    pub min_seq: Seq,
    /// The newest canonical block; `None` after the feed began anew.
    pub block: Option<BlockRef>,
    /// Up to which height the chain never changes again.
    pub finalized: Option<BlockNumber>,
    /// The seqs that nobody holds, since the log was rewound there.
    pub rewound: Option<Rewound>,
    /// The newest seq that the feed had when it last began anew. Whoever holds one up to it holds something of a feed that was given up.
    pub anew_after: Option<Seq>,
}

impl ChainInfo {
    /// Where a feed is that begins anew at `now`. It leaves a seq out, so that who begins with it holds none of the feed that was given up.
    pub(crate) fn anew(self, now: Timestamp) -> Self {
        let head = self.head.next();
        Self {
            epoch: self.epoch.raised(now),
            head,
            min_seq: head.next(),
            block: None,
            finalized: None,
            rewound: self.rewound,
            anew_after: Some(self.head),
        }
    }

    /// The seq of the oldest among the newest so many entries.
    pub fn oldest_of(&self, entries: u64) -> Seq {
        let newer = self.rewound.map_or(self.head.get(), |rewound| self.head.get() - rewound.to.get());
        let (last, wanted) = match self.rewound {
            Some(rewound) if entries > newer => (rewound.after, entries - newer),
            Some(_) | None => (self.head, entries),
        };
        Seq::new(last.get().saturating_sub(wanted)).unwrap_or(last).next()
    }
}

/// Seqs that nobody holds who has read the present life of a log.
///
/// A cursor of a chain names no epoch. So that none of a lost life ever fits, the seqs go on at the time of the restore in milliseconds, which
/// no log reaches that has fewer than a thousand entries a second from 1970 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rewound {
    /// The newest seq that is of all lives.
    pub after: Seq,
    /// Where the present life begins: no entry has this seq, but whoever has seen nothing of that life yet is here.
    pub to: Seq,
}

impl Rewound {
    /// Where a restored log goes on that ended as `before`, at `now`.
    pub(crate) fn at(before: &ChainInfo, now: Timestamp) -> Self {
        // Who held something that an earlier restore took away holds it still.
        let after = before.rewound.map_or(before.head, |earlier| earlier.after.min(before.head));
        let to = Seq::new(now.get()).unwrap_or(before.head).max(before.head.next());
        Self { after, to }
    }

    /// Whether a seq is of a life that is no more, and of no other.
    pub fn has(&self, seq: Seq) -> bool {
        self.after < seq && seq < self.to
    }
}

/// A block that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptBlock {
    /// Which.
    pub at: BlockRef,
    /// The block before it.
    pub parent: BlockHash,
    /// Whether it is canonical.
    pub is_canonical: bool,
}

/// A question for a stretch of a chain's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainLogRequest {
    /// Which chain.
    pub chain: ChainId,
    /// Of which topics.
    pub topics: Vec<Topic>,
    /// The last seq that is passed.
    pub after: Seq,
    /// The height beyond which nothing is wanted; for readers who wait until blocks are confirmed.
    pub up_to: Option<BlockNumber>,
    /// How many entries at most, clamped to 1 ..= [`CHAIN_ENTRIES_MAX`].
    pub limit: u32,
}

/// A stretch of a chain's log, as somebody sees it who comes back: events that were revoked meanwhile are left out, and revokes that
/// take back nothing of the topics up to the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainSlice {
    /// Where the feed is.
    pub chain: ChainInfo,
    /// The entries, in seq order.
    pub entries: Vec<ChainEntry>,
    /// Whether there is more behind them.
    pub has_more: bool,
    /// Up to which seq there is nothing else for who asks, if there is no more: the head, or the last event that holds up to the height
    /// that was asked for.
    pub covered: Seq,
}

impl ChainSlice {
    /// Of what was found for a request, in seq order: the first so many entries, as long as they don't have too many bytes.
    pub(crate) fn of(chain: ChainInfo, covered: Seq, mut found: Vec<ChainEntry>, limit: u32) -> Self {
        let mut bytes = 0;
        let fitting = found.iter().take(limit as usize).take_while(|entry| {
            let fits = bytes < CHAIN_SLICE_BYTES_MAX;
            bytes += entry.bytes();
            fits
        });
        let fitting = fitting.count();
        let has_more = fitting < found.len();
        found.truncate(fitting);
        Self { chain, entries: found, has_more, covered }
    }
}

/// A question for values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainValuesRequest {
    /// Which chain.
    pub chain: ChainId,
    /// Of which topics.
    pub topics: Vec<Topic>,
    /// After which block they are wanted; the newest when left out. Ask for further pages with the block that the first one names.
    pub up_to: Option<BlockNumber>,
    /// The topic and key of the last value that is held.
    pub after: Option<(Topic, ValueKey)>,
    /// How many values at most, clamped to 1 ..= [`CHAIN_VALUES_MAX`].
    pub limit: u32,
}

/// Values of topics, as of one place in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainValues {
    /// Where the feed is.
    pub chain: ChainInfo,
    /// The last place that is in them.
    pub point: ChainPoint,
    /// The seq of that: a reader of these values goes on after it.
    pub seq: Seq,
    /// Topic, key and value, in the order of topics and keys.
    pub values: Vec<(Topic, ValueKey, Body)>,
    /// Whether there are more behind them.
    pub has_more: bool,
}

/// What one commit did to the feed of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainNews {
    /// Which chain.
    pub chain: ChainId,
    /// Where its feed is after the commit.
    pub info: ChainInfo,
    /// What was appended, in seq order.
    pub entries: Vec<ChainEntry>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_entries_are_counted_without_the_seqs_that_are_left_out() {
        let seq = |number| Seq::new(number).unwrap();
        let rewound = Rewound { after: seq(50), to: seq(1_000) };
        let info = |head, rewound| ChainInfo {
            epoch: Epoch::new(1).unwrap(),
            head: seq(head),
            min_seq: Seq::FIRST,
            block: None,
            finalized: None,
            rewound,
            anew_after: None,
        };
        assert_eq!(info(100, None).oldest_of(10), seq(91));
        assert_eq!(info(100, None).oldest_of(1_000), Seq::FIRST);
        assert_eq!(info(1_020, Some(rewound)).oldest_of(20), seq(1_001));
        assert_eq!(info(1_020, Some(rewound)).oldest_of(25), seq(46));
        assert_eq!(info(1_000, Some(rewound)).oldest_of(1), seq(50));
    }
}
