//! What is read of one chain for those who follow it.

use std::sync::Arc;

use gapless_core::{ChainHead, Slice, SliceEntry};
use gapless_proto::{BlockNumber, ChainCursor, ChainId, Seq, Topic, ValueKey};
use gapless_store::{CHAIN_ENTRIES_MAX, ChainInfo, ChainLogRequest, ChainValuesRequest, Store};
use tokio::sync::Semaphore;

use super::followed::head_of;
use super::shared_reads::{Reading, SharedReads, Weighed};
use crate::meters::ReadMeters;
use crate::told::Told;

/// How many values are told in one message.
const SNAPSHOT_VALUES: u32 = 200;
/// About what an entry costs beside its text.
const ENTRY_BYTES: usize = 100;

/// The reads of one chain.
pub(super) struct ChainReads {
    chain: ChainId,
    confirmations: u64,
    store: Arc<dyn Store>,
    slices: Arc<SharedReads<LogQuestion, Slice<Told>>>,
    values: Arc<SharedReads<ValuesQuestion, ToldValues>>,
}

/// Which stretch of the log is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct LogQuestion {
    pub(super) topics: Arc<[Topic]>,
    pub(super) after: Seq,
    pub(super) up_to: Option<BlockNumber>,
    pub(super) limit: u32,
}

/// Which values are wanted, as they were after a block.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ValuesQuestion {
    pub(super) topics: Arc<[Topic]>,
    pub(super) up_to: BlockNumber,
    /// The values that are told already, if any.
    pub(super) told: Option<ValuesTold>,
}

/// How far a snapshot is told.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ValuesTold {
    /// The place of its first part, where its reader goes on.
    pub(super) cursor: ChainCursor,
    /// The last value that was told.
    pub(super) last: (Topic, ValueKey),
}

/// A part of a snapshot.
pub(super) struct ToldValues {
    pub(super) info: ChainInfo,
    pub(super) cursor: ChainCursor,
    /// After which block the values are meant.
    pub(super) up_to: BlockNumber,
    pub(super) told: Told,
    /// How far the snapshot is told with this part, if there are more.
    pub(super) more: Option<ValuesTold>,
}

impl ChainReads {
    pub(super) fn new(
        chain: ChainId,
        confirmations: u64,
        store: Arc<dyn Store>,
        turns: &Arc<Semaphore>,
    ) -> Self {
        let slices = SharedReads::new(Arc::clone(turns), ReadMeters::new("log"));
        let values = SharedReads::new(Arc::clone(turns), ReadMeters::new("values"));
        Self { chain, confirmations, store, slices, values }
    }

    /// A stretch of the log, for a reader who knows that the feed is at `known`.
    pub(super) fn slice(&self, question: LogQuestion, known: ChainHead) -> Reading<Slice<Told>> {
        let (chain, confirmations, store) = (self.chain, self.confirmations, Arc::clone(&self.store));
        let LogQuestion { topics, after, up_to, limit } = question.clone();
        let request = ChainLogRequest {
            chain,
            topics: topics.to_vec(),
            after,
            up_to,
            limit: limit.min(CHAIN_ENTRIES_MAX),
        };
        let read = async move {
            let slice = store.chain_log(request).await?;
            Ok(slice.map(|slice| Slice {
                head: head_of(&slice.chain, confirmations),
                min_seq: slice.chain.min_seq,
                entries: slice
                    .entries
                    .iter()
                    .map(|entry| (SliceEntry::from(entry), Told::of_entry(chain, entry)))
                    .collect(),
                has_more: slice.has_more,
                covered: slice.covered,
                up_to,
            }))
        };
        self.slices.ask(question, move |slice: &Slice<Told>| slice.answers(after, known), read)
    }

    /// A part of a snapshot, for a reader who knows that the feed is at `known`.
    pub(super) fn values(&self, question: ValuesQuestion, known: ChainInfo) -> Reading<ToldValues> {
        let (chain, store) = (self.chain, Arc::clone(&self.store));
        let ValuesQuestion { topics, up_to, told } = question.clone();
        let (cursor, after) = told.map(|told| (told.cursor, told.last)).unzip();
        let topics = topics.to_vec();
        let request = ChainValuesRequest { chain, topics, up_to: Some(up_to), after, limit: SNAPSHOT_VALUES };
        let read = async move {
            let values = store.chain_values(request).await?;
            Ok(values.map(|values| {
                let cursor =
                    cursor.unwrap_or(ChainCursor { chain, point: values.point, seq: Some(values.seq) });
                let last = values.values.last().filter(|_| values.has_more);
                let more =
                    last.map(|(topic, key, _)| ValuesTold { cursor, last: (topic.clone(), key.clone()) });
                let told = Told::snapshot(cursor, values.values, values.has_more);
                ToldValues { info: values.chain, cursor, up_to, told, more }
            }))
        };
        // Values of before a deep reorg, followed by the log from after it, would never be taken back.
        let is_answer =
            move |values: &ToldValues| (values.info.epoch, values.info.head) >= (known.epoch, known.head);
        self.values.ask(question, is_answer, read)
    }

    /// Forgets what was kept for long enough.
    pub(super) fn handle_time(&self) {
        self.slices.handle_time();
        self.values.handle_time();
    }
}

impl Weighed for Slice<Told> {
    fn bytes(&self) -> Option<usize> {
        Some(self.entries.iter().map(|(_, told)| told.len() + ENTRY_BYTES).sum())
    }
}

impl Weighed for ToldValues {
    fn bytes(&self) -> Option<usize> {
        Some(self.told.len())
    }
}

impl Weighed for ChainInfo {
    /// Who asks where a feed is wants to know where it is now.
    fn bytes(&self) -> Option<usize> {
        None
    }
}
