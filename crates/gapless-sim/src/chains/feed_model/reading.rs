//! The reads, each of one moment.

use gapless_core::{ChainEntry, ChainEntryKind};
use gapless_proto::{BlockNumber, Body, ChainPoint, Seq, Topic};
use gapless_store::{ChainLogRequest, ChainSlice, ChainValues, ChainValuesRequest};

use super::{FeedModel, StoredEntry};

impl FeedModel {
    /// What a subscriber missed after a seq.
    pub(in crate::chains) fn log(&self, request: &ChainLogRequest) -> ChainSlice {
        let behind = self.entries.range(request.after.next()..);
        let wanted = behind.filter(|(seq, entry)| self.is_wanted(**seq, entry, request));
        let limit = usize::try_from(request.limit).expect("it is small");
        let mut entries: Vec<_> = wanted
            .take(limit + 1)
            .map(|(seq, entry)| ChainEntry { seq: *seq, kind: entry.kind.clone() })
            .collect();
        let has_more = entries.len() > limit;
        entries.truncate(limit);
        let covered = match request.up_to {
            None => self.info.head,
            Some(block) => self
                .last_event(ChainPoint { block, log: u32::MAX })
                .map_or(self.info.min_seq.prev(), |(seq, _)| seq),
        };
        ChainSlice { chain: self.info, entries, has_more, covered }
    }

    fn is_wanted(&self, seq: Seq, entry: &StoredEntry, request: &ChainLogRequest) -> bool {
        match &entry.kind {
            ChainEntryKind::Event { block, topic, .. } => {
                request.topics.contains(topic)
                    && entry.void_at.is_none()
                    && request.up_to.is_none_or(|up_to| block.number <= up_to)
            }
            ChainEntryKind::Revoke { first, .. } => {
                let is_trimmed = *first < self.info.min_seq;
                let mut held = self.entries.range(*first..(*first).max(request.after.next()));
                *first <= request.after
                    && (is_trimmed
                        || held.any(|(_, void)| {
                            void.void_at == Some(seq)
                                && void.topic().is_some_and(|topic| request.topics.contains(topic))
                        }))
            }
        }
    }

    /// The last entry that still holds and is at or before a place.
    pub(in crate::chains) fn seq_at(&self, point: ChainPoint) -> Option<Seq> {
        let last = self.last_event(point).map(|(seq, _)| seq);
        last.or_else(|| (self.info.min_seq == Seq::FIRST).then_some(Seq::ZERO))
    }

    /// The values of topics as they were after a block.
    pub(in crate::chains) fn values(&self, request: &ChainValuesRequest) -> ChainValues {
        let head = self.info.block.map(|block| block.number).unwrap_or_default();
        let block = request.up_to.map_or(head, |number| number.min(head));
        let last = self.last_event(ChainPoint { block, log: u32::MAX });
        let (seq, last) = last.unwrap_or((self.info.min_seq.prev(), ChainPoint { block, log: 0 }));
        let log = if last.block == block { last.log } else { 0 };
        let limit = usize::try_from(request.limit).expect("it is small");
        let mut values: Vec<_> = self
            .values
            .iter()
            .filter(|(name, _)| request.topics.contains(&name.0) && request.after.as_ref() < Some(name))
            .filter_map(|((topic, key), versions)| {
                let mut newest = versions.values().rev();
                let version = newest.find(|version| version.block <= block)?;
                Some((topic.clone(), key.clone(), version.value.clone()))
            })
            .take(limit + 1)
            .collect();
        let has_more = values.len() > limit;
        values.truncate(limit);
        ChainValues { chain: self.info, point: ChainPoint { block, log }, seq, values, has_more }
    }

    /// The newest values there are.
    pub(in crate::chains) fn newest_values(
        &self,
    ) -> impl Iterator<Item = (&Topic, &gapless_proto::ValueKey, &Body)> {
        self.values
            .iter()
            .filter_map(|((topic, key), versions)| Some((topic, key, &versions.last_key_value()?.1.value)))
    }

    fn last_event(&self, point: ChainPoint) -> Option<(Seq, ChainPoint)> {
        let live = self.live(BlockNumber::default());
        let places = live.map(|(seq, block, log)| (ChainPoint { block: block.number, log }, seq));
        places.filter(|(place, _)| *place <= point).max().map(|(place, seq)| (seq, place))
    }
}

impl StoredEntry {
    fn topic(&self) -> Option<&Topic> {
        match &self.kind {
            ChainEntryKind::Event { topic, .. } => Some(topic),
            ChainEntryKind::Revoke { .. } => None,
        }
    }
}
