//! What became of a chain's feed, kept beside the store: every entry there ever was, and whether it still holds.

use std::collections::BTreeMap;

use gapless_core::{ChainEntry, ChainEntryKind};
use gapless_proto::{BlockHash, BlockNumber, BlockRef, Seq, Topic};
use gapless_store::ChainInfo;

use super::contracts::TopicKind;
use super::feed_model::FeedModel;
use super::reality::{Mined, Reality, Totals, TrueEvent, Values};
use crate::{Guarantee, Violation};

/// The reference for one chain's feed.
#[derive(Debug)]
pub(super) struct Record {
    confirmations: u64,
    entries: BTreeMap<Seq, Logged>,
    /// The events that hold, oldest first.
    live: Vec<Seq>,
    /// What came before the feed's first block; `None` while it has none.
    before_first: Option<Totals>,
    info: ChainInfo,
    /// The highest block that was ever safe since the feed began.
    safe: Option<BlockNumber>,
    /// The positions strictly between these are of lives that are over.
    rewinds: Vec<(Seq, Seq)>,
}

/// An entry that was committed.
#[derive(Debug, Clone)]
pub(super) struct Logged {
    pub(super) kind: ChainEntryKind,
    /// The revoke that has taken it back.
    pub(super) void_at: Option<Seq>,
    /// Whether a restore or a restart has taken it away.
    is_lost: bool,
}

impl Record {
    pub(super) fn new(confirmations: u64, info: ChainInfo) -> Self {
        Self {
            confirmations,
            entries: BTreeMap::new(),
            live: Vec::new(),
            before_first: None,
            info,
            safe: None,
            rewinds: Vec::new(),
        }
    }

    pub(super) fn info(&self) -> ChainInfo {
        self.info
    }

    pub(super) fn entry(&self, seq: Seq) -> Option<&Logged> {
        self.entries.get(&seq)
    }

    /// Whether a block is or was deep enough for those who wait for that.
    pub(super) fn was_safe(&self, number: BlockNumber) -> bool {
        self.safe.is_some_and(|safe| number <= safe)
    }

    /// How many lives the feed has had that a position is surely not of.
    pub(super) fn lives_before(&self, seq: Seq) -> usize {
        self.rewinds.iter().filter(|(_, to)| *to <= seq).count()
    }

    /// How many lives of the feed are over.
    pub(super) fn lives(&self) -> usize {
        self.rewinds.len()
    }

    /// Whether a position is of a life that is over.
    pub(super) fn is_lost(&self, seq: Seq) -> bool {
        self.entries.get(&seq).is_some_and(Logged::is_lost)
            || self.rewinds.iter().any(|(after, to)| *after < seq && seq < *to)
    }

    /// What a reader of topics must have been told who went from one position to another and holds nothing that is void.
    pub(super) fn must_be_told(&self, topics: &[TopicKind], after: Seq, before: Seq) -> Option<Seq> {
        let between = self.entries.range(after.next()..before.max(after.next()));
        let mut owed = between.filter(|(_, logged)| {
            logged.void_at.is_none()
                && !logged.is_lost
                && logged.topic().is_some_and(|topic| topics.contains(&topic))
        });
        owed.next().map(|(seq, _)| *seq)
    }

    /// The events of topics that hold, behind a position; up to a height if there is one.
    pub(super) fn live_after(
        &self,
        topics: &[TopicKind],
        after: Seq,
        up_to: Option<BlockNumber>,
    ) -> Vec<Seq> {
        let live = self.live.iter().filter(|seq| **seq > after);
        let wanted = live.filter(|seq| {
            let logged = &self.entries[seq];
            logged.topic().is_some_and(|topic| topics.contains(&topic))
                && logged.block().is_some_and(|block| up_to.is_none_or(|up_to| block.number <= up_to))
        });
        wanted.copied().collect()
    }

    /// Whether events that are void lie between two positions.
    pub(super) fn has_void_between(&self, after: Seq, before: Seq) -> bool {
        after < before && self.entries.range(after.next()..before).any(|(_, logged)| logged.void_at.is_some())
    }

