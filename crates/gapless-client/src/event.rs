//! What an application is told.

use std::fmt;
use std::time::Duration;

use crate::{TopicsId, TopicsTold};
use gapless_core::{Advance, OutboxId, PageError, ResetReason};
use gapless_proto::{ConvId, DeviceId, Epoch, ErrorCode, Key, Seq, SessionId, Timestamp, UserId};

/// Something that an application may want to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientEvent {
    /// A connection stands.
    Connected {
        /// Who the server says that this is.
        user: UserId,
        /// The device.
        device: DeviceId,
        /// The connection's name in the server's log.
        session: SessionId,
    },
    /// There is no connection at the moment; another one is tried.
    Disconnected {
        /// Why.
        reason: DisconnectReason,
        /// When another one is tried.
        retry_in: Duration,
    },
    /// New entries, after the local state has them.
    Entries {
        /// Of which conversation.
        conv: ConvId,
        /// The entries and the cursor after them.
        advance: Advance,
    },
    /// The server was asked and has nothing beyond what was told or is about to be.
    UpToDate {
        /// In which conversation.
        conv: ConvId,
    },
    /// A log was rewound (a restore from a backup): what was held of this conversation is void and it starts over.
    Reset {
        /// Which conversation.
        conv: ConvId,
        /// How it became known.
        reason: ResetReason,
    },
    /// The server won't serve a conversation. It is asked again at the next push, hint or connection.
    Refused {
        /// Which conversation.
        conv: ConvId,
        /// Why.
        code: ErrorCode,
        /// What to do about it.
        message: String,
    },
    /// A message is on the server's disk.
    Sent(Delivered),
    /// A message was refused for good and is no longer in the outbox.
    SendRefused(RefusedSend),
    /// Something happened to a subscription.
    Topics {
        /// To which.
        id: TopicsId,
        /// What.
        told: TopicsTold,
    },
    /// The server won't serve a subscription; it has ended.
    TopicsRefused {
        /// Which.
        id: TopicsId,
        /// Why.
        code: ErrorCode,
        /// What to do about it.
        message: String,
    },
    /// The token expires soon and there is no way to get another one.
    TokenExpiring {
        /// When.
        expires_in: Duration,
    },
    /// The server did what it shouldn't. Nothing is lost by it; a developer should look at it.
    Fault(Fault),
    /// The client has ended. This is its last event.
    Stopped(StopReason),
}

/// A message that is on the server's disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    /// Its number in the outbox.
    pub id: OutboxId,
    /// The conversation.
    pub conv: ConvId,
    /// The sender's name for it.
    pub key: Key,
    /// Its seq.
    pub seq: Seq,
    /// The life of the log.
    pub epoch: Epoch,
    /// When the store took it.
    pub ts: Timestamp,
    /// Whether it was there already, from an earlier try.
    pub duplicate: bool,
}

/// A message that the server won't take, however often it is sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the message {key} to {conv} was refused ({code}): {message}")]
pub struct RefusedSend {
    /// Its number in the outbox.
    pub id: OutboxId,
    /// The conversation.
    pub conv: ConvId,
    /// The sender's name for it.
    pub key: Key,
    /// Why.
    pub code: ErrorCode,
    /// What to do about it.
    pub message: String,
}

/// Why a connection ended or didn't come about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DisconnectReason {
    /// The network or the server's process failed.
    Network {
        /// How.
        message: String,
    },
    /// The server ended it.
    Closed {
        /// The close code.
        code: u16,
        /// What the server says about it.
        reason: String,
    },
    /// It didn't come about in time.
    ConnectTimeout,
    /// The server didn't answer a ping in time.
    HeartbeatTimeout,
    /// The server answers pings but left a request unanswered.
    RequestUnanswered,
    /// A subscription couldn't begin for a passing reason. It is asked for again over another connection.
    SubscriptionFailed {
        /// Why.
        code: ErrorCode,
        /// What the server says about it.
        message: String,
    },
    /// A send failed for a passing reason. All that is unanswered goes again in order, over another connection.
    SendFailed {
        /// Why.
        code: ErrorCode,
        /// What the server says about it.
        message: String,
    },
}

impl fmt::Display for DisconnectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network { message } => f.write_str(message),
            Self::Closed { code, reason } => write!(f, "the server closed the connection: {reason} ({code})"),
            Self::ConnectTimeout => f.write_str("no connection came about in time"),
            Self::HeartbeatTimeout => f.write_str("the server didn't answer a ping"),
            Self::RequestUnanswered => f.write_str("the server left a request unanswered"),
            Self::SubscriptionFailed { code, message } => {
                write!(f, "a subscription failed for now ({code}): {message}")
            }
            Self::SendFailed { code, message } => write!(f, "a send failed for now ({code}): {message}"),
        }
    }
}

/// What a server shouldn't have done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It sent a page that can't be an answer.
    #[error("a page of {conv} makes no sense: {error}")]
    BadPage {
        /// The conversation.
        conv: ConvId,
        /// What is wrong with it.
        error: PageError,
    },
    /// It complained about a frame.
    #[error("the server complains ({code}): {message}")]
    Complaint {
        /// The kind of complaint.
        code: ErrorCode,
        /// What it says.
        message: String,
    },
    /// It sent news of more conversations than are followed.
    #[error("there are too many conversations to follow {conv} as well; raise `conversations_max`")]
    TooManyConversations {
        /// The one that isn't followed.
        conv: ConvId,
    },
}

/// Why a client has ended for good.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StopReason {
    /// The application wanted it.
    #[error("the client was closed")]
    Requested,
    /// The token is refused, and there is no other.
    #[error("the server refuses the token: {message}")]
    Unauthenticated {
        /// What the server says about it.
        message: String,
    },
    /// There is no gapless at this address.
    #[error(
        "there is no gapless at {url}: {found}; give the address that the server tells at its start, such as \
         http://127.0.0.1:7700, with a path only if a proxy puts one before it"
    )]
    WrongAddress {
        /// Where it was looked for.
        url: String,
        /// What is there instead, in words.
        found: String,
    },
    /// The server doesn't want this client back as it is.
    #[error("the server refuses this client ({code}): {message}")]
    Refused {
        /// The close code.
        code: u16,
        /// What the server says about it.
        message: String,
    },
    /// The local state is of another user. Their cursors would skip what this user may see, and their messages would go out
    /// under this user's name.
    #[error("the local state belongs to {kept}, not to {connected}; give each user a state of their own")]
    OtherUser {
        /// Whose state it is.
        kept: UserId,
        /// Who is connected.
        connected: UserId,
    },
    /// The local state can't be read or written. Nothing was acknowledged that isn't stored.
    #[error("the local state failed: {message}")]
    State {
        /// How, with its causes.
        message: String,
    },
}
