//! One chain that is followed, and whoever waits for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use futures_util::task::AtomicWaker;
use gapless_core::{ChainHead, ChainTail};
use gapless_proto::ChainId;
use gapless_store::{ChainInfo, ChainNews};

use super::Told;

/// A chain that somebody has subscribed to here.
pub(crate) struct FollowedChain {
    chain: ChainId,
    confirmations: u64,
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
    pub(super) fn new(chain: ChainId, confirmations: u64, tail: ChainTail<Told>) -> Self {
        Self { chain, confirmations, tail: RwLock::new(tail), waiting: Mutex::default() }
    }

    pub(crate) fn chain(&self) -> ChainId {
        self.chain
    }

    /// Where its feed is, as readers need it.
    pub(super) fn head_of(&self, info: &ChainInfo) -> ChainHead {
        head_of(info, self.confirmations)
    }

    pub(super) fn tail(&self) -> RwLockReadGuard<'_, ChainTail<Told>> {
        self.tail.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what a commit appended.
    pub(super) fn handle_news(&self, news: ChainNews) {
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

/// Where a feed is: what lies so many blocks below the head, or is finalized, is safe.
pub(super) fn head_of(info: &ChainInfo, confirmations: u64) -> ChainHead {
    let block = info.block.map(|block| block.number);
    let confirmed =
        block.filter(|block| block.get() >= confirmations).map(|block| block.below(confirmations));
    let finalized = info.finalized.map(|finalized| block.map_or(finalized, |block| finalized.min(block)));
    ChainHead { epoch: info.epoch, seq: info.head, block, safe: confirmed.max(finalized) }
}
