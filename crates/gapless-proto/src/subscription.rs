//! What subscriptions are made of: what a client asks for, and what it is told in turn.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::{BlockRef, Body, Rid, Topic, ValueKey};

#[cfg(test)]
mod tests;

/// Names a subscription within its connection. Chosen by the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sub(u32);

impl Sub {
    /// The subscription with a number.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Sub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The longest cursor in bytes: one of a table that names two long keys and twice as many transactions as it may.
const CURSOR_BYTES_MAX: usize = 32 << 10;

/// Where a subscription is. To a client it is a text to keep and give back; what it says depends on what is subscribed to, as
/// [`ChainCursor`](crate::ChainCursor) for chains.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct Cursor(Arc<str>);

/// Why a text can't be a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a cursor of {bytes} bytes is none of this server's; give back one as it was told")]
pub struct CursorTooLong {
    /// How long it was.
    bytes: usize,
}

impl Cursor {
    /// Takes a text of at most 32 KiB.
    pub fn new(text: &str) -> Result<Self, CursorTooLong> {
        if text.len() > CURSOR_BYTES_MAX {
            return Err(CursorTooLong { bytes: text.len() });
        }
        Ok(Self(Arc::from(text)))
    }

    /// The cursor as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<crate::ChainCursor> for Cursor {
    fn from(cursor: crate::ChainCursor) -> Self {
        Self(cursor.to_string().into())
    }
}

impl<'de> Deserialize<'de> for Cursor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::new(&text).map_err(D::Error::custom)
    }
}

/// When events are delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// At once. They may be taken back.
    #[default]
    Instant,
    /// Once they are deep enough in the chain. They are never taken back.
    Confirmed,
}

/// What a client wants to be told of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscribe {
    /// The request.
    pub rid: Rid,
    /// What to tell of; topics of one chain, or one table.
    pub topics: Vec<Topic>,
    /// The position that is held; without it the subscription begins at the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
    /// When to tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Whether the values of the topics are wanted first, or all rows of the table. What follows goes on from them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<bool>,
}

/// Answers `subscribe`: what follows comes after `cursor`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscribed {
    /// The request.
    pub rid: Rid,
    /// The subscription.
    pub sub: Sub,
    /// Where it begins.
    pub cursor: Cursor,
}

/// The values of the topics at a cursor, in one or more parts; the last says that there is no more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The subscription.
    pub sub: Sub,
    /// As of which position.
    pub cursor: Cursor,
    /// The values, by topic and key.
    pub state: BTreeMap<Topic, BTreeMap<ValueKey, Body>>,
    /// Whether another part follows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_more: bool,
}

/// What kind of event.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventType {
    /// A contract on a chain has logged something.
    Log,
    /// A row of a table was changed or deleted.
    Row,
    /// A kind that this version doesn't know.
    Other(String),
}

impl EventType {
    /// The kind's name on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Log => "log",
            Self::Row => "row",
            Self::Other(name) => name,
        }
    }
}

impl Serialize for EventType {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for EventType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Ok(match &*name {
            "log" => Self::Log,
            "row" => Self::Row,
            other => Self::Other(other.to_owned()),
        })
    }
}

/// Something happened that was subscribed to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicEvent {
    /// The subscription.
    pub sub: Sub,
    /// The position after it.
    pub cursor: Cursor,
    /// What kind.
    #[serde(rename = "type")]
    pub kind: EventType,
    /// The topic.
    pub topic: Topic,
    /// What happened.
    pub payload: Body,
    /// The values of the topic that it changed, as they are after it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<ValueKey, Body>,
    /// The block that it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<BlockRef>,
    /// When that was made, in seconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<u64>,
}

/// Everything after a position is void; it becomes the client's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revoke {
    /// The subscription.
    pub sub: Sub,
    /// The position: its place is the last that still holds, its seq that of the revoke.
    #[serde(rename = "fromCursor")]
    pub from_cursor: Cursor,
}

/// Why a position can't be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TopicResetReason {
    /// What comes after it isn't kept any longer.
    CursorExpired,
    /// It is beyond the newest.
    CursorAhead,
    /// The log was rewound.
    EpochChanged,
    /// The client reads too slowly, and what waited for it was dropped.
    SlowConsumer,
    /// The chain took back more than can be taken back here.
    DeepReorg,
    /// A reason that this version doesn't know.
    #[serde(other)]
    Unknown,
}

/// The position can't be served, and the subscription has ended: subscribe again, from a snapshot or the beginning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicReset {
    /// The subscription.
    pub sub: Sub,
    /// Why.
    pub reason: TopicResetReason,
}

/// The position has moved on though nothing happened that was subscribed to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The subscription.
    pub sub: Sub,
    /// The position.
    pub cursor: Cursor,
}
