//! What one client holds of a subscription, checked at each thing that it is told.

use gapless_client::{TopicFold, TopicsTold};
use gapless_proto::{BlockNumber, ChainCursor, ChainPoint, Cursor, Mode, Seq, TopicEvent, TopicResetReason};

use super::contracts::TopicKind;
use super::coverage::{ChainCoverage, ChainLandmark};
use super::reality::Reality;
use super::record::{Logged, Record};
use crate::{Guarantee, Violation};

/// What a client wants.
#[derive(Debug, Clone)]
pub(super) struct Wish {
    pub(super) topics: Vec<TopicKind>,
    pub(super) mode: Mode,
    /// How many events it remembers.
    pub(super) events_max: usize,
}

/// What matters of a client at the moment when it is told something.
#[derive(Debug, Clone, Copy)]
pub(super) struct Client {
    /// Whether it has asked for values.
    pub(super) wants_snapshot: bool,
    /// Whether it was away so long that what it missed may be gone.
    pub(super) was_long_away: bool,
}

/// What should be held, by what was told.
#[derive(Debug, Clone, Default)]
pub(super) struct Holder {
    holding: Option<Holding>,
    /// Whether the last thing that was told is a reset.
    was_reset: bool,
    /// The places of events that were taken back.
    void_places: Vec<ChainPoint>,
}

#[derive(Debug, Clone)]
struct Holding {
    /// Where it began; `None` for the beginning of the log, as far as that is kept.
    base: Option<Seq>,
    /// The position; `None` as long as only a place is known.
    cursor: Option<Seq>,
    /// Whether values are on their way.
    awaits_snapshot: bool,
    /// Whether all values are known, and not only those that were told with events.
    has_all_values: bool,
    /// As of which block it was told values.
    values_at: Option<BlockNumber>,
    /// How many lives of the feed were over when it was known to be served.
    lives: usize,
    /// The events.
    held: Vec<Seq>,
    /// How many of the newest are remembered.
    remembered: usize,
    /// Whether nothing was told since it came back.
    is_back: bool,
    /// Whether nothing was told but values since it began.
    is_fresh: bool,
}

impl Holder {
    /// Takes in what was told, and checks that it is what had to be told next.
    pub(super) fn handle(
        &mut self,
        told: &TopicsTold,
        wish: &Wish,
        client: Client,
        record: &Record,
        coverage: &mut ChainCoverage,
    ) -> Result<(), Violation> {
        let was_reset = std::mem::replace(&mut self.was_reset, false);
        match told {
            TopicsTold::Begun { cursor } => self.begin(parse(cursor)?, client, record, coverage),
            TopicsTold::Reset(reason) => {
                self.was_reset = true;
                if was_reset {
                    return Err(dishonest(format!("{reason:?} was told right after another reset")));
                }
                self.reset(*reason, client, record)
            }
            TopicsTold::Snapshot(snapshot) => {
                coverage.note(ChainLandmark::SnapshotTold);
                let cursor = parse(&snapshot.cursor)?;
                let holding = self.holding()?;
                if holding.base != cursor.seq || !holding.awaits_snapshot {
                    return Err(dishonest("there are values that nobody waits for"));
                }
                if !snapshot.has_more {
                    (holding.awaits_snapshot, holding.has_all_values) = (false, true);
                }
                Ok(())
            }
            TopicsTold::Event(event) => self.event(event, wish, record, coverage),
            TopicsTold::Revoke { cursor } => self.revoke(parse(cursor)?, wish, record, coverage),
            TopicsTold::Progress { cursor } => {
                coverage.note(ChainLandmark::Progress);
                let seq = seq_of(parse(cursor)?)?;
                self.holding()?.move_to(seq, seq.next(), wish, record)
            }
        }
    }

