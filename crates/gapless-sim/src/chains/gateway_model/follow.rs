//! One subscription under way, as in the server's `chains/follow.rs`.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use gapless_core::{ChainEntry, ChainEntryKind, ChainTail, Slice, SliceEntry, Step, Subscription};
use gapless_proto::{
    BlockNumber, ChainCursor, ChainId, ChainPoint, Cursor, Mode, Seq, Topic, TopicResetReason, ValueKey,
};
use gapless_store::{ChainLogRequest, ChainSlice, ChainValues, ChainValuesRequest};

use super::begin::Begun;
use super::told::Told;
use super::{ChainGatewayConfig, STORE_PAUSE, StoreAsk, StoreFound, head_of};
use crate::chains::coverage::{ChainCoverage, ChainLandmark};
use crate::chains::fault::ChainFault;
use crate::store_model::Down;

/// Tells one reader what happens on a chain, until a reset.
#[derive(Debug)]
pub(super) struct Follow {
    chain: ChainId,
    subscription: Subscription,
    mode: Mode,
    topics: Vec<Topic>,
    cursor: Cursor,
    snapshot: Option<SnapshotLeft>,
    queued: VecDeque<Told>,
    reading: Reading,
    is_live: bool,
    is_ended: bool,
}

/// Where a snapshot is.
#[derive(Debug, Clone)]
pub(super) struct SnapshotLeft {
    pub(super) cursor: ChainCursor,
    pub(super) up_to: BlockNumber,
    pub(super) after: Option<(Topic, ValueKey)>,
    /// Where the feed was when the subscription began.
    pub(super) began_at: Seq,
}

/// What the store was asked.
#[derive(Debug, Clone)]
enum Reading {
    Nothing,
    Values,
    Log { up_to: Option<BlockNumber>, asked_at_head: Seq },
}

/// What a follow sees of its gateway.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) tail: &'a ChainTail<Told>,
    pub(super) config: &'a ChainGatewayConfig,
    pub(super) fault: Option<ChainFault>,
}

/// What comes of a look.
#[derive(Debug)]
pub(super) enum Looked {
    Told(Told),
    Read(StoreAsk, Duration),
    Pending,
    Ended,
}

impl Follow {
    pub(super) fn new(chain: ChainId, begun: Begun, now: Instant) -> Self {
        let Begun { begin, epoch, passed, snapshot, reset, cursor } = begun;
        let topics = begin.topics.iter().cloned().collect();
        let subscription = Subscription::new(topics, begin.mode, epoch, passed, now);
        let mut follow = Self {
            chain,
            topics: begin.topics,
            mode: begin.mode,
            subscription,
            cursor,
            snapshot,
            queued: VecDeque::new(),
            reading: Reading::Nothing,
            is_live: false,
            is_ended: false,
        };
        if let Some(reason) = reset {
            follow.reset(reason);
        }
        follow
    }

    pub(super) fn chain(&self) -> ChainId {
        self.chain
    }

    /// Where it begins.
    pub(super) fn cursor(&self) -> Cursor {
        self.cursor.clone()
    }

    /// Takes what to tell next, or what to read for it.
    pub(super) fn look(
        &mut self,
        context: &Context<'_>,
        coverage: &mut ChainCoverage,
        now: Instant,
    ) -> Looked {
        if let Some(told) = self.queued.pop_front() {
            return Looked::Told(told);
        }
        if self.is_ended {
            return Looked::Ended;
        }
        if !matches!(self.reading, Reading::Nothing) {
            return Looked::Pending;
        }
        if let Some(left) = &self.snapshot {
            self.reading = Reading::Values;
            return Looked::Read(self.ask_values(left, context), Duration::ZERO);
        }
        let told = match self.subscription.next(context.tail, now) {
            Step::Event(remembered) => {
                coverage.note(ChainLandmark::TailTold);
                remembered.frame.clone()
            }
            Step::Revoke { to, seq } => {
                let revoke = Told::revoke(self.chain, to, seq);
                return self.tell_revoke(revoke, context, now);
            }
            Step::Progress { .. } if context.fault == Some(ChainFault::NoProgress) => return Looked::Pending,
            Step::Progress { block, seq } => {
                let point = ChainPoint { block, log: 0 };
                Told::Progress(ChainCursor { chain: self.chain, point, seq: Some(seq) })
            }
            Step::Read { after, up_to } => {
                self.reading = Reading::Log { up_to, asked_at_head: context.tail.head().seq };
                return Looked::Read(self.ask_log(after, up_to, context), Duration::ZERO);
            }
            Step::Reset(reason) => {
                self.reset(reason);
                return self.look(context, coverage, now);
            }
            Step::Wait { .. } => {
                self.is_live = true;
                return Looked::Pending;
            }
        };
        Looked::Told(told)
    }

    /// Looks whether too much waits for a reader who takes nothing; if so, all of it goes.
    pub(super) fn check_overrun(&mut self, context: &Context<'_>, now: Instant) {
        let frames_max = context.config.queued_frames_max;
        if !self.is_live
            || self.is_ended
            || !self.subscription.is_overrun(context.tail, frames_max, usize::MAX)
        {
            return;
        }
        if context.fault == Some(ChainFault::DropOnlyTheOldest) {
            let head = context.tail.head();
            let oldest = head.seq.get().saturating_sub(u64::try_from(frames_max).expect("it is small"));
            let passed = Seq::new(oldest).expect("it is below the head").max(self.subscription.passed());
            let topics = self.subscription.topics().clone();
            self.subscription = Subscription::new(topics, self.mode, head.epoch, passed, now);
            return;
        }
        self.reset(TopicResetReason::SlowConsumer);
    }

