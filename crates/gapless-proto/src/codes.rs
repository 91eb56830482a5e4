//! The closed sets of names that tell a peer what happened.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a request was refused. On the wire in capitals, as in `CURSOR_AHEAD`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
    /// The request can't be understood; the message says which part.
    BadRequest,
    /// No valid token was given.
    Unauthenticated,
    /// The token is valid, but this isn't allowed to its owner.
    Forbidden,
    /// There is no such thing, or none that the caller may know of.
    NotFound,
    /// This is no cursor of this server, or one of something else; nothing was read.
    CursorInvalid,
    /// The cursor is beyond the log's head: the log was rewound. Start that feed over.
    CursorAhead,
    /// The cursor is from another life of the log. Start that feed over.
    EpochChanged,
    /// What follows the cursor isn't kept any more. Start that feed over.
    CursorExpired,
    /// The key was used before with other content. Nothing was stored.
    KeyConflict,
    /// The parent of a block isn't here. Nothing was stored; send the blocks between first.
    MissingParent,
    /// A block contradicts what is finalized, or is older than what is kept: nothing was stored; the feed has to begin anew. Of a cursor:
    /// what was final at it was taken back; start that feed over.
    DeepReorg,
    /// The body or the frame is over the limit.
    TooLarge,
    /// Too many requests; try again after `retry_after_ms`.
    RateLimited,
    /// It can't be served at the moment; whether a send took effect is unknown. Send it again with the same key.
    Unavailable,
    /// A fault of the server; its log has the details.
    Internal,
    /// A code that this version doesn't know.
    #[serde(other)]
    Unknown,
}

impl ErrorCode {
    /// Whether the same request may succeed later without being changed.
    pub fn is_retryable(self) -> bool {
        match self {
            Self::RateLimited | Self::Unavailable | Self::Internal => true,
            Self::BadRequest
            | Self::Unauthenticated
            | Self::Forbidden
            | Self::NotFound
            | Self::CursorInvalid
            | Self::CursorAhead
            | Self::EpochChanged
            | Self::CursorExpired
            | Self::KeyConflict
            | Self::MissingParent
            | Self::DeepReorg
            | Self::TooLarge
            | Self::Unknown => false,
        }
    }
}

impl fmt::Display for ErrorCode {
    /// The name on the wire.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadRequest => "BAD_REQUEST",
            Self::Unauthenticated => "UNAUTHENTICATED",
            Self::Forbidden => "FORBIDDEN",
            Self::NotFound => "NOT_FOUND",
            Self::CursorInvalid => "CURSOR_INVALID",
            Self::CursorAhead => "CURSOR_AHEAD",
            Self::EpochChanged => "EPOCH_CHANGED",
            Self::CursorExpired => "CURSOR_EXPIRED",
            Self::KeyConflict => "KEY_CONFLICT",
            Self::MissingParent => "MISSING_PARENT",
            Self::DeepReorg => "DEEP_REORG",
            Self::TooLarge => "TOO_LARGE",
            Self::RateLimited => "RATE_LIMITED",
            Self::Unavailable => "UNAVAILABLE",
            Self::Internal => "INTERNAL",
            Self::Unknown => "UNKNOWN",
        })
    }
}

/// Why the server ended a connection, as a WebSocket close code.
///
/// 4400 to 4499 mean "don't come back as you are"; 4500 to 4599 and 1012 mean "come back, with backoff".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CloseCode {
    /// 1012: the server is going away for a restart.
    ServiceRestart,
    /// 4400: frames that aren't of this protocol.
    ProtocolError,
    /// 4401: the token is missing, invalid or expired. Come back with a fresh one.
    Unauthenticated,
    /// 4403: an operator ended this user's connections.
    Kicked,
    /// 4413: a frame over the limit.
    TooLarge,
    /// 4500: a fault of the server.
    Internal,
    /// 4503: a send failed for a passing reason; come back and send the outbox again, in order.
    Unavailable,
    /// 4504: the peer didn't answer a ping in time.
    HeartbeatTimeout,
    /// 4508: the peer took no byte for too long.
    WriteStalled,
}