    /// Whether the fold has made the same of it.
    pub(super) fn check_fold(&self, fold: &TopicFold) -> Result<(), Violation> {
        let (held, count) =
            self.holding.as_ref().map_or((&[][..], 0), |holding| (&holding.held[..], holding.remembered));
        let remembered = &held[held.len().saturating_sub(count)..];
        let folded = fold.events().map(|event| parse(&event.cursor).ok().and_then(|cursor| cursor.seq));
        if !folded.eq(remembered.iter().copied().map(Some)) {
            let folded: Vec<_> = fold.events().map(|event| event.cursor.to_string()).collect();
            return Err(revoked_wrong(format!("it holds {folded:?}, and should hold {remembered:?}")));
        }
        Ok(())
    }

    /// Whether it holds all that there is.
    pub(super) fn is_complete(
        &self,
        fold: &TopicFold,
        wish: &Wish,
        record: &Record,
        reality: &Reality,
    ) -> Result<(), Violation> {
        let late = |how: String| Violation::new(Guarantee::ReplayOrConverge, how);
        let Some(holding) = self.holding.as_ref().filter(|holding| !holding.awaits_snapshot) else {
            return Err(late("it isn't served".to_owned()));
        };
        let oldest = record.info().min_seq.prev();
        // Before the first block is confirmed, nothing is.
        let safe = match wish.mode {
            Mode::Instant => record.info().block.map(|block| block.number),
            Mode::Confirmed => record.safe_now(),
        };
        let last = holding.held.last().and_then(|seq| record.entry(*seq)?.block());
        // The head may have fallen since, and what is confirmed stays so.
        let height = safe.max(last.map(|block| block.number)).max(holding.values_at).unwrap_or_default();
        let expected = match safe.or(last.map(|block| block.number)) {
            Some(_) => record.live_after(&wish.topics, holding.base.unwrap_or(oldest), Some(height)),
            None => Vec::new(),
        };
        // What it has had from before a trim stays.
        let held: Vec<_> =
            holding.held.iter().copied().filter(|seq| holding.base.is_some() || *seq > oldest).collect();
        if held != expected {
            return Err(late(format!("it holds {held:?}, and there is {expected:?}")));
        }
        self.check_fold(fold)?;
        self.check_values(fold, holding, wish, record, reality, height)
    }

    fn check_values(
        &self,
        fold: &TopicFold,
        holding: &Holding,
        wish: &Wish,
        record: &Record,
        reality: &Reality,
        height: BlockNumber,
    ) -> Result<(), Violation> {
        let expected = record.values_at(reality, &wish.topics, height);
        let mut folded = 0;
        for (topic, key, value) in fold.values() {
            folded += 1;
            let kind = TopicKind::ALL.into_iter().find(|kind| topic.as_str().ends_with(kind.name().as_str()));
            let counted = kind.and_then(|kind| expected.get(&(kind.name(), key.clone())));
            if counted.map(String::as_str) != Some(value.as_str()) {
                return Err(revoked_wrong(format!("{topic} {key} is {value:?} and counts {counted:?}")));
            }
        }
        if holding.has_all_values && folded != expected.len() {
            return Err(revoked_wrong(format!("it has {folded} values, and there are {expected:?}")));
        }
        Ok(())
    }

    fn holding(&mut self) -> Result<&mut Holding, Violation> {
        self.holding.as_mut().ok_or_else(|| dishonest("something was told to who isn't served"))
    }

    fn begin(
        &mut self,
        cursor: ChainCursor,
        client: Client,
        record: &Record,
        coverage: &mut ChainCoverage,
    ) -> Result<(), Violation> {
        match &mut self.holding {
            Some(holding) if !holding.awaits_snapshot => {
                if cursor.seq.is_some() && holding.cursor.is_some() && cursor.seq != holding.cursor {
                    return Err(dishonest(format!("it goes on at {cursor}, not at {:?}", holding.cursor)));
                }
                coverage.note(ChainLandmark::Resumed);
                (holding.is_back, holding.is_fresh) = (true, false);
            }
            Some(_) | None => {
                let is_from_start = cursor.seq.is_none() && record.info().min_seq == Seq::FIRST;
                self.holding = Some(Holding {
                    base: cursor.seq,
                    cursor: cursor.seq,
                    awaits_snapshot: client.wants_snapshot,
                    has_all_values: is_from_start,
                    values_at: client.wants_snapshot.then_some(cursor.point.block),
                    lives: cursor.seq.map_or(0, |seq| record.lives_before(seq)),
                    held: Vec::new(),
                    remembered: 0,
                    is_back: false,
                    is_fresh: true,
                });
            }
        }
        Ok(())
    }

