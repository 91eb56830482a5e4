//! What the server says to a client.

use serde::{Deserialize, Serialize};

use crate::{
    Body, ConvId, DeviceId, Entry, Epoch, ErrorCode, Key, Kind, NoticeCode, Page, Progress, Revoke, Rid, Seq,
    SessionId, Snapshot, Sub, Subscribed, Timestamp, TopicEvent, TopicReset, UserId,
};

/// One frame from server to client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerMessage {
    /// The first frame of every connection.
    Welcome(Welcome),
    /// Answers `send`: the message is on disk.
    Sent(Sent),
    /// Answers `sync`.
    Page {
        /// The request.
        rid: Rid,
        /// The conversation.
        conv: ConvId,
        /// The stretch of its log.
        page: Page,
    },
    /// A new entry, pushed.
    Event(Event),
    /// There is more: pull. `head` is the newest seq that the reader may see.
    Hint {
        /// The conversation.
        conv: ConvId,
        /// The life of the log.
        epoch: Epoch,
        /// The newest seq.
        head: Seq,
    },
    /// Answers `renew`.
    Renewed {
        /// The request.
        rid: Rid,
        /// When the new token expires.
        expires_at: Timestamp,
    },
    /// Answers `subscribe`.
    Subscribed(Subscribed),
    /// Answers `unsubscribe`: nothing more comes of it.
    Unsubscribed {
        /// The request.
        rid: Rid,
        /// Which subscription.
        sub: Sub,
    },
    /// Values of topics.
    Snapshot(Snapshot),
    /// An event of a topic, pushed. On the wire its name is that of [`ServerMessage::Event`]; it has `sub`.
    TopicEvent(TopicEvent),
    /// Events of topics are void.
    Revoke(Revoke),
    /// A subscription has ended, since its position can't be served.
    Reset(TopicReset),
    /// A quiet subscription has moved on.
    Progress(Progress),
    /// Asks whether the client is alive; answered by `pong`.
    Ping,
    /// Answers a `ping`.
    Pong,
    /// A request was refused, or a frame not understood.
    Error(ErrorReply),
    /// Something the client should know of.
    Notice(Notice),
    /// A message of a newer server: pass over it.
    Unknown {
        /// Its name.
        t: String,
    },
}

/// Tells a client who it is to the server, and the server's limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The user, from the token.
    pub user: UserId,
    /// The device, from the token.
    pub device: DeviceId,
    /// The connection's name in the server's log.
    pub session: SessionId,
    /// After how much silence either side pings, in milliseconds.
    pub heartbeat_ms: u64,
    /// The longest body in bytes.
    pub body_bytes_max: u64,
    /// When the token expires; left out when it never does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// The answer to a send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// The request.
    pub rid: Rid,
    /// The conversation.
    pub conv: ConvId,
    /// The seq that the message has.
    pub seq: Seq,
    /// The life of the log.
    pub epoch: Epoch,
    /// When the store took it.
    pub ts: Timestamp,
    /// Whether it was there already, from an earlier try.
    pub duplicate: bool,
}

/// A pushed entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The conversation.
    pub conv: ConvId,
    /// The life of the log.
    pub epoch: Epoch,
    /// The entry.
    pub entry: Entry,
}

/// The body of an `error`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorReply {
    /// The request; left out when the frame was too broken to have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rid: Option<Rid>,
    /// What kind of refusal.
    pub code: ErrorCode,
    /// What to do about it, for people.
    pub message: String,
    /// When to try again, if later may help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// The body of a `notice`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// What is announced.
    pub code: NoticeCode,
    /// When to connect again, in milliseconds from now; with `DRAINING`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reconnect_after_ms: Option<u64>,
    /// When the token expires, in milliseconds from now; with `TOKEN_EXPIRING`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
}

/// The frames as they stand on the wire: flat, with the tag first.
pub(crate) mod frames {
    use super::{
        Body, ConvId, Deserialize, Entry, Epoch, ErrorReply, Key, Kind, Notice, Progress, Revoke, Rid, Sent,
        Seq, Serialize, Snapshot, Sub, Subscribed, Timestamp, TopicEvent, TopicReset, UserId, Welcome,
    };

    /// Borrows on the way out, so that encoding copies nothing but the text.
    #[derive(Serialize)]
    #[serde(tag = "t", rename_all = "snake_case")]
    pub(crate) enum Outgoing<'a> {
        Welcome(&'a Welcome),
        Sent(&'a Sent),
        Page {
            rid: Rid,
            conv: &'a ConvId,
            epoch: Epoch,
            min_seq: Seq,
            head: Seq,
            next_after: Seq,
            has_more: bool,
            trimmed: bool,
            events: &'a [Entry],
        },
        Event {
            conv: &'a ConvId,
            epoch: Epoch,
            seq: Seq,
            kind: &'a Kind,
            sender: &'a UserId,
            #[serde(skip_serializing_if = "Option::is_none")]
            key: Option<&'a Key>,
            ts: Timestamp,
            body: &'a Body,
        },
        Hint {
            conv: &'a ConvId,
            epoch: Epoch,
            head: Seq,
        },
        Renewed {
            rid: Rid,
            expires_at: Timestamp,
        },
        Subscribed(&'a Subscribed),
        Unsubscribed {
            rid: Rid,
            sub: Sub,
        },
        Snapshot(&'a Snapshot),
        #[serde(rename = "event")]
        TopicEvent(&'a TopicEvent),
        Revoke(&'a Revoke),
        Reset(&'a TopicReset),
        Progress(&'a Progress),
        Ping,
        Pong,
        Error(&'a ErrorReply),
        Notice(&'a Notice),
    }

    #[derive(Deserialize)]
    pub(crate) struct Page {
        pub(crate) rid: Rid,
        pub(crate) conv: ConvId,
        pub(crate) epoch: Epoch,
        pub(crate) min_seq: Seq,
        pub(crate) head: Seq,
        pub(crate) next_after: Seq,
        pub(crate) has_more: bool,
        pub(crate) trimmed: bool,
        pub(crate) events: Vec<Entry>,
    }

    #[derive(Deserialize)]
    pub(crate) struct Event {
        pub(crate) conv: ConvId,
        pub(crate) epoch: Epoch,
        pub(crate) seq: Seq,
        pub(crate) kind: Kind,
        pub(crate) sender: UserId,
        pub(crate) key: Option<Key>,
        pub(crate) ts: Timestamp,
        pub(crate) body: Body,
    }

    #[derive(Deserialize)]
    pub(crate) struct Hint {
        pub(crate) conv: ConvId,
        pub(crate) epoch: Epoch,
        pub(crate) head: Seq,
    }

    #[derive(Deserialize)]
    pub(crate) struct Unsubscribed {
        pub(crate) rid: Rid,
        pub(crate) sub: Sub,
    }

    #[derive(Deserialize)]
    pub(crate) struct Renewed {
        pub(crate) rid: Rid,
        pub(crate) expires_at: Timestamp,
    }
}
