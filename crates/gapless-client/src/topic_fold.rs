//! What an application makes of a subscription: the events that hold, and the values that they led to.

use std::collections::{BTreeMap, VecDeque};

use gapless_proto::{
    Body, ChainCursor, ChainPoint, ChainTextError, Cursor, Topic, TopicEvent, TopicResetReason, ValueKey,
};

use crate::TopicsTold;

#[cfg(test)]
mod tests;

/// Folds what is told of a subscription to topics of a chain into what is true: events are taken in, and out again when they are revoked,
/// and each value is the one that the newest event left.
///
/// It remembers a bounded number of the newest events, and of each value what it was before those; so a reorg that reaches further back can't
/// be undone ([`FoldError::TooDeep`]).
#[derive(Debug, Clone)]
pub struct TopicFold {
    events_max: usize,
    events: VecDeque<(ChainPoint, TopicEvent)>,
    values: BTreeMap<(Topic, ValueKey), Vec<Version>>,
    /// The place up to which nothing can be undone any more.
    floor: Option<ChainPoint>,
    /// Whether a part of a snapshot has come and the rest hasn't.
    is_partial: bool,
}

/// A value from an event on.
#[derive(Debug, Clone)]
struct Version {
    point: ChainPoint,
    value: Body,
}

/// Why something that was told can't be folded. Subscribe again, with a snapshot or from the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FoldError {
    /// Events are revoked that aren't remembered any more.
    #[error("the reorg goes back further than is remembered; subscribe again")]
    TooDeep,
    /// The server told a cursor that is none.
    #[error(transparent)]
    Cursor(#[from] ChainTextError),
}

impl TopicFold {
    /// Knows nothing, and will remember at most so many events.
    pub fn new(events_max: usize) -> Self {
        Self { events_max, events: VecDeque::new(), values: BTreeMap::new(), floor: None, is_partial: false }
    }

    /// Takes in what was told.
    pub fn handle(&mut self, told: &TopicsTold) -> Result<(), FoldError> {
        match told {
            TopicsTold::Event(event) => self.take(event),
            TopicsTold::Revoke { cursor } => self.revoke(point(cursor)?),
            TopicsTold::Snapshot(snapshot) => {
                if !std::mem::replace(&mut self.is_partial, snapshot.has_more) {
                    self.clear();
                }
                let point = point(&snapshot.cursor)?;
                self.floor = Some(point);
                let values = snapshot.state.iter();
                for (topic, key, value) in values
                    .flat_map(|(topic, values)| values.iter().map(move |(key, value)| (topic, key, value)))
                {
                    let version = Version { point, value: value.clone() };
                    self.values.insert((topic.clone(), key.clone()), vec![version]);
                }
                Ok(())
            }
            // What of a snapshot came over another connection doesn't belong to what comes now.
            TopicsTold::Begun { .. } => {
                self.is_partial = false;
                Ok(())
            }
            TopicsTold::Reset(TopicResetReason::SlowConsumer) | TopicsTold::Progress { .. } => Ok(()),
            TopicsTold::Reset(_) => {
                self.clear();
                Ok(())
            }
        }
    }

    /// The newest events that hold, oldest first.
    pub fn events(&self) -> impl Iterator<Item = &TopicEvent> {
        self.events.iter().map(|(_, event)| event)
    }

    /// A value of a topic as it is now.
    pub fn value(&self, topic: &Topic, key: &ValueKey) -> Option<&Body> {
        Some(&self.values.get(&(topic.clone(), key.clone()))?.last()?.value)
    }

    /// All values, by topic and key.
    pub fn values(&self) -> impl Iterator<Item = (&Topic, &ValueKey, &Body)> {
        self.values.iter().filter_map(|((topic, key), versions)| Some((topic, key, &versions.last()?.value)))
    }

    fn take(&mut self, event: &TopicEvent) -> Result<(), FoldError> {
        let point = point(&event.cursor)?;
        for (key, value) in &event.values {
            let versions = self.values.entry((event.topic.clone(), key.clone())).or_default();
            versions.push(Version { point, value: value.clone() });
        }
        self.events.push_back((point, event.clone()));
        while self.events.len() > self.events_max {
            self.forget_oldest();
        }
        Ok(())
    }

    fn revoke(&mut self, to: ChainPoint) -> Result<(), FoldError> {
        if self.floor.is_some_and(|floor| to < floor) {
            self.clear();
            return Err(FoldError::TooDeep);
        }
        while self.events.back().is_some_and(|(point, _)| *point > to) {
            self.events.pop_back();
        }
        self.values.retain(|_, versions| {
            versions.retain(|version| version.point <= to);
            !versions.is_empty()
        });
        Ok(())
    }

    /// Keeps of the oldest event only what it left of its values.
    fn forget_oldest(&mut self) {
        let Some((oldest, event)) = self.events.pop_front() else {
            return;
        };
        self.floor = self.floor.max(Some(oldest));
        for key in event.values.into_keys() {
            if let Some(versions) = self.values.get_mut(&(event.topic.clone(), key)) {
                let newest_old =
                    versions.partition_point(|version| version.point <= oldest).saturating_sub(1);
                versions.drain(..newest_old);
            }
        }
    }

    fn clear(&mut self) {
        self.events.clear();
        self.values.clear();
        self.floor = None;
    }
}

fn point(cursor: &Cursor) -> Result<ChainPoint, FoldError> {
    let cursor: ChainCursor = cursor.as_str().parse()?;
    Ok(cursor.point)
}
