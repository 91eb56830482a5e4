//! What a subscriber is told, whichever its number is.

use std::collections::BTreeMap;
use std::sync::Arc;

use gapless_core::{ChainEntry, ChainEntryKind};
use gapless_proto::{
    Body, ChainCursor, ChainId, ChainPoint, EventType, Progress, Revoke, Seq, ServerMessage, Snapshot, Sub,
    Topic, TopicEvent, TopicReset, TopicResetReason, ValueKey,
};

#[derive(Debug, Clone)]
pub(super) enum Told {
    Event(Arc<TopicEvent>),
    Revoke(ChainCursor),
    Progress(ChainCursor),
    Snapshot(Arc<Snapshot>),
    Reset(TopicResetReason),
}

impl Told {
    pub(super) fn of_entry(chain: ChainId, ChainEntry { seq, kind }: &ChainEntry) -> Self {
        match kind {
            ChainEntryKind::Event { block, time, log, topic, payload, values } => {
                let point = ChainPoint { block: block.number, log: *log };
                let cursor = ChainCursor { chain, point, seq: Some(*seq) };
                Self::Event(Arc::new(TopicEvent {
                    sub: NO_SUB,
                    cursor: cursor.into(),
                    kind: EventType::Log,
                    topic: whole_name(chain, topic),
                    payload: payload.clone(),
                    values: values.clone(),
                    block: Some(*block),
                    time: Some(*time),
                }))
            }
            ChainEntryKind::Revoke { to, .. } => Self::revoke(chain, *to, *seq),
        }
    }

    pub(super) fn revoke(chain: ChainId, point: ChainPoint, seq: Seq) -> Self {
        Self::Revoke(ChainCursor { chain, point, seq: Some(seq) })
    }

    pub(super) fn snapshot(
        cursor: ChainCursor,
        values: Vec<(Topic, ValueKey, Body)>,
        has_more: bool,
    ) -> Self {
        let mut state: BTreeMap<Topic, BTreeMap<ValueKey, Body>> = BTreeMap::new();
        for (topic, key, value) in values {
            state.entry(whole_name(cursor.chain, &topic)).or_default().insert(key, value);
        }
        Self::Snapshot(Arc::new(Snapshot { sub: NO_SUB, cursor: cursor.into(), state, has_more }))
    }

    /// The message of one subscription.
    pub(super) fn message(&self, sub: Sub) -> ServerMessage {
        match self {
            Self::Event(event) => ServerMessage::TopicEvent(TopicEvent { sub, ..(**event).clone() }),
            Self::Revoke(cursor) => ServerMessage::Revoke(Revoke { sub, from_cursor: (*cursor).into() }),
            Self::Progress(cursor) => ServerMessage::Progress(Progress { sub, cursor: (*cursor).into() }),
            Self::Snapshot(snapshot) => ServerMessage::Snapshot(Snapshot { sub, ..(**snapshot).clone() }),
            Self::Reset(reason) => ServerMessage::Reset(TopicReset { sub, reason: *reason }),
        }
    }
}

/// Stands for the number, which differs from reader to reader.
const NO_SUB: Sub = Sub::new(0);

fn whole_name(chain: ChainId, topic: &Topic) -> Topic {
    Topic::new(&format!("chain:{chain}:{topic}")).expect("it is short")
}
