//! What a reader holds, by the rules of `PROTOCOL.md` and nothing of the client's own code.

use std::collections::BTreeSet;

use anyhow::Context as _;
use gapless_proto::{ChainCursor, ChainPoint, Cursor, Snapshot, TopicEvent, TopicResetReason};
use serde::Deserialize;

use super::{Told, topic};
use crate::moment::Moment;

/// An event that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Held {
    /// Where it is on the chain.
    pub(crate) point: ChainPoint,
    /// Its number.
    pub(crate) number: u64,
}

/// Folds what a reader is told into what it holds, and counts what shouldn't have been told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fold {
    held: Vec<Held>,
    snapshot: Option<Stand>,
    cursor: Option<Cursor>,
    notes: Notes,
}

/// A snapshot that stands for events.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stand {
    /// Up to where.
    end: ChainPoint,
    /// For which, by their numbers.
    numbers: BTreeSet<u64>,
    /// Whether a part of it is still to come.
    is_partial: bool,
}

/// What was told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Notes {
    events: u64,
    revokes: u64,
    snapshots: u64,
    doubles: u64,
    resets: Vec<TopicResetReason>,
}

/// What the payload of an event of the lab says.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct Payload {
    /// The event's number.
    pub(crate) number: u64,
    /// When its block was mined.
    pub(crate) mined_at: Moment,
}

impl Payload {
    /// Reads that of an event.
    pub(crate) fn of(event: &TopicEvent) -> anyhow::Result<Self> {
        serde_json::from_str(event.payload.as_str()).context("reading an event's payload")
    }
}

impl Fold {
    /// Takes in what was told.
    pub(crate) fn take(&mut self, told: &Told) -> anyhow::Result<()> {
        match told {
            Told::Event(event) => self.take_event(event)?,
            Told::Revoke(cursor) => {
                self.notes.revokes += 1;
                let last = point(cursor)?;
                self.held.retain(|held| held.point <= last);
                self.cursor = Some(cursor.clone());
            }
            Told::Snapshot(snapshot) => self.take_snapshot(snapshot)?,
            Told::Progress(cursor) => self.cursor = Some(cursor.clone()),
            Told::Reset(reason) => {
                self.notes.resets.push(*reason);
                if *reason != TopicResetReason::SlowConsumer {
                    self.held.clear();
                    self.snapshot = None;
                    self.cursor = None;
                }
            }
        }
        Ok(())
    }

    /// Holds what another one holds, too, as one who puts two answers together.
    pub(crate) fn extend(&mut self, other: &Self) {
        self.held.extend(&other.held);
    }

    /// The events that hold, oldest first.
    pub(crate) fn held(&self) -> &[Held] {
        &self.held
    }

    /// The newest event that holds.
    pub(crate) fn newest(&self) -> Option<u64> {
        self.held.last().map(|held| held.number)
    }

    /// Where it is.
    pub(crate) fn cursor(&self) -> Option<&Cursor> {
        self.cursor.as_ref()
    }

    /// How many events were told.
    pub(crate) fn events(&self) -> u64 {
        self.notes.events
    }

    /// How many revokes were told.
    pub(crate) fn revokes(&self) -> u64 {
        self.notes.revokes
    }

    /// How many whole snapshots were told.
    pub(crate) fn snapshots(&self) -> u64 {
        self.notes.snapshots
    }

    /// How many events were told that were held already, or came out of order.
    pub(crate) fn doubles(&self) -> u64 {
        self.notes.doubles
    }

    /// Why it was reset, each time.
    pub(crate) fn resets(&self) -> &[TopicResetReason] {
        &self.notes.resets
    }

    /// How many canonical events it neither holds nor has a snapshot for.
    pub(crate) fn missing(&self, canonical: &[Held]) -> u64 {
        canonical.iter().filter(|event| !self.has(event)).count() as u64
    }

    /// How many events it holds, or has a snapshot for, that aren't canonical.
    pub(crate) fn wrong(&self, canonical: &[Held]) -> u64 {
        let held = self.held.iter().filter(|held| canonical.binary_search(held).is_err()).count();
        let stood_for = self.snapshot.iter().flat_map(|stand| &stand.numbers);
        let stood_for = stood_for.filter(|number| canonical.iter().all(|event| event.number != **number));
        (held + stood_for.count()) as u64
    }

    fn has(&self, event: &Held) -> bool {
        match &self.snapshot {
            Some(stand) if event.point <= stand.end => stand.numbers.contains(&event.number),
            Some(_) | None => self.held.binary_search(event).is_ok(),
        }
    }

    fn take_snapshot(&mut self, snapshot: &Snapshot) -> anyhow::Result<()> {
        let end = point(&snapshot.cursor)?;
        if !self.snapshot.as_ref().is_some_and(|stand| stand.is_partial) {
            self.held.clear();
            self.snapshot = Some(Stand { end, numbers: BTreeSet::new(), is_partial: false });
        }
        if let Some(stand) = &mut self.snapshot {
            for key in snapshot.state.get(&topic()?).into_iter().flat_map(|values| values.keys()) {
                stand.numbers.insert(key.as_str().parse().context("reading the key of a value")?);
            }
            stand.is_partial = snapshot.has_more;
        }
        self.notes.snapshots += u64::from(!snapshot.has_more);
        self.cursor = Some(snapshot.cursor.clone());
        Ok(())
    }

    fn take_event(&mut self, event: &TopicEvent) -> anyhow::Result<()> {
        let held = Held { point: point(&event.cursor)?, number: Payload::of(event)?.number };
        self.notes.events += 1;
        let before =
            self.held.last().map(|last| last.point).or(self.snapshot.as_ref().map(|stand| stand.end));
        if before.is_some_and(|before| before >= held.point) {
            self.notes.doubles += 1;
        } else {
            self.held.push(held);
        }
        self.cursor = Some(event.cursor.clone());
        Ok(())
    }
}

fn point(cursor: &Cursor) -> anyhow::Result<ChainPoint> {
    Ok(cursor.as_str().parse::<ChainCursor>()?.point)
}

#[cfg(test)]
mod tests;
