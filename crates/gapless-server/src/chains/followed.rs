//! One chain that is followed, and whoever waits for it.

use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use gapless_core::{ChainHead, ChainTail, safe_block};
use gapless_proto::ChainId;
use gapless_store::{ChainInfo, ChainNews};

use super::reads::ChainReads;
use crate::told::Told;
use crate::wakers::{Wake, Wakers};

/// A chain that somebody has subscribed to here.
pub(crate) struct FollowedChain {
    chain: ChainId,
    confirmations: u64,
    reads: ChainReads,
    /// Where its feed was when that was last heard of.
    info: Mutex<ChainInfo>,
    tail: RwLock<ChainTail<Told>>,
    wakers: Arc<Wakers>,
}

impl FollowedChain {
    pub(super) fn new(
        chain: ChainId,
        confirmations: u64,
        reads: ChainReads,
        info: ChainInfo,
        tail: ChainTail<Told>,
    ) -> Self {
        let (info, tail) = (Mutex::new(info), RwLock::new(tail));
        Self { chain, confirmations, reads, info, tail, wakers: Arc::default() }
    }

    pub(crate) fn chain(&self) -> ChainId {
        self.chain
    }

    /// Where its feed is, as readers need it.
    pub(super) fn head_of(&self, info: &ChainInfo) -> ChainHead {
        head_of(info, self.confirmations)
    }

    /// What is read of it.
    pub(super) fn reads(&self) -> &ChainReads {
        &self.reads
    }

    /// Where its feed was when that was last heard of: it may be further by now, or begin later.
    pub(super) fn info(&self) -> ChainInfo {
        *self.info.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tail(&self) -> RwLockReadGuard<'_, ChainTail<Told>> {
        self.tail.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what a commit appended.
    pub(super) fn handle_news(&self, news: ChainNews) {
        self.note(news.info);
        let head = self.head_of(&news.info);
        let entries = news.entries.into_iter().map(|entry| {
            let told = Told::of_entry(self.chain, &entry);
            let bytes = told.len();
            (entry, told, bytes)
        });
        let entries = entries.collect();
        self.tail.write().unwrap_or_else(PoisonError::into_inner).handle_news(head, entries);
        self.wakers.wake_all();
    }

    /// Takes in where the feed is, in case nobody told.
    pub(super) fn handle_info(&self, info: ChainInfo) {
        self.note(info);
        let head = self.head_of(&info);
        if self.tail().head() == head {
            return;
        }
        self.tail.write().unwrap_or_else(PoisonError::into_inner).handle_news(head, Vec::new());
        self.wakers.wake_all();
    }

    /// Has a waker woken whenever the chain has grown.
    pub(super) fn wait(&self) -> Wake {
        self.wakers.wait()
    }

    /// Keeps the newest of what was heard; it comes from several sides.
    fn note(&self, info: ChainInfo) {
        let mut known = self.info.lock().unwrap_or_else(PoisonError::into_inner);
        if (info.epoch, info.head, info.min_seq) >= (known.epoch, known.head, known.min_seq) {
            *known = info;
        }
    }
}

/// Where a feed is, as readers need it.
pub(super) fn head_of(info: &ChainInfo, confirmations: u64) -> ChainHead {
    let block = info.block.map(|block| block.number);
    let safe = safe_block(block, info.finalized, confirmations);
    ChainHead { epoch: info.epoch, seq: info.head, block, safe, anew_after: info.anew_after }
}
