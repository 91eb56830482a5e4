//! Frames to messages and back.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::client_message::fields;
use crate::server_message::frames;
use crate::{ClientMessage, Entry, Event, Page, Rid, ServerMessage};

/// Why a frame can't be read.
#[derive(Debug, thiserror::Error)]
#[error("{kind}")]
pub struct DecodeError {
    /// The request that the frame belongs to, if that much could be read.
    pub rid: Option<Rid>,
    /// What is wrong with it.
    #[source]
    pub kind: DecodeErrorKind,
}

/// What is wrong with a frame.
#[derive(Debug, thiserror::Error)]
pub enum DecodeErrorKind {
    /// It isn't one JSON object, or lacks `t`.
    #[error("a frame must be one JSON object with a text field `t`: {0}")]
    NotAMessage(serde_json::Error),
    /// Its `t` names no message that the receiver takes.
    #[error("there is no message `{0}`; see PROTOCOL.md for those there are")]
    UnknownMessage(String),
    /// A field is missing or has a wrong value.
    #[error("`{message}` has a wrong field: {error}")]
    Field {
        /// The message's name.
        message: &'static str,
        /// Which field, and what is wrong with it.
        error: serde_json::Error,
    },
}

/// What all frames have in common.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    t: Cow<'a, str>,
    #[serde(borrow)]
    rid: Option<&'a RawValue>,
    #[serde(borrow)]
    sub: Option<&'a RawValue>,
}

fn envelope(text: &str) -> Result<Envelope<'_>, DecodeError> {
    serde_json::from_str(text)
        .map_err(|error| DecodeError { rid: None, kind: DecodeErrorKind::NotAMessage(error) })
}

fn fields<'a, T: Deserialize<'a>>(
    message: &'static str,
    envelope: &Envelope<'_>,
    text: &'a str,
) -> Result<T, DecodeError> {
    serde_json::from_str(text)
        .map_err(|error| DecodeError { rid: rid(envelope), kind: DecodeErrorKind::Field { message, error } })
}

fn rid(envelope: &Envelope<'_>) -> Option<Rid> {
    envelope.rid.and_then(|raw| serde_json::from_str(raw.get()).ok())
}

/// Longest piece of a peer's text that is repeated to it in an error.
const QUOTED_CHARS_MAX: usize = 40;

/// Reads a frame from a client.
///
/// A field that isn't known is passed over; a message that isn't known is an error, since its sender waits for an answer.
pub fn decode_client_message(text: &str) -> Result<ClientMessage, DecodeError> {
    let envelope = envelope(text)?;
    Ok(match &*envelope.t {
        "send" => {
            let fields::Send { rid, conv, key, body } = fields("send", &envelope, text)?;
            ClientMessage::Send { rid, conv, key, body }
        }
        "sync" => {
            let fields::Sync { rid, conv, after, limit, epoch } = fields("sync", &envelope, text)?;
            ClientMessage::Sync { rid, conv, after, limit, epoch }
        }
        "ack" => {
            let fields::Ack { conv, cursor, epoch } = fields("ack", &envelope, text)?;
            ClientMessage::Ack { conv, cursor, epoch }
        }
        "renew" => {
            let fields::Renew { rid, token } = fields("renew", &envelope, text)?;
            ClientMessage::Renew { rid, token }
        }
        "subscribe" => ClientMessage::Subscribe(fields("subscribe", &envelope, text)?),
        "unsubscribe" => {
            let fields::Unsubscribe { rid, sub } = fields("unsubscribe", &envelope, text)?;
            ClientMessage::Unsubscribe { rid, sub }
        }
        "ping" => ClientMessage::Ping,
        "pong" => ClientMessage::Pong,
        unknown => {
            return Err(DecodeError {
                rid: rid(&envelope),
                kind: DecodeErrorKind::UnknownMessage(unknown.chars().take(QUOTED_CHARS_MAX).collect()),
            });
        }
    })
}