    /// Whether something up to a position was taken back later.
    pub(super) fn has_revoked(&self, up_to: Option<Seq>) -> bool {
        let revokes = self.entries.iter().filter(|(seq, _)| Some(**seq) > up_to);
        revokes.into_iter().any(|(_, logged)| match &logged.kind {
            ChainEntryKind::Revoke { first, .. } => Some(*first) <= up_to,
            ChainEntryKind::Event { .. } => false,
        })
    }

    /// The block up to which nothing is taken back any more, as far as readers are concerned.
    pub(super) fn safe_now(&self) -> Option<BlockNumber> {
        safe_of(&self.info, self.confirmations)
    }

    /// The values of topics at a height of the canonical chain.
    pub(super) fn values_at(&self, reality: &Reality, topics: &[TopicKind], height: BlockNumber) -> Values {
        let Some((before, head)) = self.before_first.zip(self.info.block) else {
            return Values::new();
        };
        let at = reality.branch(head.hash).find(|block| block.header.at.number <= height);
        let mut values = at.map(|block| block.after.values_since(&before)).unwrap_or_default();
        values.retain(|(topic, _), _| topics.iter().any(|kind| kind.name() == *topic));
        values
    }

    /// Takes in what a commit did, and checks it against what really happened. `first` is the first block of what was handed in.
    pub(super) fn committed(
        &mut self,
        feed: &FeedModel,
        entries: &[ChainEntry],
        first: Option<BlockHash>,
        revoked: usize,
        reality: &Reality,
    ) -> Result<(), Violation> {
        let before = std::mem::replace(&mut self.info, feed.info());
        if self.before_first.is_none() {
            let parent = first.and_then(|first| reality.block(first)).map(|block| block.header.parent);
            let parent = parent.and_then(|parent| reality.block(parent));
            self.before_first = Some(parent.map(|parent| parent.after).unwrap_or_default());
        }
        self.safe = self.safe.max(safe_of(&self.info, self.confirmations));
        for entry in entries {
            self.take(entry, reality)?;
        }
        let Some(head) = self.info.block else {
            return Err(wrong("a commit has left the feed without a block"));
        };
        if let Some(before) = before.block.filter(|_| revoked > 0)
            && reality.is_ancestor(head, before.hash)
        {
            return Err(wrong(format!("{before} was taken back for {head}, though nothing contradicts it")));
        }
        self.check(feed, head, revoked > 0, reality)
    }

    /// Looks whether what holds in the log is what the branch of its head has.
    fn check(
        &self,
        feed: &FeedModel,
        head: BlockRef,
        whole: bool,
        reality: &Reality,
    ) -> Result<(), Violation> {
        let tip = reality.block(head.hash).ok_or_else(|| wrong(format!("{head} was never mined")))?;
        let before = self.before_first.unwrap_or_default();
        let expected = tip.after.events - before.events;
        if self.live.len() as u64 != expected {
            return Err(wrong(format!("{head} has {expected} events up to it, the log {}", self.live.len())));
        }
        if whole {
            let branch: Vec<&Mined> =
                reality.branch(head.hash).take_while(|block| block.after.events > before.events).collect();
            let places = branch
                .iter()
                .rev()
                .flat_map(|block| block.events.iter().map(|event| (block.header.at, event.log)));
            let logged = self.live.iter().filter_map(|seq| self.entries[seq].place());
            if !places.eq(logged) {
                return Err(wrong(format!("what holds in the log isn't what the branch of {head} has")));
            }
        }
        let values = tip.after.values_since(&before);
        let stored: Values = feed
            .newest_values()
            .map(|(topic, key, value)| ((topic.clone(), key.clone()), value.as_str().to_owned()))
            .collect();
        if values != stored {
            return Err(wrong(format!("the values at {head} are {values:?}, in the store {stored:?}")));
        }
        Ok(())
    }

