//! The readers of one feed on this gateway.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use gapless_proto::{Position, Seq, UserId};

use crate::Interval;

/// Who reads a feed here, how far it was told to them, and how far each has acknowledged.
#[derive(Debug)]
pub(super) struct Audience<S> {
    /// Everything up to here was told to those who may see it.
    position: Position,
    /// Where it began: what comes before was told to nobody here, neither entries nor joins and leaves.
    began: Seq,
    members: u64,
    readers: BTreeMap<S, Reader>,
    /// Whether the log is being read to close a gap.
    fetching: bool,
}

/// How news stands to what was told already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Continuity {
    /// It follows on, perhaps with a part that is known.
    Next,
    /// Nothing new.
    Stale,
    /// Something between is missing.
    Gap { after: Seq },
    /// So much is missing that reading it would take too long.
    TooFarBehind,
    /// It is of a newer life of the log.
    Rewound,
}

#[derive(Debug)]
struct Reader {
    user: UserId,
    visible: Interval,
    acked: Seq,
    /// Since when it has lagged behind, or was last hinted.
    lagging_since: Option<Instant>,
    /// After which lag it is hinted next.
    hint_after: Duration,
}

impl Reader {
    fn visible_head(&self, head: Seq) -> Seq {
        self.visible.to.map_or(head, |to| to.min(head))
    }
}

impl<S: Clone + Ord> Audience<S> {
    pub(super) fn new(position: Position, members: u64) -> Self {
        Self { position, began: position.seq, members, readers: BTreeMap::new(), fetching: false }
    }

    pub(super) fn position(&self) -> Position {
        self.position
    }

    /// Whether it has heard of every join and leave after a position.
    pub(super) fn has_heard_all_after(&self, position: Position) -> bool {
        position.epoch == self.position.epoch && position.seq >= self.began
    }

    /// Whether an entry is of the time before it began, so that it is told to nobody.
    pub(super) fn began_after(&self, position: Position) -> bool {
        position.epoch == self.position.epoch && position.seq <= self.began
    }

    pub(super) fn members(&self) -> u64 {
        self.members
    }

    pub(super) fn set_members(&mut self, members: u64) {
        self.members = members;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.readers.is_empty()
    }

    /// How news at `position`, whose first entry is `first`, stands to what was told.
    pub(super) fn continuity(&self, position: Position, first: Option<Seq>, missing_max: u64) -> Continuity {
        if position.epoch > self.position.epoch {
            return Continuity::Rewound;
        }
        if position.epoch < self.position.epoch || position.seq <= self.position.seq {
            return Continuity::Stale;
        }
        if first.is_some_and(|first| first <= self.position.seq.next()) {
            return Continuity::Next;
        }
        if position.seq.get() - self.position.seq.get() > missing_max {
            return Continuity::TooFarBehind;
        }
        Continuity::Gap { after: self.position.seq }
    }

    /// Notes that the log is to be read; `false` when it is being read already.
    pub(super) fn fetch(&mut self) -> bool {
        !std::mem::replace(&mut self.fetching, true)
    }

    pub(super) fn fetched(&mut self) {
        self.fetching = false;
    }

    pub(super) fn pass(&mut self, seq: Seq) {
        self.position.seq = seq;
    }

    /// Empties the audience and goes on from `position`. Returns who was in it.
    pub(super) fn restart(&mut self, position: Position, members: u64) -> Vec<S> {
        self.position = position;
        self.began = position.seq;
        self.members = members;
        self.fetching = false;
        std::mem::take(&mut self.readers).into_keys().collect()
    }

    pub(super) fn enter(
        &mut self,
        session: S,
        user: UserId,
        visible: Interval,
        lag_max: Duration,
        now: Instant,
    ) {
        let reader =
            Reader { user, visible, acked: Seq::ZERO, lagging_since: Some(now), hint_after: lag_max };
        self.readers.insert(session, reader);
    }

    pub(super) fn leave(&mut self, session: &S) {
        self.readers.remove(session);
    }

    /// Whether the session reads on, that is, its user's membership lasts.
    pub(super) fn is_open(&self, session: &S) -> bool {
        self.readers.get(session).is_some_and(|reader| reader.visible.to.is_none())
    }

    pub(super) fn readers_of(&self, seq: Seq) -> impl Iterator<Item = &S> {
        self.readers
            .iter()
            .filter(move |(_, reader)| reader.visible.contains(seq))
            .map(|(session, _)| session)
    }

    /// Ends what a user may see at `seq`, their leave entry.
    pub(super) fn end(&mut self, user: &UserId, seq: Seq) {
        for reader in self.readers.values_mut().filter(|reader| reader.user == *user) {
            reader.visible.to.get_or_insert(seq);
        }
    }

    /// The newest position that a session may see.
    pub(super) fn visible_position(&self, session: &S) -> Option<Position> {
        let reader = self.readers.get(session)?;
        Some(Position { epoch: self.position.epoch, seq: reader.visible_head(self.position.seq) })
    }

    /// Moves a session's cursor, so that it is hinted after the shortest lag again. Once it holds all that it may ever see, so that it need not stay, returns where that ends.
    pub(super) fn ack(&mut self, session: &S, cursor: Seq, lag_max: Duration, now: Instant) -> Option<Seq> {
        let head = self.position.seq;
        let reader = self.readers.get_mut(session)?;
        if cursor > reader.acked {
            reader.acked = cursor;
            reader.lagging_since = Some(now);
            reader.hint_after = lag_max;
        }
        if reader.acked >= reader.visible_head(head) {
            reader.lagging_since = None;
        }
        reader.visible.to.filter(|to| reader.acked >= *to)
    }

    /// Who has lagged for too long, with what they may see; each is due again after twice the time, up to `interval_max`,
    /// until it reacts.
    pub(super) fn lagging(
        &mut self,
        lag_max: Duration,
        interval_max: Duration,
        now: Instant,
    ) -> Vec<(S, Position)> {
        let Position { epoch, seq: head } = self.position;
        let mut due = Vec::new();
        for (session, reader) in &mut self.readers {
            let visible_head = reader.visible_head(head);
            // Their join may be ahead of what is known here.
            if reader.acked >= visible_head || visible_head < reader.visible.from {
                reader.lagging_since = None;
                reader.hint_after = lag_max;
                continue;
            }
            let since = *reader.lagging_since.get_or_insert(now);
            if now.saturating_duration_since(since) >= reader.hint_after {
                reader.lagging_since = Some(now);
                reader.hint_after = (reader.hint_after * 2).min(interval_max);
                due.push((session.clone(), Position { epoch, seq: visible_head }));
            }
        }
        due
    }
}
