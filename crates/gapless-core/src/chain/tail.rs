//! The newest end of a chain's log, as a gateway remembers it for all who follow it.

use std::collections::VecDeque;

use gapless_proto::{BlockNumber, Epoch, Seq};

use super::{ChainEntry, ChainEntryKind};

/// Where a chain's feed is, as far as its readers need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainHead {
    /// The life of the log.
    pub epoch: Epoch,
    /// The newest seq.
    pub seq: Seq,
    /// The newest canonical block; `None` when the feed has begun anew and nothing came yet.
    pub block: Option<BlockNumber>,
    /// The newest block that is deep enough for those who wait for that.
    pub safe: Option<BlockNumber>,
    /// The newest seq of the feed that was given up when it last began anew after a reorg that was too deep.
    pub anew_after: Option<Seq>,
}

/// The last entries of a chain's log, shared by all subscriptions. Each has a frame that is made once.
///
/// It is a shortcut: whoever is further behind than it reaches reads the store. News may be lost, doubled or late; what doesn't follow on
/// makes it forget, never guess.
#[derive(Debug)]
pub struct ChainTail<F> {
    entries_max: usize,
    bytes_max: usize,
    head: ChainHead,
    /// Without a hole, up to the head.
    entries: VecDeque<TailEntry<F>>,
    bytes: usize,
}

/// An entry that is remembered.
#[derive(Debug)]
pub struct TailEntry<F> {
    /// The entry.
    pub entry: ChainEntry,
    /// What is sent of it.
    pub frame: F,
    /// How many bytes that has.
    pub bytes: usize,
    /// Whether it was taken back.
    pub is_void: bool,
}

impl<F> ChainTail<F> {
    /// Remembers nothing but where the feed is, and from now on at most so many entries and bytes.
    pub fn new(head: ChainHead, entries_max: usize, bytes_max: usize) -> Self {
        Self { entries_max, bytes_max, head, entries: VecDeque::new(), bytes: 0 }
    }

    /// Where the feed is.
    pub fn head(&self) -> ChainHead {
        self.head
    }

    /// Takes in what a commit appended, and where the feed is after it. `entries` come with their frames and the bytes of those.
    pub fn handle_news(&mut self, head: ChainHead, entries: Vec<(ChainEntry, F, usize)>) {
        if head.epoch < self.head.epoch || (head.epoch == self.head.epoch && head.seq < self.head.seq) {
            return;
        }
        if head.epoch > self.head.epoch {
            self.forget();
        }
        for (entry, frame, bytes) in entries {
            self.append(entry, frame, bytes);
        }
        if self.entries.back().is_some_and(|last| last.entry.seq != head.seq) {
            self.forget();
        }
        self.head = head;
    }

    /// The entries behind a seq, oldest first; `None` when some of those that are wanted are forgotten.
    pub fn after(&self, seq: Seq) -> Option<impl Iterator<Item = &TailEntry<F>>> {
        let first = self.entries.front().map_or(self.head.seq.next(), |first| first.entry.seq);
        let skipped = seq.next().get().checked_sub(first.get())?;
        Some(self.entries.iter().skip(usize::try_from(skipped).unwrap_or(usize::MAX)))
    }

    /// The entries that are remembered, oldest first.
    pub fn entries(&self) -> impl Iterator<Item = &TailEntry<F>> {
        self.entries.iter()
    }

    fn append(&mut self, entry: ChainEntry, frame: F, bytes: usize) {
        match self.entries.back() {
            Some(last) if entry.seq <= last.entry.seq => return,
            Some(last) if entry.seq > last.entry.seq.next() => self.forget(),
            Some(_) | None => {}
        }
        if let ChainEntryKind::Revoke { first, .. } = entry.kind {
            for void in self.entries.iter_mut().rev().take_while(|void| void.entry.seq >= first) {
                void.is_void = true;
            }
        }
        self.bytes += bytes;
        self.entries.push_back(TailEntry { entry, frame, bytes, is_void: false });
        while self.entries.len() > self.entries_max || self.bytes > self.bytes_max {
            let Some(oldest) = self.entries.pop_front() else { break };
            self.bytes -= oldest.bytes;
        }
    }

    fn forget(&mut self) {
        self.entries = VecDeque::new();
        self.bytes = 0;
    }
}