    fn take(&mut self, entry: &ChainEntry, reality: &Reality) -> Result<(), Violation> {
        match &entry.kind {
            ChainEntryKind::Event { block, log, topic, payload, values, .. } => {
                let before = self.before_first.unwrap_or_default();
                let event = true_event(reality, *block, *log, topic)
                    .ok_or_else(|| wrong(format!("{block} has no event {log} of {topic}")))?;
                let is_true = event.payload == payload.as_str()
                    && event
                        .values(&before)
                        .iter()
                        .map(|(key, value)| (key, value.as_str()))
                        .eq(values.iter().map(|(key, value)| (key, value.as_str())));
                if !is_true {
                    return Err(wrong(format!(
                        "event {log} of {block} is {} with {:?}, in the log {payload:?} with {values:?}",
                        event.payload,
                        event.values(&before)
                    )));
                }
                self.live.push(entry.seq);
            }
            ChainEntryKind::Revoke { first, .. } => {
                while let Some(void) = self.live.pop_if(|seq| *seq >= *first) {
                    if let Some(logged) = self.entries.get_mut(&void) {
                        logged.void_at = Some(entry.seq);
                    }
                }
            }
        }
        self.entries.insert(entry.seq, Logged { kind: entry.kind.clone(), void_at: None, is_lost: false });
        Ok(())
    }

    /// The log was trimmed.
    pub(super) fn trimmed(&mut self, info: ChainInfo) {
        self.info = info;
    }

    /// The log was put back to `head`, and goes on as `info` says. Returns how many entries are lost.
    pub(super) fn restored(&mut self, head: Seq, info: ChainInfo) -> usize {
        let mut lost = 0;
        for (_, logged) in self.entries.range_mut(head.next()..) {
            lost += usize::from(!logged.is_lost);
            logged.is_lost = true;
        }
        for logged in self.entries.values_mut().filter(|logged| !logged.is_lost) {
            logged.void_at = logged.void_at.filter(|revoke| *revoke <= head);
        }
        let holds = |(_, logged): &(&Seq, &Logged)| !logged.is_lost && logged.void_at.is_none();
        let events = self.entries.iter().filter(holds).filter(|(_, logged)| logged.topic().is_some());
        self.live = events.map(|(seq, _)| *seq).collect();
        self.rewinds.push((head, info.head));
        self.info = info;
        lost
    }

    /// The feed has begun anew.
    pub(super) fn restarted(&mut self, info: ChainInfo) {
        for logged in self.entries.values_mut() {
            logged.is_lost = true;
        }
        self.live.clear();
        self.before_first = None;
        self.rewinds.push((Seq::ZERO, info.head));
        (self.info, self.safe) = (info, None);
    }

    /// The memory of a backup: what came before its first block.
    pub(super) fn before_first(&self) -> Option<Totals> {
        self.before_first
    }

    pub(super) fn set_before_first(&mut self, before: Option<Totals>) {
        self.before_first = before;
    }
}

impl Logged {
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    pub(super) fn topic(&self) -> Option<TopicKind> {
        match &self.kind {
            ChainEntryKind::Event { topic, .. } => TopicKind::of_name(topic),
            ChainEntryKind::Revoke { .. } => None,
        }
    }

    pub(super) fn block(&self) -> Option<BlockRef> {
        self.place().map(|(block, _)| block)
    }

    pub(super) fn place(&self) -> Option<(BlockRef, u32)> {
        match &self.kind {
            ChainEntryKind::Event { block, log, .. } => Some((*block, *log)),
            ChainEntryKind::Revoke { .. } => None,
        }
    }
}

fn safe_of(info: &ChainInfo, confirmations: u64) -> Option<BlockNumber> {
    let head = info.block?.number;
    let confirmed = head.get().checked_sub(confirmations).and_then(|safe| BlockNumber::new(safe).ok());
    confirmed.max(info.finalized.map(|finalized| finalized.min(head)))
}

fn true_event<'a>(reality: &'a Reality, block: BlockRef, log: u32, topic: &Topic) -> Option<&'a TrueEvent> {
    let mined = reality.block(block.hash).filter(|mined| mined.header.at == block)?;
    mined.events.iter().find(|event| event.log == log && event.topic.name() == *topic)
}

fn wrong(how: impl Into<String>) -> Violation {
    Violation::new(Guarantee::Revocation, how)
}