/// Reads a frame from a server.
///
/// Fields, messages and codes that aren't known are passed over, so that an older client can talk to a newer server.
pub fn decode_server_message(text: &str) -> Result<ServerMessage, DecodeError> {
    let envelope = envelope(text)?;
    Ok(match &*envelope.t {
        "welcome" => ServerMessage::Welcome(fields("welcome", &envelope, text)?),
        "sent" => ServerMessage::Sent(fields("sent", &envelope, text)?),
        "page" => {
            let frames::Page { rid, conv, epoch, min_seq, head, next_after, has_more, trimmed, events } =
                fields("page", &envelope, text)?;
            let page = Page { epoch, min_seq, head, next_after, has_more, trimmed, events };
            ServerMessage::Page { rid, conv, page }
        }
        "event" if envelope.sub.is_some() => ServerMessage::TopicEvent(fields("event", &envelope, text)?),
        "event" => {
            let frames::Event { conv, epoch, seq, kind, sender, key, ts, body } =
                fields("event", &envelope, text)?;
            let entry = Entry { seq, kind, sender, key, ts, body };
            ServerMessage::Event(Event { conv, epoch, entry })
        }
        "hint" => {
            let frames::Hint { conv, epoch, head } = fields("hint", &envelope, text)?;
            ServerMessage::Hint { conv, epoch, head }
        }
        "renewed" => {
            let frames::Renewed { rid, expires_at } = fields("renewed", &envelope, text)?;
            ServerMessage::Renewed { rid, expires_at }
        }
        "subscribed" => ServerMessage::Subscribed(fields("subscribed", &envelope, text)?),
        "unsubscribed" => {
            let frames::Unsubscribed { rid, sub } = fields("unsubscribed", &envelope, text)?;
            ServerMessage::Unsubscribed { rid, sub }
        }
        "snapshot" => ServerMessage::Snapshot(fields("snapshot", &envelope, text)?),
        "revoke" => ServerMessage::Revoke(fields("revoke", &envelope, text)?),
        "reset" => ServerMessage::Reset(fields("reset", &envelope, text)?),
        "progress" => ServerMessage::Progress(fields("progress", &envelope, text)?),
        "ping" => ServerMessage::Ping,
        "pong" => ServerMessage::Pong,
        "error" => ServerMessage::Error(fields("error", &envelope, text)?),
        "notice" => ServerMessage::Notice(fields("notice", &envelope, text)?),
        unknown => ServerMessage::Unknown { t: unknown.chars().take(QUOTED_CHARS_MAX).collect() },
    })
}

impl ClientMessage {
    /// The frame's text.
    pub fn encode(&self) -> String {
        encode(self)
    }
}

impl ServerMessage {
    /// The frame's text.
    ///
    /// # Panics
    ///
    /// For [`ServerMessage::Unknown`], which a server never sends.
    pub fn encode(&self) -> String {
        use frames::Outgoing;
        encode(&match self {
            Self::Welcome(welcome) => Outgoing::Welcome(welcome),
            Self::Sent(sent) => Outgoing::Sent(sent),
            Self::Page { rid, conv, page } => return encode_page(*rid, conv, page),
            Self::Event(event) => return event.encode(),
            Self::Hint { conv, epoch, head } => Outgoing::Hint { conv, epoch: *epoch, head: *head },
            Self::Renewed { rid, expires_at } => Outgoing::Renewed { rid: *rid, expires_at: *expires_at },
            Self::Subscribed(subscribed) => Outgoing::Subscribed(subscribed),
            Self::Unsubscribed { rid, sub } => Outgoing::Unsubscribed { rid: *rid, sub: *sub },
            Self::Snapshot(snapshot) => Outgoing::Snapshot(snapshot),
            Self::TopicEvent(event) => Outgoing::TopicEvent(event),
            Self::Revoke(revoke) => Outgoing::Revoke(revoke),
            Self::Reset(reset) => Outgoing::Reset(reset),
            Self::Progress(progress) => Outgoing::Progress(progress),
            Self::Ping => Outgoing::Ping,
            Self::Pong => Outgoing::Pong,
            Self::Error(error) => Outgoing::Error(error),
            Self::Notice(notice) => Outgoing::Notice(notice),
            Self::Unknown { t } => panic!("`{t}` is no message of this version"),
        })
    }
}

impl Event {
    /// The frame's text; made once for all readers.
    pub fn encode(&self) -> String {
        let Entry { seq, kind, sender, key, ts, body } = &self.entry;
        encode(&frames::Outgoing::Event {
            conv: &self.conv,
            epoch: self.epoch,
            seq: *seq,
            kind,
            sender,
            key: key.as_ref(),
            ts: *ts,
            body,
        })
    }
}

fn encode_page(rid: Rid, conv: &crate::ConvId, page: &Page) -> String {
    encode(&frames::Outgoing::Page {
        rid,
        conv,
        epoch: page.epoch,
        min_seq: page.min_seq,
        head: page.head,
        next_after: page.next_after,
        has_more: page.has_more,
        trimmed: page.trimmed,
        events: &page.events,
    })
}

fn encode(message: &impl serde::Serialize) -> String {
    serde_json::to_string(message).expect("a message holds only texts, numbers and JSON that was checked")
}

#[cfg(test)]
mod tests;
