//! What a subscriber of a chain is told.

use std::collections::BTreeMap;

use gapless_core::{ChainEntry, ChainEntryKind};
use gapless_proto::{
    Body, ChainCursor, ChainId, ChainPoint, Cursor, EventType, Revoke, Seq, ServerMessage, Snapshot, Topic,
    TopicEvent, ValueKey,
};

use super::TopicName;
use crate::told::{NO_SUB, ReaderPosition, Told};

impl Told {
    /// An entry of a chain's log.
    pub(super) fn of_entry(chain: ChainId, ChainEntry { seq, kind }: &ChainEntry) -> Self {
        match kind {
            ChainEntryKind::Event { block, time, log, topic, payload, values } => {
                let cursor = cursor(chain, ChainPoint { block: block.number, log: *log }, *seq);
                let event = TopicEvent {
                    sub: NO_SUB,
                    cursor: cursor.clone(),
                    kind: EventType::Log,
                    topic: TopicName::whole(chain, topic),
                    payload: payload.clone(),
                    values: values.clone(),
                    block: Some(*block),
                    time: Some(*time),
                };
                Self::of("event", ReaderPosition::At(cursor), &ServerMessage::TopicEvent(event))
            }
            ChainEntryKind::Revoke { to, .. } => Self::revoke(chain, *to, *seq),
        }
    }

    /// All behind a place is void.
    pub(super) fn revoke(chain: ChainId, to: ChainPoint, seq: Seq) -> Self {
        let cursor = cursor(chain, to, seq);
        let revoke = Revoke { sub: NO_SUB, from_cursor: cursor.clone() };
        Self::of("revoke", ReaderPosition::At(cursor), &ServerMessage::Revoke(revoke))
    }

    /// Nothing happened up to a place of a chain.
    pub(super) fn quiet(chain: ChainId, point: ChainPoint, seq: Seq) -> Self {
        Self::progress(cursor(chain, point, seq))
    }

    /// Values at a place.
    pub(super) fn snapshot(
        cursor: ChainCursor,
        values: Vec<(Topic, ValueKey, Body)>,
        has_more: bool,
    ) -> Self {
        let mut state: BTreeMap<Topic, BTreeMap<ValueKey, Body>> = BTreeMap::new();
        for (topic, key, value) in values {
            state.entry(TopicName::whole(cursor.chain, &topic)).or_default().insert(key, value);
        }
        let cursor = Cursor::from(cursor);
        let snapshot = Snapshot { sub: NO_SUB, cursor: cursor.clone(), state, has_more };
        // Who has only a part of the values can't go on from here.
        let position = if has_more { ReaderPosition::Kept } else { ReaderPosition::At(cursor) };
        Self::of("snapshot", position, &ServerMessage::Snapshot(snapshot))
    }
}

fn cursor(chain: ChainId, point: ChainPoint, seq: Seq) -> Cursor {
    ChainCursor { chain, point, seq: Some(seq) }.into()
}

#[cfg(test)]
mod tests {
    use gapless_proto::Sub;

    use super::*;

    #[test]
    fn a_revoke_is_told_with_its_place() {
        let point = ChainPoint { block: gapless_proto::BlockNumber::new(7).unwrap(), log: 3 };
        let told = Told::revoke(ChainId::new(1), point, Seq::FIRST);
        let frame = told.frame(Sub::new(12));
        assert_eq!(frame.as_str(), r#"{"t":"revoke","sub":12,"fromCursor":"1:00000000000007:0003:1"}"#);
        let ReaderPosition::At(cursor) = told.position() else { panic!("{told:?}") };
        assert_eq!(cursor.as_str(), "1:00000000000007:0003:1");
    }
}
