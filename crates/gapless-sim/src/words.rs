//! Frames and changes in a few words, for traces.

use std::fmt;

use gapless_client::{Change, ClientEvent};
use gapless_core::{Advance, FeedNews, Standing};
use gapless_proto::{ClientMessage, Entry, Page, Position, ServerMessage};

use crate::gateway_model::{Found, Read};
use crate::store_model::{Down, Frame};

/// Says something shorter than its `Debug` does.
pub(crate) struct Words<'a, T>(pub(crate) &'a T);

impl fmt::Display for Words<'_, ClientMessage> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ClientMessage::Send { rid, conv, key, .. } => write!(f, "send {rid}: {key} to {conv}"),
            ClientMessage::Sync { rid, conv, after, limit, epoch } => {
                write!(f, "sync {rid}: {conv} after {after}@{}, {}", Maybe(epoch), Maybe(limit))
            }
            ClientMessage::Ack { conv, cursor, epoch } => write!(f, "ack {conv} {cursor}@{}", Maybe(epoch)),
            ClientMessage::Renew { rid, .. } => write!(f, "renew {rid}"),
            ClientMessage::Subscribe(subscribe) => write!(f, "subscribe {}", subscribe.rid),
            ClientMessage::Unsubscribe { rid, sub } => write!(f, "unsubscribe {rid}: {sub}"),
            ClientMessage::Ping => f.write_str("ping"),
            ClientMessage::Pong => f.write_str("pong"),
        }
    }
}

impl fmt::Display for Words<'_, ServerMessage> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ServerMessage::Welcome(_) => f.write_str("welcome"),
            ServerMessage::Sent(sent) => {
                let again = if sent.duplicate { " again" } else { "" };
                write!(f, "sent {}{again}: {} {}@{}", sent.rid, sent.conv, sent.seq, sent.epoch)
            }
            ServerMessage::Page { rid, conv, page } => write!(f, "page {rid}: {conv} {}", Words(page)),
            ServerMessage::Event(event) => {
                write!(f, "event {} {}@{}", event.conv, Words(&event.entry), event.epoch)
            }
            ServerMessage::Hint { conv, epoch, head } => write!(f, "hint {conv} {head}@{epoch}"),
            ServerMessage::Renewed { rid, .. } => write!(f, "renewed {rid}"),
            ServerMessage::Ping => f.write_str("ping"),
            ServerMessage::Pong => f.write_str("pong"),
            ServerMessage::Error(error) => write!(f, "error {}: {:?}", Maybe(&error.rid), error.code),
            ServerMessage::Notice(notice) => write!(f, "notice {:?}", notice.code),
            ServerMessage::Subscribed(subscribed) => {
                write!(f, "subscribed {}: {}", subscribed.rid, subscribed.sub)
            }
            ServerMessage::Unsubscribed { rid, sub } => write!(f, "unsubscribed {rid}: {sub}"),
            ServerMessage::Snapshot(snapshot) => {
                write!(f, "snapshot {} at {}", snapshot.sub, snapshot.cursor)
            }
            ServerMessage::TopicEvent(event) => write!(f, "event {} of {}", event.cursor, event.sub),
            ServerMessage::Revoke(revoke) => write!(f, "revoke {} to {}", revoke.sub, revoke.from_cursor),
            ServerMessage::Reset(reset) => write!(f, "reset {}: {:?}", reset.sub, reset.reason),
            ServerMessage::Progress(progress) => write!(f, "progress {} {}", progress.sub, progress.cursor),
            ServerMessage::Unknown { t } => write!(f, "unknown {t}"),
        }
    }
}

impl fmt::Display for Words<'_, Page> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Page { epoch, min_seq, head, next_after, has_more, events, .. } = self.0;
        let more = if *has_more { " and more" } else { "" };
        write!(f, "{} up to {next_after}{more} of {min_seq}..={head}@{epoch}", Words(events))
    }
}

impl fmt::Display for Words<'_, Entry> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Entry { seq, kind, key, body, .. } = self.0;
        match key {
            Some(key) => write!(f, "{seq}:{key}"),
            None => write!(f, "{seq}:{kind}{}", body.as_str()),
        }
    }
}

impl fmt::Display for Words<'_, Vec<Entry>> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (index, entry) in self.0.iter().enumerate() {
            write!(f, "{}{}", if index == 0 { "" } else { " " }, Words(entry))?;
        }
        f.write_str("]")
    }
}