    fn event(
        &mut self,
        event: &TopicEvent,
        wish: &Wish,
        record: &Record,
        coverage: &mut ChainCoverage,
    ) -> Result<(), Violation> {
        let cursor = parse(&event.cursor)?;
        let seq = seq_of(cursor)?;
        let is_same_place = self.void_places.contains(&cursor.point);
        let holding = self.holding()?;
        let Some(logged) = record.entry(seq) else {
            return Err(Violation::new(Guarantee::Order, format!("nobody has logged {cursor}")));
        };
        let gapless_core::ChainEntryKind::Event { block, time, log, topic, payload, values } = &logged.kind
        else {
            return Err(Violation::new(Guarantee::Order, format!("{cursor} is a revoke")));
        };
        let is_as_logged = event.block == Some(*block)
            && event.time == Some(*time)
            && cursor.point == ChainPoint { block: block.number, log: *log }
            && event.topic.as_str().ends_with(topic.as_str())
            && event.payload == *payload
            && event.values == *values;
        if !is_as_logged {
            return Err(Violation::new(
                Guarantee::Order,
                format!("{event:?} isn't what was logged: {logged:?}"),
            ));
        }
        if wish.mode == Mode::Confirmed {
            coverage.note(ChainLandmark::ConfirmedTold);
            if !record.was_safe(block.number) && !record.is_lost(seq) {
                return Err(revoked_wrong(format!("{cursor} was told before it was confirmed")));
            }
        }
        if is_same_place {
            coverage.note(ChainLandmark::SamePlaceAgain);
        }
        if holding.is_back
            && let Some(from) = holding.cursor
            && record.has_void_between(from, seq)
        {
            coverage.note(ChainLandmark::SparedVoidEvents);
        }
        holding.move_to(seq, seq, wish, record)?;
        holding.held.push(seq);
        holding.remembered = wish.events_max.min(holding.remembered + 1);
        Ok(())
    }

    fn revoke(
        &mut self,
        cursor: ChainCursor,
        wish: &Wish,
        record: &Record,
        coverage: &mut ChainCoverage,
    ) -> Result<(), Violation> {
        if wish.mode == Mode::Confirmed {
            return Err(revoked_wrong(format!("{cursor} takes back what was confirmed")));
        }
        coverage.note(ChainLandmark::RevokeTold);
        let seq = seq_of(cursor)?;
        let holding = self.holding()?;
        match record.entry(seq).map(|logged| &logged.kind) {
            Some(gapless_core::ChainEntryKind::Revoke { to, .. }) if *to == cursor.point => {}
            other => {
                let how = format!("the revoke {cursor} isn't what was logged: {other:?}");
                return Err(Violation::new(Guarantee::Order, how));
            }
        }
        if holding.is_back {
            coverage.note(ChainLandmark::RevokeFirst);
        }
        // A revoke may say what an earlier one would have said, too.
        let void_at = |held: &Seq| record.entry(*held).and_then(|logged| logged.void_at);
        // One of a life that is over is only known by what it said.
        let is_lost = record.is_lost(seq);
        let is_beyond = |held: &Seq| {
            let place = record.entry(*held).and_then(Logged::place);
            place.is_some_and(|(block, log)| ChainPoint { block: block.number, log } > cursor.point)
        };
        let void = |held: &Seq| match is_lost {
            true => is_beyond(held),
            false => void_at(held).is_some_and(|revoke| revoke <= seq),
        };
        let (taken_back, left) = holding.held.drain(..).partition::<Vec<_>, _>(void);
        holding.held = left;
        holding.remembered = holding.remembered.saturating_sub(taken_back.len());
        holding.move_to(seq, seq, wish, record)?;
        let places = taken_back.iter().filter_map(|held| record.entry(*held)?.place());
        self.void_places.extend(places.map(|(block, log)| ChainPoint { block: block.number, log }));
        Ok(())
    }

