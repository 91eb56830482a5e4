//! What a subscriber is told, written once for all of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use gapless_core::{ChainEntry, ChainEntryKind};
use gapless_proto::{
    Body, ChainCursor, ChainId, ChainPoint, EventType, Progress, Revoke, Seq, ServerMessage, Snapshot, Sub,
    Topic, TopicEvent, TopicReset, TopicResetReason, ValueKey,
};

use super::TopicName;
use crate::socket::Frame;

/// A message of a subscription, whichever its number is. A clone is one reference count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told {
    /// What stands in `t`.
    name: &'static str,
    position: ReaderPosition,
    /// The frame behind the subscription's number, from the comma to the last brace.
    rest: Arc<str>,
}

/// What a message does to its reader's position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReaderPosition {
    /// It moves.
    At(ChainCursor),
    /// It stays.
    Kept,
    /// It can't be served any more.
    Lost,
}

impl Told {
    /// An entry of a chain's log.
    pub(crate) fn of_entry(chain: ChainId, ChainEntry { seq, kind }: &ChainEntry) -> Self {
        match kind {
            ChainEntryKind::Event { block, time, log, topic, payload, values } => {
                let cursor = cursor(chain, ChainPoint { block: block.number, log: *log }, *seq);
                let event = TopicEvent {
                    sub: NO_SUB,
                    cursor: cursor.into(),
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
    pub(crate) fn revoke(chain: ChainId, to: ChainPoint, seq: Seq) -> Self {
        let cursor = cursor(chain, to, seq);
        let revoke = Revoke { sub: NO_SUB, from_cursor: cursor.into() };
        Self::of("revoke", ReaderPosition::At(cursor), &ServerMessage::Revoke(revoke))
    }

    /// Nothing happened up to a place.
    pub(crate) fn progress(chain: ChainId, point: ChainPoint, seq: Seq) -> Self {
        let cursor = cursor(chain, point, seq);
        let progress = Progress { sub: NO_SUB, cursor: cursor.into() };
        Self::of("progress", ReaderPosition::At(cursor), &ServerMessage::Progress(progress))
    }

    /// Values at a place.
    pub(crate) fn snapshot(
        cursor: ChainCursor,
        values: Vec<(Topic, ValueKey, Body)>,
        has_more: bool,
    ) -> Self {
        let mut state: BTreeMap<Topic, BTreeMap<ValueKey, Body>> = BTreeMap::new();
        for (topic, key, value) in values {
            state.entry(TopicName::whole(cursor.chain, &topic)).or_default().insert(key, value);
        }
        let snapshot = Snapshot { sub: NO_SUB, cursor: cursor.into(), state, has_more };
        // Who has only a part of the values can't go on from here.
        let position = if has_more { ReaderPosition::Kept } else { ReaderPosition::At(cursor) };
        Self::of("snapshot", position, &ServerMessage::Snapshot(snapshot))
    }

    /// The position can't be served.
    pub(crate) fn reset(reason: TopicResetReason) -> Self {
        let position = match reason {
            TopicResetReason::SlowConsumer => ReaderPosition::Kept,
            TopicResetReason::CursorExpired
            | TopicResetReason::CursorAhead
            | TopicResetReason::EpochChanged
            | TopicResetReason::DeepReorg
            | TopicResetReason::Unknown => ReaderPosition::Lost,
        };
        Self::of("reset", position, &ServerMessage::Reset(TopicReset { sub: NO_SUB, reason }))
    }

    /// The frame of one subscription.
    pub(crate) fn frame(&self, sub: Sub) -> Frame {
        let Self { name, rest, .. } = self;
        let head = format!(r#"{{"t":"{name}","sub":{sub}"#);
        // Of its exact size, so that it needn't be moved to become a frame.
        let mut frame = String::with_capacity(head.len() + rest.len());
        frame.push_str(&head);
        frame.push_str(rest);
        Frame::from(frame)
    }

    /// What stands in `t`.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// What it does to the reader's position.
    pub(crate) fn position(&self) -> ReaderPosition {
        self.position
    }

    /// The message without its name and the subscription's number.
    pub(crate) fn data(&self) -> String {
        format!("{{{}", &self.rest[1..])
    }

    /// The message without the subscription's number.
    pub(crate) fn object(&self) -> String {
        let Self { name, rest, .. } = self;
        format!(r#"{{"t":"{name}"{rest}"#)
    }

    /// About how many bytes it has.
    pub(crate) fn len(&self) -> usize {
        self.rest.len()
    }

    fn of(name: &'static str, position: ReaderPosition, message: &ServerMessage) -> Self {
        let frame = message.encode();
        let head = format!(r#"{{"t":"{name}","sub":{NO_SUB}"#);
        let rest = frame.strip_prefix(&head).expect("the name and the number come first");
        Self { name, position, rest: Arc::from(rest) }
    }
}

/// Stands for the number, which differs from reader to reader.
const NO_SUB: Sub = Sub::new(0);

fn cursor(chain: ChainId, point: ChainPoint, seq: Seq) -> ChainCursor {
    ChainCursor { chain, point, seq: Some(seq) }
}

#[cfg(test)]
mod tests {
    use gapless_proto::Cursor;

    use super::*;

    #[test]
    fn a_message_is_written_once_and_numbered_for_each_reader() {
        let point = ChainPoint { block: gapless_proto::BlockNumber::new(7).unwrap(), log: 3 };
        let told = Told::revoke(ChainId::new(1), point, Seq::FIRST);
        let frame = told.frame(Sub::new(12));
        assert_eq!(frame.as_str(), r#"{"t":"revoke","sub":12,"fromCursor":"1:00000000000007:0003:1"}"#);
        assert_eq!(told.data(), r#"{"fromCursor":"1:00000000000007:0003:1"}"#);
        assert_eq!(told.object(), r#"{"t":"revoke","fromCursor":"1:00000000000007:0003:1"}"#);
        let ReaderPosition::At(cursor) = told.position() else { panic!("{told:?}") };
        assert_eq!(Cursor::from(cursor).as_str(), "1:00000000000007:0003:1");
        assert_eq!(Told::reset(TopicResetReason::SlowConsumer).data(), r#"{"reason":"slow_consumer"}"#);
    }
}
