//! What a stretch of blocks writes.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use gapless_proto::{
    Amount, AmountError, Block, BlockNumber, BlockRef, Body, ChainEvent, ChainPoint, Change, Effect, Seq,
    Topic, ValueKey,
};

use super::Stretch;

/// The name of a value: its topic, and its key in that.
pub type ValueName = (Topic, ValueKey);

/// One entry of a chain's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainEntry {
    /// Its number in the feed.
    pub seq: Seq,
    /// What it says.
    pub kind: ChainEntryKind,
}

impl ChainEntry {
    /// About how many bytes it has: those of its payload and values.
    pub fn bytes(&self) -> usize {
        match &self.kind {
            ChainEntryKind::Event { payload, values, .. } => {
                let values = values.iter().map(|(key, value)| key.as_str().len() + value.as_str().len());
                payload.as_str().len() + values.sum::<usize>()
            }
            ChainEntryKind::Revoke { .. } => 0,
        }
    }
}

/// What an entry of a chain's log says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChainEntryKind {
    /// An event became true.
    Event {
        /// In which block.
        block: BlockRef,
        /// When that was made, in seconds since the Unix epoch.
        time: u64,
        /// The log's index in the block.
        log: u32,
        /// The topic.
        topic: Topic,
        /// What happened.
        payload: Body,
        /// The values of the topic that it changed, as they are after it.
        values: BTreeMap<ValueKey, Body>,
    },
    /// Events are void.
    Revoke {
        /// The last place that still holds.
        to: ChainPoint,
        /// The first entry that is void; all between it and this one that were true until now are.
        first: Seq,
    },
}

/// A value of a topic, from one entry on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueVersion {
    /// The topic, and the value's key in it.
    pub name: ValueName,
    /// The entry that made it so.
    pub seq: Seq,
    /// The block of that.
    pub block: BlockRef,
    /// What it is.
    pub value: Body,
    /// What the event did to it, in sum; with this the event can be taken again on another branch.
    pub effect: Effect,
}

/// What a revoke voids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Voided {
    /// The last place that still holds: the ancestor, and its last log of which there is an event.
    pub to: ChainPoint,
    /// The first entry that is void; `None` when the blocks had no events.
    pub first: Option<Seq>,
}

/// What a stretch writes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChainWrite {
    /// Entries of the log, in seq order. A revoke comes before the branch that replaces what it voids.
    pub entries: Vec<ChainEntry>,
    /// Versions of values, in seq order; at most one an entry and value. See also [`ChainWrite::forget_past`].
    pub versions: Vec<ValueVersion>,
}

/// Why the events of a block can't be taken. Nothing is stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventRefusal {
    /// The logs aren't in order.
    #[error(
        "block {block}: the events of a block come in the order of their logs, each topic at most once a log; see log {log}"
    )]
    OutOfOrder {
        /// The block.
        block: BlockRef,
        /// The first log that is out of place.
        log: u32,
    },
    /// An amount is added to what isn't one.
    #[error("block {block}, log {log}: {topic} {key} can't be added to: {error}")]
    Amount {
        /// The block.
        block: BlockRef,
        /// The log.
        log: u32,
        /// The topic.
        topic: Topic,
        /// The value.
        key: ValueKey,
        /// What is wrong.
        error: AmountError,
    },
}

impl Stretch {
    /// The values that its effect depends on, as they are at the block that it follows.
    pub fn values(&self) -> BTreeSet<ValueName> {
        let events = self.blocks.iter().flat_map(|block| &block.events);
        let changes = events.flat_map(|event| event.changes.iter().map(move |change| (event, change)));
        let sums = changes.filter(|(_, change)| matches!(change.effect, Effect::Add(_)));
        sums.map(|(event, change)| (event.topic.clone(), change.key.clone())).collect()
    }

    /// Decides what it writes after `head`, the newest entry, given what a revoke voids and the values it depends on.
    pub fn write(
        &self,
        head: Seq,
        voided: Option<Voided>,
        values: BTreeMap<ValueName, Body>,
    ) -> Result<ChainWrite, EventRefusal> {
        let mut writer = Writer { head, values, written: ChainWrite::default() };
        if let Some(Voided { to, first: Some(first) }) = voided {
            writer.append(ChainEntryKind::Revoke { to, first });
        }
        for block in &self.blocks {
            check_order(block)?;
            for event in &block.events {
                writer.take(block, event)?;
            }
        }
        Ok(writer.written)
    }
}

