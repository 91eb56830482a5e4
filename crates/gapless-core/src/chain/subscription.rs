//! One subscription to topics of a chain: what it is told next.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use gapless_proto::{BlockNumber, ChainPoint, Epoch, Mode, Seq, Topic, TopicResetReason};

use super::{ChainEntry, ChainEntryKind, ChainHead, ChainTail, TailEntry};

#[cfg(test)]
mod tests;

/// Follows the log of a chain for one reader.
///
/// It is in no list and has no queue of its own: [`Subscription::next`] looks at the shared tail and says what comes after what the reader was
/// told last. Where the tail doesn't reach back far enough, the store is read. So registering and replaying leave no seam.
#[derive(Debug)]
pub struct Subscription {
    topics: BTreeSet<Topic>,
    mode: Mode,
    epoch: Epoch,
    /// All up to here is told, or is nothing to the reader.
    passed: Seq,
    /// The newest event that the reader may hold.
    held: Seq,
    /// What the reader was told of as its position.
    told: Seq,
    told_at: Instant,
    /// Up to which block the store has been read, by a reader who waits for confirmed blocks, and where the feed was then.
    read_to: Option<(BlockNumber, Seq)>,
}

/// What a subscription wants done.
#[derive(Debug)]
pub enum Step<'tail, F> {
    /// Tell of an event.
    Event(&'tail TailEntry<F>),
    /// Tell that events are void.
    Revoke {
        /// The last place that still holds.
        to: ChainPoint,
        /// The revoke's own seq.
        seq: Seq,
    },
    /// Tell that nothing happened up to a place.
    Progress {
        /// The block up to which nothing is to be told any more, but for its events behind the first.
        block: BlockNumber,
        /// The last seq that is passed.
        seq: Seq,
    },
    /// Read the store from a seq on, up to a block if there is one, and call [`Subscription::handle_slice`].
    Read {
        /// The last seq that is passed.
        after: Seq,
        /// The height beyond which nothing is wanted.
        up_to: Option<BlockNumber>,
    },
    /// Nothing, until the tail changes or `until` comes.
    Wait {
        /// When there is something to do in any case.
        until: Option<Instant>,
    },
    /// Tell that the position can't be served, and end.
    Reset(TopicResetReason),
}

/// How long a quiet subscription stays where it is.
pub const PROGRESS_PAUSE: Duration = Duration::from_secs(10);

impl Subscription {
    /// One that goes on after `passed`, which was told to the reader at `now`.
    pub fn new(topics: BTreeSet<Topic>, mode: Mode, epoch: Epoch, passed: Seq, now: Instant) -> Self {
        Self { topics, mode, epoch, passed, held: passed, told: passed, told_at: now, read_to: None }
    }

    /// The topics, as the chain's feed names them.
    pub fn topics(&self) -> &BTreeSet<Topic> {
        &self.topics
    }

    /// The last seq of what is told, or is nothing to the reader.
    pub fn passed(&self) -> Seq {
        self.passed
    }

