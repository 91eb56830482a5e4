//! The names of things: one type an id, so that two of them can't be swapped by accident.

use std::fmt;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// Why a text can't be an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The text is empty.
    #[error("a {what} may not be empty; give it 1 to {max} bytes", max = ID_BYTES_MAX)]
    Empty {
        /// Which id was meant.
        what: &'static str,
    },
    /// The text is longer than [`ID_BYTES_MAX`].
    #[error("a {what} of {bytes} bytes is too long; shorten it to {max} bytes", max = ID_BYTES_MAX)]
    TooLong {
        /// Which id was meant.
        what: &'static str,
        /// How long it was.
        bytes: usize,
    },
    /// The text holds white space or a control character.
    #[error("a {what} may not hold white space or control characters; leave out {found:?}")]
    Character {
        /// Which id was meant.
        what: &'static str,
        /// The first character that is refused.
        found: char,
    },
}

/// The longest id in bytes of UTF-8. Ids are part of every index, so they stay small.
const ID_BYTES_MAX: usize = 128;

fn check(what: &'static str, text: &str) -> Result<(), IdError> {
    if text.is_empty() {
        return Err(IdError::Empty { what });
    }
    if text.len() > ID_BYTES_MAX {
        return Err(IdError::TooLong { what, bytes: text.len() });
    }
    match text.chars().find(|c| c.is_whitespace() || c.is_control()) {
        Some(found) => Err(IdError::Character { what, found }),
        None => Ok(()),
    }
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        ///
        /// 1 to 128 bytes of UTF-8 without white space or control characters; compared byte by byte. A clone is
        /// one reference count.
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks a text and makes it an id.
            pub fn new(text: &str) -> Result<Self, IdError> {
                check($what, text)?;
                Ok(Self(Arc::from(text)))
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), &self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                Self::new(&text).map_err(D::Error::custom)
            }
        }
    };
}

text_id!(
    /// Names a conversation.
    ConvId,
    "conversation id"
);
text_id!(
    /// Names a user: whose messages they are and who may see them.
    UserId,
    "user id"
);
text_id!(
    /// Names one device of a user. A user may have several, each with its own cursors.
    DeviceId,
    "device id"
);
text_id!(
    /// Names one send, so that it can be repeated until it is answered: `(feed, sender, key)` is stored once.
    Key,
    "key"
);
text_id!(
    /// Names what events or rows are subscribed to by. Within the feed of a chain it is only the last part, as in `transfers`; a
    /// subscription names it whole, as in `chain:1:transfers`.
    Topic,
    "topic"
);
text_id!(
    /// Names a value of a topic, as an address names a balance.
    ValueKey,
    "key of a value"
);
text_id!(
    /// Names one connection of a device, for logs.
    SessionId,
    "session id"
);

/// Numbers a request within its connection; the answer repeats it.
///
/// Chosen by the client, 0 to 2⁵³ − 1 so that JavaScript keeps it exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64")]
pub struct Rid(u64);

impl Rid {
    /// Makes a request id; `None` beyond 2⁵³ − 1.
    pub fn new(number: u64) -> Option<Self> {
        (number <= crate::position::INTEGER_MAX).then_some(Self(number))
    }

    /// The number.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl TryFrom<u64> for Rid {
    type Error = crate::PositionError;

    fn try_from(number: u64) -> Result<Self, Self::Error> {
        Self::new(number).ok_or(crate::PositionError::TooLarge { what: "rid", number })
    }
}

impl fmt::Display for Rid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_holds_1_to_128_bytes() {
        assert_eq!(ConvId::new(""), Err(IdError::Empty { what: "conversation id" }));
        assert!(ConvId::new(&"é".repeat(64)).is_ok());
        assert_eq!(
            UserId::new(&"x".repeat(10_000)),
            Err(IdError::TooLong { what: "user id", bytes: 10_000 })
        );
    }

    #[test]
    fn an_id_holds_no_white_space_and_no_control_character() {
        for (text, found) in [("a b", ' '), ("a\n", '\n'), ("\0", '\0'), ("a\u{a0}b", '\u{a0}')] {
            assert_eq!(Key::new(text), Err(IdError::Character { what: "key", found }));
        }
    }

    #[test]
    fn an_id_with_escapes_is_read_like_one_without() -> Result<(), serde_json::Error> {
        let user: UserId = serde_json::from_str(r#""al\u0069ce""#)?;
        assert_eq!(user.as_str(), "alice");
        Ok(())
    }

    #[test]
    fn a_rid_beyond_what_javascript_keeps_exact_is_refused() {
        assert!(serde_json::from_str::<Rid>("9007199254740991").is_ok());
        assert!(serde_json::from_str::<Rid>("9007199254740992").is_err());
        assert!(serde_json::from_str::<Rid>("-1").is_err());
    }
}