    /// Takes in what the store had.
    pub(super) fn handle_found(
        &mut self,
        found: Result<StoreFound, Down>,
        context: &Context<'_>,
        coverage: &mut ChainCoverage,
        now: Instant,
    ) -> Option<(StoreAsk, Duration)> {
        if self.is_ended {
            return None;
        }
        match (std::mem::replace(&mut self.reading, Reading::Nothing), found) {
            (Reading::Log { up_to, asked_at_head }, Ok(StoreFound::Log(Some(slice)))) => {
                self.handle_slice(slice, up_to, asked_at_head, context, coverage, now);
            }
            (Reading::Values, Ok(StoreFound::Values(Some(values)))) => {
                self.handle_values(values, context, coverage)
            }
            (_, Ok(_)) => self.reset(TopicResetReason::EpochChanged),
            (reading @ Reading::Log { up_to, .. }, Err(Down)) => {
                self.reading = reading;
                return Some((self.ask_log(self.subscription.passed(), up_to, context), STORE_PAUSE));
            }
            (_, Err(Down)) => {
                let left = self.snapshot.as_ref()?;
                self.reading = Reading::Values;
                return Some((self.ask_values(left, context), STORE_PAUSE));
            }
        }
        None
    }

    fn handle_slice(
        &mut self,
        slice: ChainSlice,
        up_to: Option<BlockNumber>,
        asked_at_head: Seq,
        context: &Context<'_>,
        coverage: &mut ChainCoverage,
        now: Instant,
    ) {
        let ChainSlice { chain: info, entries, has_more, covered } = slice;
        let head = head_of(&info, context.config, context.fault);
        let entries: Vec<_> = entries.into_iter().map(|entry| (SliceEntry::from(&entry), entry)).collect();
        let slice = Slice { head, min_seq: info.min_seq, entries, has_more, covered, up_to };
        match self.subscription.handle_slice(&slice, now) {
            Ok(()) => {
                let entries = || slice.entries.iter().map(|(_, entry)| entry);
                coverage.add(ChainLandmark::LogRead, u64::from(!slice.entries.is_empty()));
                let is_late = |entry: &ChainEntry| {
                    entry.seq > asked_at_head && matches!(entry.kind, ChainEntryKind::Revoke { .. })
                };
                if entries().any(is_late) {
                    coverage.note(ChainLandmark::ReorgDuringReplay);
                }
                self.queued.extend(entries().map(|entry| Told::of_entry(self.chain, entry)));
            }
            Err(reason) => self.reset(reason),
        }
    }

    fn handle_values(&mut self, values: ChainValues, context: &Context<'_>, coverage: &mut ChainCoverage) {
        let Some(left) = self.snapshot.take() else {
            return;
        };
        let mut since = context.tail.entries().filter(|remembered| remembered.entry.seq > left.began_at);
        if since.any(|remembered| matches!(remembered.entry.kind, ChainEntryKind::Revoke { .. })) {
            coverage.note(ChainLandmark::ReorgDuringSnapshot);
        }
        if values.has_more {
            coverage.note(ChainLandmark::SnapshotInParts);
            let after = values.values.last().map(|(topic, key, _)| (topic.clone(), key.clone()));
            self.snapshot = Some(SnapshotLeft { after, ..left });
        }
        self.queued.push_back(Told::snapshot(left.cursor, values.values, values.has_more));
    }

    /// Tells of a revoke; a broken gateway puts it in the wrong place, or gives it the wrong seq.
    fn tell_revoke(&mut self, revoke: Told, context: &Context<'_>, now: Instant) -> Looked {
        let Told::Revoke(cursor) = revoke else {
            return Looked::Told(revoke);
        };
        if context.fault == Some(ChainFault::RevokeWithOldSeq) {
            return Looked::Told(Told::Revoke(ChainCursor { seq: cursor.seq.map(Seq::prev), ..cursor }));
        }
        if context.fault == Some(ChainFault::RevokeAfterNewBranch)
            && let Step::Event(first) = self.subscription.next(context.tail, now)
        {
            self.queued.push_front(Told::Revoke(cursor));
            return Looked::Told(first.frame.clone());
        }
        Looked::Told(Told::Revoke(cursor))
    }

    fn reset(&mut self, reason: TopicResetReason) {
        self.queued = VecDeque::from([Told::Reset(reason)]);
        self.reading = Reading::Nothing;
        self.snapshot = None;
        self.is_ended = true;
    }

    fn ask_log(&self, after: Seq, up_to: Option<BlockNumber>, context: &Context<'_>) -> StoreAsk {
        StoreAsk::Log(ChainLogRequest {
            chain: self.chain,
            topics: self.topics.clone(),
            after,
            up_to,
            limit: context.config.slice_entries,
        })
    }

    fn ask_values(&self, left: &SnapshotLeft, context: &Context<'_>) -> StoreAsk {
        StoreAsk::Values(ChainValuesRequest {
            chain: self.chain,
            topics: self.topics.clone(),
            up_to: Some(left.up_to),
            after: left.after.clone(),
            limit: context.config.snapshot_values,
        })
    }
}
