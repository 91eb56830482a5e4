//! What a reader of topics is told, in one form for all of them.

use gapless_client::TopicsTold;
use gapless_proto::{Cursor, ServerMessage, Snapshot, Sub, TopicEvent, TopicResetReason};

/// What happened to a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Told {
    /// An event.
    Event(Box<TopicEvent>),
    /// All behind a position is void.
    Revoke(Cursor),
    /// Values, all of them or a part.
    Snapshot(Snapshot),
    /// Nothing happened up to a position.
    Progress(Cursor),
    /// The position can't be served.
    Reset(TopicResetReason),
}

impl Told {
    /// What a frame tells of a subscription; `None` if it tells of something else.
    pub(crate) fn from_message(message: ServerMessage) -> Option<Self> {
        match message {
            ServerMessage::TopicEvent(event) => Some(Self::Event(Box::new(event))),
            ServerMessage::Revoke(revoke) => Some(Self::Revoke(revoke.from_cursor)),
            ServerMessage::Snapshot(snapshot) => Some(Self::Snapshot(snapshot)),
            ServerMessage::Progress(progress) => Some(Self::Progress(progress.cursor)),
            ServerMessage::Reset(reset) => Some(Self::Reset(reset.reason)),
            ServerMessage::Welcome(_)
            | ServerMessage::Sent(_)
            | ServerMessage::Page { .. }
            | ServerMessage::Event(_)
            | ServerMessage::Hint { .. }
            | ServerMessage::Renewed { .. }
            | ServerMessage::Subscribed(_)
            | ServerMessage::Unsubscribed { .. }
            | ServerMessage::Ping
            | ServerMessage::Pong
            | ServerMessage::Error(_)
            | ServerMessage::Notice(_)
            | ServerMessage::Unknown { .. } => None,
        }
    }

    /// What the client tells its application; `None` that it has begun.
    pub(crate) fn from_client(told: TopicsTold) -> Option<Self> {
        match told {
            TopicsTold::Begun { .. } => None,
            TopicsTold::Event(event) => Some(Self::Event(event)),
            TopicsTold::Revoke { cursor } => Some(Self::Revoke(cursor)),
            TopicsTold::Snapshot(snapshot) => Some(Self::Snapshot(snapshot)),
            TopicsTold::Progress { cursor } => Some(Self::Progress(cursor)),
            TopicsTold::Reset(reason) => Some(Self::Reset(reason)),
        }
    }

    /// The same without the connection's name for the subscription, so that what was told over different connections compares.
    pub(crate) fn anywhere(mut self) -> Self {
        match &mut self {
            Self::Event(event) => event.sub = Sub::new(0),
            Self::Snapshot(snapshot) => snapshot.sub = Sub::new(0),
            Self::Revoke(_) | Self::Progress(_) | Self::Reset(_) => {}
        }
        self
    }
}
