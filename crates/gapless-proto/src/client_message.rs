//! What a client says to the server.

use serde::{Deserialize, Serialize};

use crate::{Body, ConvId, Epoch, Key, Rid, Seq, Sub, Subscribe};

/// One frame from client to server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "t", rename_all = "snake_case")]
pub enum ClientMessage {
    /// Appends a message; answered by `sent` or `error`. Repeat it with the same key until answered.
    Send {
        /// The request.
        rid: Rid,
        /// Where to.
        conv: ConvId,
        /// The sender's name for the message.
        key: Key,
        /// The content.
        body: Body,
    },
    /// Asks for what comes after a cursor; answered by `page` or `error`.
    Sync {
        /// The request.
        rid: Rid,
        /// Of which conversation.
        conv: ConvId,
        /// The cursor: everything visible up to here is held.
        after: Seq,
        /// How many entries at most; 50 when left out, never more than 200.
        #[serde(skip_serializing_if = "Option::is_none")]
        limit: Option<u32>,
        /// The life of the log that the cursor is from; left out only by a client that holds nothing.
        #[serde(skip_serializing_if = "Option::is_none")]
        epoch: Option<Epoch>,
    },
    /// Tells that everything visible up to `cursor` is kept for good. Not answered.
    Ack {
        /// Of which conversation.
        conv: ConvId,
        /// The cursor.
        cursor: Seq,
        /// The life of the log that the cursor is from.
        #[serde(skip_serializing_if = "Option::is_none")]
        epoch: Option<Epoch>,
    },
    /// Replaces the connection's token before it expires; answered by `renewed` or `error`.
    Renew {
        /// The request.
        rid: Rid,
        /// The fresh token: of the same user and device.
        token: String,
    },
    /// Asks to be told of topics; answered by `subscribed` or `error`.
    Subscribe(Subscribe),
    /// Ends a subscription; answered by `unsubscribed` or `error`.
    Unsubscribe {
        /// The request.
        rid: Rid,
        /// Which.
        sub: Sub,
    },
    /// Asks whether the server is alive; answered by `pong`.
    Ping,
    /// Answers a `ping`.
    Pong,
}

/// The fields of each message, apart from the enum: an internally tagged enum is read through a buffer, which would re-encode
/// the body.
pub(crate) mod fields {
    use super::{Body, ConvId, Deserialize, Epoch, Key, Rid, Seq, Sub};

    #[derive(Deserialize)]
    pub(crate) struct Send {
        pub(crate) rid: Rid,
        pub(crate) conv: ConvId,
        pub(crate) key: Key,
        pub(crate) body: Body,
    }

    #[derive(Deserialize)]
    pub(crate) struct Sync {
        pub(crate) rid: Rid,
        pub(crate) conv: ConvId,
        pub(crate) after: Seq,
        pub(crate) limit: Option<u32>,
        pub(crate) epoch: Option<Epoch>,
    }

    #[derive(Deserialize)]
    pub(crate) struct Ack {
        pub(crate) conv: ConvId,
        pub(crate) cursor: Seq,
        pub(crate) epoch: Option<Epoch>,
    }

    #[derive(Deserialize)]
    pub(crate) struct Unsubscribe {
        pub(crate) rid: Rid,
        pub(crate) sub: Sub,
    }

    #[derive(Deserialize)]
    pub(crate) struct Renew {
        pub(crate) rid: Rid,
        pub(crate) token: String,
    }
}
