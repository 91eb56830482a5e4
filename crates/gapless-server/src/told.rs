//! What a subscriber is told, written once for all of them.

use std::sync::Arc;

use gapless_proto::{Cursor, Progress, ServerMessage, Sub, TopicReset, TopicResetReason};

use crate::socket::Frame;

/// A message of a subscription, whichever its number is. A clone is two reference counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told {
    /// What stands in `t`.
    name: &'static str,
    position: ReaderPosition,
    /// The frame behind the subscription's number, from the comma to the last brace.
    rest: Arc<str>,
}

/// What a message does to its reader's position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReaderPosition {
    /// It moves.
    At(Cursor),
    /// It stays.
    Kept,
    /// It can't be served any more.
    Lost,
}

/// Stands for the number of a subscription, which differs from reader to reader.
pub(crate) const NO_SUB: Sub = Sub::new(0);

impl Told {
    /// A message with its position; its `sub` is [`NO_SUB`].
    pub(crate) fn of(name: &'static str, position: ReaderPosition, message: &ServerMessage) -> Self {
        let frame = message.encode();
        let head = format!(r#"{{"t":"{name}","sub":{NO_SUB}"#);
        let rest = frame.strip_prefix(&head).expect("the name and the number come first");
        Self::written(name, position, rest)
    }

    /// A message that is written already: all behind the subscription's number, from the comma to the last brace.
    pub(crate) fn written(name: &'static str, position: ReaderPosition, rest: &str) -> Self {
        Self { name, position, rest: Arc::from(rest) }
    }

    /// Nothing happened up to a place.
    pub(crate) fn progress(cursor: Cursor) -> Self {
        let progress = ServerMessage::Progress(Progress { sub: NO_SUB, cursor: cursor.clone() });
        Self::of("progress", ReaderPosition::At(cursor), &progress)
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
    pub(crate) fn position(&self) -> &ReaderPosition {
        &self.position
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_written_once_and_numbered_for_each_reader() {
        let told = Told::progress(Cursor::new("1:7").unwrap());
        assert_eq!(told.frame(Sub::new(12)).as_str(), r#"{"t":"progress","sub":12,"cursor":"1:7"}"#);
        assert_eq!(told.data(), r#"{"cursor":"1:7"}"#);
        assert_eq!(told.object(), r#"{"t":"progress","cursor":"1:7"}"#);
        assert_eq!(*told.position(), ReaderPosition::At(Cursor::new("1:7").unwrap()));
        assert_eq!(Told::reset(TopicResetReason::SlowConsumer).data(), r#"{"reason":"slow_consumer"}"#);
    }
}