impl CloseCode {
    /// All codes that this server sends.
    pub const ALL: [Self; 9] = [
        Self::ServiceRestart,
        Self::ProtocolError,
        Self::Unauthenticated,
        Self::Kicked,
        Self::TooLarge,
        Self::Internal,
        Self::Unavailable,
        Self::HeartbeatTimeout,
        Self::WriteStalled,
    ];

    /// The number in the close frame.
    pub const fn number(self) -> u16 {
        match self {
            Self::ServiceRestart => 1012,
            Self::ProtocolError => 4400,
            Self::Unauthenticated => 4401,
            Self::Kicked => 4403,
            Self::TooLarge => 4413,
            Self::Internal => 4500,
            Self::Unavailable => 4503,
            Self::HeartbeatTimeout => 4504,
            Self::WriteStalled => 4508,
        }
    }

    /// The reason in the close frame: what the peer should do.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::ServiceRestart => "the server restarts; come back in a moment",
            Self::ProtocolError => "not a frame of this protocol; see PROTOCOL.md",
            Self::Unauthenticated => "the token is missing, invalid or expired; come back with a fresh one",
            Self::Kicked => "an operator ended this connection",
            Self::TooLarge => "the frame is over the limit; make it smaller",
            Self::Internal => "a fault of the server; come back",
            Self::Unavailable => "a send failed for a passing reason; come back and send the outbox again",
            Self::HeartbeatTimeout => "no answer to a ping; come back",
            Self::WriteStalled => "no byte was read for too long; come back and sync",
        }
    }

    /// Whether a client that was closed with `number` should connect again as it is. Codes below 4000 are the network's
    /// and the protocol's own: come back.
    pub const fn is_retryable(number: u16) -> bool {
        !matches!(number, 4400..=4499)
    }
}

impl fmt::Display for CloseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.number(), self.reason())
    }
}

/// What a `notice` announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum NoticeCode {
    /// The server is about to stop; come back after `reconnect_after_ms`.
    Draining,
    /// The token expires in `expires_in_ms`; send `renew`.
    TokenExpiring,
    /// A code that this version doesn't know.
    #[serde(other)]
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_of_a_close_code_tells_whether_to_come_back() {
        let come_back: Vec<_> =
            CloseCode::ALL.into_iter().filter(|code| CloseCode::is_retryable(code.number())).collect();
        assert_eq!(
            come_back,
            [
                CloseCode::ServiceRestart,
                CloseCode::Internal,
                CloseCode::Unavailable,
                CloseCode::HeartbeatTimeout,
                CloseCode::WriteStalled
            ]
        );
    }

    #[test]
    fn a_reason_fits_into_a_close_frame() {
        for code in CloseCode::ALL {
            assert!(code.reason().len() <= 123, "{code} is longer than RFC 6455 §5.5 allows");
        }
    }

    #[test]
    fn a_code_is_shown_by_its_name_on_the_wire() -> Result<(), serde_json::Error> {
        for name in ["BAD_REQUEST", "EPOCH_CHANGED", "KEY_CONFLICT", "TOO_LARGE", "UNAVAILABLE"] {
            let code: ErrorCode = serde_json::from_str(&format!("\"{name}\""))?;
            assert_eq!(code.to_string(), name);
        }
        Ok(())
    }

    #[test]
    fn a_code_of_a_newer_server_is_read_as_unknown() -> Result<(), serde_json::Error> {
        assert_eq!(serde_json::from_str::<ErrorCode>(r#""TEAPOT""#)?, ErrorCode::Unknown);
        assert_eq!(serde_json::from_str::<NoticeCode>(r#""TEAPOT""#)?, NoticeCode::Unknown);
        Ok(())
    }
}