    fn reset(&mut self, reason: TopicResetReason, client: Client, record: &Record) -> Result<(), Violation> {
        let holding = self.holding()?;
        let cursor = holding.cursor;
        let is_justified = match reason {
            TopicResetReason::SlowConsumer => return Ok(()),
            // What began while the feed began anew may be of either life.
            TopicResetReason::EpochChanged => {
                record.lives() > holding.lives || holding.is_fresh && record.lives() > 0
            }
            TopicResetReason::CursorAhead => cursor.is_some_and(|cursor| cursor > record.info().head),
            TopicResetReason::CursorExpired => {
                let is_gone = cursor.is_none_or(|cursor| cursor.next() < record.info().min_seq);
                // Who begins where the log does may be overtaken by what is trimmed.
                let is_at_edge = holding.base.is_none();
                is_gone && (client.was_long_away || is_at_edge || record.lives() > holding.lives)
            }
            TopicResetReason::DeepReorg => {
                let held = holding.held.iter().filter_map(|seq| record.entry(*seq));
                let begun = cursor.or(holding.base).and_then(|seq| record.entry(seq));
                let is_given_up = record.lives() > holding.lives || holding.is_fresh && record.lives() > 0;
                is_given_up
                    || held.chain(begun).any(|logged| logged.void_at.is_some())
                    || record.has_revoked(cursor)
            }
            TopicResetReason::Unknown => false,
        };
        self.holding = None;
        match is_justified {
            true => Ok(()),
            false => Err(dishonest(format!("{reason:?} at {cursor:?} has no reason"))),
        }
    }
}

impl Holding {
    /// The position moves, and nothing that lies before `end` may have been left out.
    fn move_to(&mut self, to: Seq, end: Seq, wish: &Wish, record: &Record) -> Result<(), Violation> {
        let from = self.cursor.unwrap_or_else(|| record.info().min_seq.prev());
        if self.awaits_snapshot {
            return Err(dishonest("something was told before the values"));
        }
        if to <= from && self.cursor.is_some() {
            return Err(Violation::new(Guarantee::Order, format!("the position fell from {from} to {to}")));
        }
        if record.is_lost(from) && !record.is_lost(to) && self.cursor.is_some() {
            return Err(dishonest(format!(
                "it went on from {from}, which is of a life that is over, to {to}"
            )));
        }
        if !record.is_lost(to)
            && let Some(last) =
                self.held.last().filter(|last| record.entry(**last).is_some_and(Logged::is_lost))
        {
            let how = format!("{last} is held at {to}, though the life that it was of is over");
            return Err(revoked_wrong(how));
        }
        if !record.is_lost(to)
            && let Some(missed) = record.must_be_told(&wish.topics, from, end)
        {
            let how = format!("{missed} was left out on the way from {from} to {to}");
            return Err(Violation::new(Guarantee::ContiguousCursor, how));
        }
        let void = self.held.iter().rev().find(|held| {
            record.entry(**held).and_then(|logged| logged.void_at).is_some_and(|revoke| revoke <= to)
        });
        if let Some(void) = void {
            return Err(revoked_wrong(format!("{void} is held at {to}, though it was taken back")));
        }
        (self.cursor, self.is_back, self.is_fresh) = (Some(to), false, false);
        self.lives = self.lives.max(record.lives_before(to));
        Ok(())
    }
}

pub(super) fn parse(cursor: &Cursor) -> Result<ChainCursor, Violation> {
    cursor.as_str().parse().map_err(|error| dishonest(format!("{} is no cursor: {error}", cursor.as_str())))
}

fn seq_of(cursor: ChainCursor) -> Result<Seq, Violation> {
    cursor.seq.ok_or_else(|| dishonest(format!("{cursor} has no seq")))
}

fn dishonest(how: impl Into<String>) -> Violation {
    Violation::new(Guarantee::HonestPositions, how)
}

fn revoked_wrong(how: impl Into<String>) -> Violation {
    Violation::new(Guarantee::Revocation, how)
}
