//! What a feed consists of.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Body, Key, Seq, Timestamp, UserId};

/// One entry of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number in the feed.
    pub seq: Seq,
    /// What it is.
    pub kind: Kind,
    /// Who caused it.
    pub sender: UserId,
    /// The sender's name for it; entries that the server made have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Key>,
    /// When the store took it.
    pub ts: Timestamp,
    /// Its content; for membership changes a [`MembershipChange`].
    pub body: Body,
}

/// What an entry is.
///
/// Readers must pass over kinds they don't know, so that an older client isn't stopped by a newer server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Something a user or a backend sent.
    Message,
    /// A user became a member; the body names them, the sender is who added them.
    Join,
    /// A user ceased to be a member; the body names them, the sender is who removed them.
    Leave,
    /// A kind that this version doesn't know.
    Other(String),
}

impl Kind {
    /// The kind's name on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Message => "message",
            Self::Join => "join",
            Self::Leave => "leave",
            Self::Other(name) => name,
        }
    }

    /// Reads a kind's name; one that isn't known is kept.
    pub fn from_name(name: &str) -> Self {
        match name {
            "message" => Self::Message,
            "join" => Self::Join,
            "leave" => Self::Leave,
            other => Self::Other(other.to_owned()),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Ok(Self::from_name(&name))
    }
}

/// The body of a `join` or `leave` entry: whom it concerns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MembershipChange {
    /// The user who became or ceased to be a member.
    pub user: UserId,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_of_a_newer_server_is_kept_by_name() -> Result<(), serde_json::Error> {
        let kind: Kind = serde_json::from_str(r#""recall""#)?;
        assert_eq!(kind, Kind::Other("recall".to_owned()));
        assert_eq!(serde_json::to_string(&kind)?, r#""recall""#);
        Ok(())
    }
}
