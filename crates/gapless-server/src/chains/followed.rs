//! One chain that is followed, and whoever waits for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use futures_util::task::AtomicWaker;
use gapless_core::{ChainHead, ChainTail, safe_block};
use gapless_proto::ChainId;
use gapless_store::{ChainInfo, ChainNews};

use super::Told;
use super::reads::ChainReads;

/// A chain that somebody has subscribed to here.
pub(crate) struct FollowedChain {
    chain: ChainId,
    confirmations: u64,
    reads: ChainReads,
    /// Where its feed was when that was last heard of.
    info: Mutex<ChainInfo>,
    tail: RwLock<ChainTail<Told>>,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    wakers: HashMap<u64, Arc<AtomicWaker>>,
}

/// Wakes a subscription when the chain grows; ends when it is dropped.
pub(super) struct Wake {
    chain: Arc<FollowedChain>,
    number: u64,
    pub(super) waker: Arc<AtomicWaker>,
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
        Self { chain, confirmations, reads, info, tail, waiting: Mutex::default() }
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
        self.wake_all();
    }

    /// Takes in where the feed is, in case nobody told.
    pub(super) fn handle_info(&self, info: ChainInfo) {
        self.note(info);
        let head = self.head_of(&info);
        if self.tail().head() == head {
            return;
        }
        self.tail.write().unwrap_or_else(PoisonError::into_inner).handle_news(head, Vec::new());
        self.wake_all();
    }

    /// Has a waker woken whenever the chain has grown.
    pub(super) fn wait(self: &Arc<Self>) -> Wake {
        let waker = Arc::new(AtomicWaker::new());
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let number = waiting.next;
        waiting.next += 1;
        waiting.wakers.insert(number, Arc::clone(&waker));
        Wake { chain: Arc::clone(self), number, waker }
    }

    /// Keeps the newest of what was heard; it comes from several sides.
    fn note(&self, info: ChainInfo) {
        let mut known = self.info.lock().unwrap_or_else(PoisonError::into_inner);
        if (info.epoch, info.head, info.min_seq) >= (known.epoch, known.head, known.min_seq) {
            *known = info;
        }
    }

    fn wake_all(&self) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for waker in waiting.wakers.values() {
            waker.wake();
        }
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        let mut waiting = self.chain.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.wakers.remove(&self.number);
    }
}

/// Where a feed is, as readers need it.
pub(super) fn head_of(info: &ChainInfo, confirmations: u64) -> ChainHead {
    let block = info.block.map(|block| block.number);
    let safe = safe_block(block, info.finalized, confirmations);
    ChainHead { epoch: info.epoch, seq: info.head, block, safe, anew_after: info.anew_after }
}