impl fmt::Display for Words<'_, Advance> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} up to {}", Words(&self.0.entries), self.0.position)?;
        match &self.0.trimmed {
            Some(trimmed) => write!(f, ", trimmed {}..={}", trimmed.start(), trimmed.end()),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Words<'_, Change> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Change::Claim(user) => write!(f, "claim by {user}"),
            Change::Advance { conv, advance } => write!(f, "{conv} {}", Words(advance)),
            Change::Reset { conv } => write!(f, "reset of {conv}"),
            Change::Enqueue(message) => write!(f, "outbox + {}: {}", message.id, message.key),
            Change::Dequeue(id) => write!(f, "outbox - {id}"),
        }
    }
}

impl fmt::Display for Words<'_, ClientEvent> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ClientEvent::Connected { .. } => f.write_str("connected"),
            ClientEvent::Disconnected { reason, retry_in } => {
                write!(f, "disconnected, back in {retry_in:?}: {reason}")
            }
            ClientEvent::Entries { conv, advance } => write!(f, "{conv} {}", Words(advance)),
            ClientEvent::UpToDate { conv } => write!(f, "{conv} is up to date"),
            ClientEvent::Reset { conv, reason } => write!(f, "reset of {conv}: {reason:?}"),
            ClientEvent::Refused { conv, code, .. } => write!(f, "{conv} refused: {code:?}"),
            ClientEvent::Sent(sent) => write!(f, "{} sent as {}@{}", sent.key, sent.seq, sent.epoch),
            ClientEvent::SendRefused(refused) => write!(f, "{} refused: {:?}", refused.key, refused.code),
            event @ (ClientEvent::Topics { .. }
            | ClientEvent::TopicsRefused { .. }
            | ClientEvent::TokenExpiring { .. }
            | ClientEvent::Fault(_)
            | ClientEvent::Stopped(_)) => {
                write!(f, "{event:?}")
            }
        }
    }
}

impl fmt::Display for Words<'_, Read> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Read::Standings { link, user, after } => {
                write!(f, "standings of {user} after {} for {link}", Maybe(after))
            }
            Read::LookUp { link, user, conv } => write!(f, "standing of {user} in {conv} for {link}"),
            Read::Log { conv, after } => write!(f, "log of {conv} after {after}"),
            Read::Heads { .. } => f.write_str("heads"),
            Read::Page { link, rid, user, conv, ask } => {
                write!(
                    f,
                    "page {rid} for {link}: {conv} for {user} after {}@{}",
                    ask.after,
                    Maybe(&ask.epoch)
                )
            }
        }
    }
}

impl fmt::Display for Words<'_, Result<Found, Down>> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Ok(Found::Standings(standings)) => {
                standings.iter().try_for_each(|standing| write!(f, "{}; ", Words(standing)))
            }
            Ok(Found::LookUp(Some(standing))) => write!(f, "{}", Words(standing)),
            Ok(Found::Log(Some(log))) => write!(f, "{}", Words(log)),
            Ok(Found::Heads(heads)) => heads.iter().try_for_each(|news| write!(f, "{}; ", Words(news))),
            Ok(Found::Page(Ok(page))) => write!(f, "{}", Words(page)),
            Ok(Found::Page(Err(code))) => write!(f, "{code:?}"),
            Ok(Found::LookUp(None) | Found::Log(None)) => f.write_str("nothing"),
            Err(Down) => f.write_str("the store is down"),
        }
    }
}

impl fmt::Display for Words<'_, Standing> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Standing { conv, position, latest, .. } = self.0;
        write!(f, "{conv} at {position}, visible {}..={}", latest.from, Maybe(&latest.to))
    }
}

impl fmt::Display for Words<'_, FeedNews<Frame>> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries: Vec<Entry> = self.0.entries.iter().map(|fresh| fresh.entry.clone()).collect();
        write!(f, "{} at {}: {}", self.0.conv, self.0.position, Words(&entries))
    }
}

impl fmt::Display for Words<'_, Option<Position>> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Maybe(self.0).fmt(f)
    }
}

/// Something that may be missing.
pub(crate) struct Maybe<'a, T>(pub(crate) &'a Option<T>);

impl<T: fmt::Display> fmt::Display for Maybe<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("-"),
        }
    }
}
