//! The client's planted faults, between the session and the network.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use gapless_client::{Change, ConnectionId, PersistId};
use gapless_proto::{ClientMessage, ConvId, Key, Position, ServerMessage};

use crate::Fault;

/// Passes everything through, or breaks the one rule that its fault is about.
#[derive(Debug)]
pub(crate) struct BrokenClient {
    fault: Option<Fault>,
    largest_seen: BTreeMap<ConvId, Position>,
    /// The keys that were sent over an earlier connection, and over this one.
    sent_before: BTreeSet<Key>,
    sent_now: BTreeSet<Key>,
    /// What waits for something newer to go first, at most until then.
    held_back: VecDeque<(ConnectionId, ClientMessage)>,
    held_until: Option<Instant>,
}

/// How long what is unanswered waits for something newer.
const HELD_BACK_MAX: Duration = Duration::from_millis(300);

type Transmitted = Vec<(ConnectionId, ClientMessage)>;

impl BrokenClient {
    pub(crate) fn new(fault: Option<Fault>) -> Self {
        Self {
            fault,
            largest_seen: BTreeMap::new(),
            sent_before: BTreeSet::new(),
            sent_now: BTreeSet::new(),
            held_back: VecDeque::new(),
            held_until: None,
        }
    }

    pub(crate) fn note_received(&mut self, message: &ServerMessage) {
        if self.fault != Some(Fault::LargestSeenCursor) {
            return;
        }
        if let ServerMessage::Event(event) = message {
            let seen = Position { epoch: event.epoch, seq: event.entry.seq };
            let largest = self.largest_seen.entry(event.conv.clone()).or_insert(seen);
            *largest = seen.max(*largest);
        }
    }

    pub(crate) fn note_connect(&mut self) {
        self.sent_before.append(&mut self.sent_now);
        self.held_back.clear();
        self.held_until = None;
    }

    /// What really goes out for a message, in order.
    pub(crate) fn transmit(
        &mut self,
        connection: ConnectionId,
        message: ClientMessage,
        now: Instant,
    ) -> Transmitted {
        match message {
            ClientMessage::Sync { rid, conv, after, limit, epoch } => {
                let seen = self.largest_seen.get(&conv).filter(|seen| Some(seen.epoch) == epoch);
                let after = seen.map_or(after, |seen| seen.seq.max(after));
                vec![(connection, ClientMessage::Sync { rid, conv, after, limit, epoch })]
            }
            ClientMessage::Send { rid, conv, key, body } => {
                self.sent_now.insert(key.clone());
                let is_again = self.sent_before.contains(&key);
                let key = if is_again && self.fault == Some(Fault::ResendWithNewKey) {
                    Key::new(&format!("{key}-again")).expect("it is short")
                } else {
                    key
                };
                let message = ClientMessage::Send { rid, conv, key, body };
                if self.fault != Some(Fault::OutboxAfterNewSends) {
                    return vec![(connection, message)];
                }
                if is_again {
                    self.held_back.push_back((connection, message));
                    self.held_until.get_or_insert(now + HELD_BACK_MAX);
                    return Vec::new();
                }
                let mut messages = vec![(connection, message)];
                messages.extend(self.held_back.drain(..));
                self.held_until = None;
                messages
            }
            ClientMessage::Ack { .. }
            | ClientMessage::Renew { .. }
            | ClientMessage::Ping
            | ClientMessage::Subscribe(_)
            | ClientMessage::Unsubscribe { .. }
            | ClientMessage::Pong => vec![(connection, message)],
        }
    }

    /// Whether the session is told that everything is on disk although it isn't: entries only, so that it is the ack that comes
    /// too early.
    pub(crate) fn claims_persisted(&self, writing: &VecDeque<(PersistId, Change)>) -> bool {
        self.fault == Some(Fault::AckBeforePersisting)
            && writing.iter().all(|(_, change)| matches!(change, Change::Advance { .. }))
    }

    /// What has waited long enough.
    pub(crate) fn release(&mut self, now: Instant) -> Transmitted {
        if self.held_until.is_none_or(|until| until > now) {
            return Vec::new();
        }
        self.held_until = None;
        self.held_back.drain(..).collect()
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.held_until
    }
}