    /// Says what to do next. When that is done, ask again.
    pub fn next<'tail, F>(&mut self, tail: &'tail ChainTail<F>, now: Instant) -> Step<'tail, F> {
        let head = tail.head();
        if let Some(reason) = self.ended_by(head) {
            return Step::Reset(reason);
        }
        if head.epoch < self.epoch {
            // It only lags.
            return Step::Wait { until: None };
        }
        let step = match self.mode {
            Mode::Instant => self.next_instant(tail),
            Mode::Confirmed => self.next_confirmed(tail),
        };
        match step {
            Some(step) => {
                self.told_at = now;
                step
            }
            None => self.progress(head, now),
        }
    }

    /// Takes in what the store had after [`Step::Read`]. All of it is told then, or it is said why nothing can be.
    ///
    /// The slice may have been read for another reader, as long as it [answers](Slice::answers) the question.
    pub fn handle_slice<F>(&mut self, slice: &Slice<F>, now: Instant) -> Result<(), TopicResetReason> {
        if let Some(reason) = self.ended_by(slice.head) {
            return Err(reason);
        }
        if self.passed > slice.head.seq {
            return Err(TopicResetReason::CursorAhead);
        }
        if self.passed.next() < slice.min_seq {
            return Err(TopicResetReason::CursorExpired);
        }
        for (entry, _) in &slice.entries {
            self.take(*entry)?;
        }
        if !slice.has_more {
            (self.passed, self.read_to) =
                (self.passed.max(slice.covered), slice.up_to.map(|block| (block, slice.head.seq)));
        }
        if let Some((last, _)) = slice.entries.last() {
            (self.told, self.told_at) = (last.seq, now);
        }
        Ok(())
    }

    /// Why there is nothing more to tell, if the feed at this head has begun a new life.
    pub fn ended_by(&self, head: ChainHead) -> Option<TopicResetReason> {
        if head.epoch <= self.epoch {
            return None;
        }
        let was_given_up = head.anew_after.is_some_and(|newest| self.passed <= newest);
        Some(if was_given_up { TopicResetReason::DeepReorg } else { TopicResetReason::EpochChanged })
    }

    /// Whether more than so many frames or bytes wait in the tail for the reader. Ask when the reader takes nothing.
    pub fn is_overrun<F>(&self, tail: &ChainTail<F>, frames_max: usize, bytes_max: usize) -> bool {
        let Some(waiting) = tail.after(self.passed) else {
            return true;
        };
        let (mut frames, mut bytes) = (0, 0);
        for waiting in waiting.filter(|waiting| self.concerns(&waiting.entry)) {
            frames += 1;
            bytes += waiting.bytes;
            if frames > frames_max || bytes > bytes_max {
                return true;
            }
        }
        false
    }

    fn next_instant<'tail, F>(&mut self, tail: &'tail ChainTail<F>) -> Option<Step<'tail, F>> {
        if self.passed > tail.head().seq {
            return None;
        }
        let Some(entries) = tail.after(self.passed) else {
            return Some(Step::Read { after: self.passed, up_to: None });
        };
        for remembered in entries {
            let seq = remembered.entry.seq;
            self.passed = seq;
            if remembered.is_void || !self.concerns(&remembered.entry) {
                continue;
            }
            self.told = seq;
            match &remembered.entry.kind {
                ChainEntryKind::Event { .. } => {
                    self.held = seq;
                    return Some(Step::Event(remembered));
                }
                ChainEntryKind::Revoke { to, first } => {
                    self.held = first.prev();
                    return Some(Step::Revoke { to: *to, seq });
                }
            }
        }
        None
    }

    fn next_confirmed<'tail, F>(&mut self, tail: &'tail ChainTail<F>) -> Option<Step<'tail, F>> {
        let safe = tail.head().safe?;
        // What came after a reading may take back what was read, at the same height.
        let was_read = self.read_to.is_some_and(|(block, head)| block == safe && tail.after(head).is_some());
        if !was_read && tail.after(self.passed).is_none() {
            return Some(Step::Read { after: self.passed, up_to: Some(safe) });
        }
        let passed = self.passed;
        for remembered in tail.entries().filter(|remembered| remembered.entry.seq > passed) {
            match &remembered.entry.kind {
                ChainEntryKind::Revoke { first, .. } if *first <= self.held => {
                    return Some(Step::Reset(TopicResetReason::DeepReorg));
                }
                ChainEntryKind::Event { block, .. } if !remembered.is_void && block.number > safe => break,
                ChainEntryKind::Event { .. } if !remembered.is_void => {
                    self.passed = remembered.entry.seq;
                    if self.concerns(&remembered.entry) {
                        (self.held, self.told) = (self.passed, self.passed);
                        return Some(Step::Event(remembered));
                    }
                }
                ChainEntryKind::Event { .. } | ChainEntryKind::Revoke { .. } => {}
            }
        }
        None
    }

    /// Notes that the reader is told of an entry.
    fn take(&mut self, entry: SliceEntry) -> Result<(), TopicResetReason> {
        self.passed = entry.seq;
        match (entry.first_void, self.mode) {
            (None, _) => self.held = entry.seq,
            (Some(first), Mode::Instant) => self.held = first.prev(),
            // It was confirmed and yet taken back.
            (Some(_), Mode::Confirmed) => return Err(TopicResetReason::DeepReorg),
        }
        Ok(())
    }

    fn concerns(&self, entry: &ChainEntry) -> bool {
        match &entry.kind {
            ChainEntryKind::Event { topic, .. } => self.topics.contains(topic),
            ChainEntryKind::Revoke { first, .. } => *first <= self.held,
        }
    }

    fn progress<'tail, F>(&mut self, head: ChainHead, now: Instant) -> Step<'tail, F> {
        let (seq, block) = match self.mode {
            Mode::Instant => (head.seq.min(self.passed), head.block),
            // What lies above is still to be told.
            Mode::Confirmed => (self.passed, head.safe),
        };
        if seq <= self.told {
            return Step::Wait { until: None };
        }
        let due = self.told_at + PROGRESS_PAUSE;
        if now < due {
            return Step::Wait { until: Some(due) };
        }
        (self.told, self.told_at) = (seq, now);
        Step::Progress { block: block.unwrap_or_default(), seq }
    }
}

/// What the store had for a subscription. Each entry has a frame that is made once, for all who ask for the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice<F> {
    /// Where the feed is.
    pub head: ChainHead,
    /// The oldest seq kept.
    pub min_seq: Seq,
    /// The entries, in seq order.
    pub entries: Vec<(SliceEntry, F)>,
    /// Whether there is more behind them.
    pub has_more: bool,
    /// Up to which seq there is nothing else for who asks, if there is no more.
    pub covered: Seq,
    /// The height up to which was asked.
    pub up_to: Option<BlockNumber>,
}

/// What a subscription has to know of an entry that it is told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SliceEntry {
    /// Its number in the feed.
    pub seq: Seq,
    /// Only of a revoke: the first entry that is void.
    pub first_void: Option<Seq>,
}

impl<F> Slice<F> {
    /// Whether this is an answer for a reader who asks for what comes `after` a seq and knows that the feed is at `known`, though
    /// it may have been read before the question was asked.
    ///
    /// A slice is of one moment, and who takes it is where a slow reader is who asked at that moment: what has happened since comes
    /// with the next slice, or from the tail. So one with more behind it may be of any moment at which there was the reader's position.
    /// The last one must reach as far as is known; else its reader would ask the same question again.
    pub fn answers(&self, after: Seq, known: ChainHead) -> bool {
        let reached = if self.has_more { after } else { known.seq.max(after) };
        self.head.epoch > known.epoch || (self.head.epoch == known.epoch && self.head.seq >= reached)
    }
}

impl From<&ChainEntry> for SliceEntry {
    fn from(entry: &ChainEntry) -> Self {
        let first_void = match entry.kind {
            ChainEntryKind::Event { .. } => None,
            ChainEntryKind::Revoke { first, .. } => Some(first),
        };
        Self { seq: entry.seq, first_void }
    }
}