impl ChainWrite {
    /// Leaves out what nobody can ask for any more: of a value, the versions before its newest one in a final block. No reorg goes back
    /// to them, and no snapshot.
    ///
    /// Only the last stretch of an ingestion may be treated so, because one that follows may still revoke what is final afterwards.
    pub fn forget_past(&mut self, finalized: BlockNumber) {
        let is_final = |version: &ValueVersion| version.block.number <= finalized;
        let mut newest: HashMap<ValueName, Seq> = HashMap::new();
        for version in self.versions.iter().filter(|version| is_final(version)) {
            newest.insert(version.name.clone(), version.seq);
        }
        self.versions.retain(|version| !is_final(version) || newest[&version.name] == version.seq);
    }
}

struct Writer {
    head: Seq,
    values: BTreeMap<ValueName, Body>,
    written: ChainWrite,
}

impl Writer {
    fn append(&mut self, kind: ChainEntryKind) {
        self.head = self.head.next();
        self.written.entries.push(ChainEntry { seq: self.head, kind });
    }

    fn take(&mut self, block: &Block, event: &ChainEvent) -> Result<(), EventRefusal> {
        let ChainEvent { log, topic, payload, changes } = event;
        let seq = self.head.next();
        let refused = |key: &ValueKey, error| EventRefusal::Amount {
            block: block.at(),
            log: *log,
            topic: topic.clone(),
            key: key.clone(),
            error,
        };
        let mut values = BTreeMap::new();
        for (key, effect) in merged(changes).map_err(|(key, error)| refused(&key, error))? {
            let name = (topic.clone(), key.clone());
            let value = applied(&effect, self.values.get(&name)).map_err(|error| refused(&key, error))?;
            self.values.insert(name.clone(), value.clone());
            self.written.versions.push(ValueVersion {
                name,
                seq,
                block: block.at(),
                value: value.clone(),
                effect,
            });
            values.insert(key, value);
        }
        self.append(ChainEntryKind::Event {
            block: block.at(),
            time: block.time,
            log: *log,
            topic: topic.clone(),
            payload: payload.clone(),
            values,
        });
        Ok(())
    }
}

/// One effect a value, though an event may change one twice, as a transfer to oneself does.
fn merged(changes: &[Change]) -> Result<BTreeMap<ValueKey, Effect>, (ValueKey, AmountError)> {
    let mut effects = BTreeMap::new();
    for Change { key, effect } in changes {
        let effect = match effects.remove(key) {
            None => effect.clone(),
            Some(before) => both(before, effect).map_err(|error| (key.clone(), error))?,
        };
        effects.insert(key.clone(), effect);
    }
    Ok(effects)
}

/// What a value becomes.
fn applied(effect: &Effect, value: Option<&Body>) -> Result<Body, AmountError> {
    match effect {
        Effect::Set(value) => Ok(value.clone()),
        Effect::Add(amount) => {
            let before = value.map(Amount::from_body).transpose()?.unwrap_or_default();
            Ok(before.plus(amount)?.to_body())
        }
    }
}

/// Two effects, one after the other, as one.
fn both(first: Effect, second: &Effect) -> Result<Effect, AmountError> {
    Ok(match (first, second) {
        (Effect::Add(before), Effect::Add(amount)) => Effect::Add(before.plus(amount)?),
        (Effect::Set(before), Effect::Add(_)) => Effect::Set(applied(second, Some(&before))?),
        (Effect::Set(_) | Effect::Add(_), Effect::Set(value)) => Effect::Set(value.clone()),
    })
}

fn check_order(block: &Block) -> Result<(), EventRefusal> {
    let mut topics = BTreeSet::new();
    let mut last = 0;
    for event in &block.events {
        if event.log > last {
            topics.clear();
        }
        if event.log < last || !topics.insert(&event.topic) {
            return Err(EventRefusal::OutOfOrder { block: block.at(), log: event.log });
        }
        last = event.log;
    }
    Ok(())
}
