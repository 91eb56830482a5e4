//! Drives a session by hand and puts its commands into words.

use std::time::Duration;

use gapless_core::{Advance, ResetReason};
use gapless_proto::{
    DeviceId, Entry, Epoch, ErrorReply, Event, Kind, Page, Sent, SessionId, Subscribe, Timestamp, UserId,
    Welcome,
};

use super::super::*;

/// Drives a session by hand and puts its commands into words.
pub(super) struct Bench {
    pub(super) session: Session,
    pub(super) now: Instant,
    pub(super) commands: Vec<Command>,
    pub(super) last_sync: Option<(Rid, u32)>,
    pub(super) last_rid: Option<Rid>,
}

impl Bench {
    pub(super) fn with_config(config: SessionConfig, snapshot: Snapshot) -> Self {
        let now = Instant::now();
        let session = Session::new(config, snapshot, 0, now);
        Self { session, now, commands: Vec::new(), last_sync: None, last_rid: None }
    }

    pub(super) fn from_snapshot(snapshot: Snapshot) -> Self {
        Self::with_config(SessionConfig::default(), snapshot)
    }

    pub(super) fn new() -> Self {
        Self::from_snapshot(snapshot())
    }

    pub(super) fn with_positions(held: &[(&str, u64)]) -> Self {
        Self::from_snapshot(positions(held))
    }

    pub(super) fn live() -> Self {
        Self::live_with_positions(&[])
    }

    /// Connected, synced, and with nothing to do.
    pub(super) fn live_with_positions(held: &[(&str, u64)]) -> Self {
        let mut bench = Self::with_positions(held);
        bench.welcome(0);
        for (rid, (_, head)) in held.iter().enumerate() {
            bench.page(0, rid as u64, head + 1..=*head);
        }
        bench.pass(1_000);
        bench.drain();
        bench
    }

    pub(super) fn message(&mut self, connection: u64, message: ServerMessage) {
        self.session.handle_message(ConnectionId(connection), message, self.now);
        self.collect();
    }

    pub(super) fn welcome(&mut self, connection: u64) {
        let welcome = Welcome {
            user: UserId::new("alice").unwrap(),
            device: DeviceId::new("phone").unwrap(),
            session: SessionId::new("s-1").unwrap(),
            heartbeat_ms: 25_000,
            body_bytes_max: 1_000,
            expires_at: None,
        };
        self.message(connection, ServerMessage::Welcome(welcome));
    }

    pub(super) fn send(&mut self, name: &str) {
        self.session.send(conv("demo"), key(name), body()).unwrap();
        self.collect();
    }

    /// Sends a message and persists it as the given change; returns its rid.
    pub(super) fn send_persisted(&mut self, name: &str, change: u64) -> u64 {
        self.send(name);
        self.persisted(change);
        self.drain();
        self.last_rid()
    }

    pub(super) fn persisted(&mut self, change: u64) {
        self.session.handle_persisted(PersistId(change), self.now);
        self.collect();
    }

    pub(super) fn sent(&mut self, connection: u64, rid: u64, number: u64) {
        let sent = Sent {
            rid: Rid::new(rid).unwrap(),
            conv: conv("demo"),
            seq: seq(number),
            epoch: epoch(),
            ts: Timestamp::default(),
            duplicate: false,
        };
        self.message(connection, ServerMessage::Sent(sent));
    }

    pub(super) fn refuse(&mut self, connection: u64, rid: u64, code: ErrorCode, retry_after_ms: Option<u64>) {
        let error = ErrorReply {
            rid: Rid::new(rid),
            code,
            message: "do something about it".to_owned(),
            retry_after_ms,
        };
        self.message(connection, ServerMessage::Error(error));
    }

    pub(super) fn event(&mut self, name: &str, number: u64) {
        let connection = self.session.connection.id().unwrap().0;
        self.event_over(connection, name, number);
    }

    pub(super) fn event_over(&mut self, connection: u64, name: &str, number: u64) {
        let event = Event { conv: conv(name), epoch: epoch(), entry: entry(number) };
        self.message(connection, ServerMessage::Event(event));
    }

    pub(super) fn hint(&mut self, name: &str, head: u64) {
        let connection = self.session.connection.id().unwrap().0;
        let hint = ServerMessage::Hint { conv: conv(name), epoch: epoch(), head: seq(head) };
        self.message(connection, hint);
    }

    pub(super) fn page(&mut self, connection: u64, rid: u64, seqs: std::ops::RangeInclusive<u64>) {
        let page = Page {
            epoch: epoch(),
            min_seq: Seq::FIRST,
            head: seq(*seqs.end()),
            next_after: seq(*seqs.end()),
            has_more: false,
            trimmed: false,
            events: seqs.map(entry).collect(),
        };
        let rid = Rid::new(rid).unwrap();
        self.message(connection, ServerMessage::Page { rid, conv: conv("demo"), page });
    }

    pub(super) fn cut(&mut self, connection: u64) {
        let closed = Closed::Network { message: "cut".to_owned() };
        self.session.handle_closed(ConnectionId(connection), closed, self.now);
        self.collect();
    }

    pub(super) fn close(&mut self, connection: u64, code: CloseCode) {
        let closed = Closed::ByServer { code: code.number(), reason: code.reason().to_owned() };
        self.session.handle_closed(ConnectionId(connection), closed, self.now);
        self.collect();
    }

    pub(super) fn pass(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
        self.session.handle_timeout(self.now);
        self.collect();
    }

    pub(super) fn wait(&self) -> Duration {
        self.session.poll_timeout().unwrap() - self.now
    }

    pub(super) fn reconnect(&mut self) {
        self.now += self.wait();
        self.session.handle_timeout(self.now);
        self.collect();
    }

    pub(super) fn last_rid(&self) -> u64 {
        self.last_rid.unwrap().get()
    }

    pub(super) fn last_limit(&self) -> u32 {
        self.last_sync.unwrap().1
    }

    pub(super) fn collect(&mut self) {
        while let Some(command) = self.session.poll_command() {
            match &command {
                Command::Transmit { message: ClientMessage::Sync { rid, limit, .. }, .. } => {
                    self.last_rid = Some(*rid);
                    self.last_sync = Some((*rid, limit.unwrap()));
                }
                Command::Transmit {
                    message: ClientMessage::Send { rid, .. } | ClientMessage::Subscribe(Subscribe { rid, .. }),
                    ..
                } => self.last_rid = Some(*rid),
                Command::Transmit { .. }
                | Command::Connect { .. }
                | Command::Close { .. }
                | Command::FetchToken
                | Command::Persist { .. }
                | Command::Report(_) => {}
            }
            self.commands.push(command);
        }
    }

    pub(super) fn drain(&mut self) -> Vec<String> {
        self.collect();
        std::mem::take(&mut self.commands).iter().map(in_words).collect()
    }
}

pub(super) fn in_words(command: &Command) -> String {
    match command {
        Command::Connect { connection, fresh_token: false } => format!("connect {connection}"),
        Command::Connect { connection, fresh_token: true } => {
            format!("connect {connection} with a fresh token")
        }
        Command::Transmit { connection, message } => format!("{connection}: {}", message_in_words(message)),
        Command::Close { connection } => format!("close {connection}"),
        Command::FetchToken => "fetch token".to_owned(),
        Command::Persist { id, change } => format!("persist {}: {}", id.0, change_in_words(change)),
        Command::Report(event) => event_in_words(event),
    }
}

pub(super) fn message_in_words(message: &ClientMessage) -> String {
    match message {
        ClientMessage::Send { key, .. } => format!("send {key}"),
        ClientMessage::Sync { conv, after, .. } => format!("sync {conv} after {after}"),
        ClientMessage::Ack { conv, cursor, .. } => format!("ack {conv} {cursor}"),
        ClientMessage::Renew { token, .. } => format!("renew {token}"),
        ClientMessage::Ping => "ping".to_owned(),
        ClientMessage::Pong => "pong".to_owned(),
        ClientMessage::Subscribe(Subscribe { topics, cursor, snapshot, .. }) => {
            let topics: Vec<_> = topics.iter().map(ToString::to_string).collect();
            let cursor = cursor.iter().map(|cursor| format!(" after {cursor}")).collect::<String>();
            let snapshot = if *snapshot == Some(true) { " with a snapshot" } else { "" };
            format!("subscribe {}{cursor}{snapshot}", topics.join(","))
        }
        ClientMessage::Unsubscribe { sub, .. } => format!("unsubscribe {sub}"),
    }
}

pub(super) fn change_in_words(change: &Change) -> String {
    match change {
        Change::Claim(user) => format!("claim for {user}"),
        Change::Advance { conv, advance } => format!("{conv} at {}", advance.position.seq),
        Change::Reset { conv } => format!("reset {conv}"),
        Change::Enqueue(message) => format!("enqueue {}", message.key),
        Change::Dequeue(id) => format!("dequeue {id}"),
    }
}

pub(super) fn event_in_words(event: &ClientEvent) -> String {
    match event {
        ClientEvent::Connected { .. } => "connected".to_owned(),
        ClientEvent::Disconnected { retry_in, .. } => format!("disconnected for {retry_in:?}"),
        ClientEvent::Entries { conv, advance: Advance { entries, .. } } => {
            let ends = entries.first().zip(entries.last());
            ends.map_or_else(
                || format!("{conv} passed"),
                |(first, last)| format!("{conv} {}..{}", first.seq, last.seq),
            )
        }
        ClientEvent::UpToDate { conv } => format!("{conv} is up to date"),
        ClientEvent::Reset { conv, reason } => format!("reset {conv} {}", reason_in_words(*reason)),
        ClientEvent::Refused { conv, message, .. } => format!("{conv} refused: {message}"),
        ClientEvent::Sent(sent) => format!("sent {} as {}", sent.key, sent.seq),
        ClientEvent::SendRefused(refused) => format!("refused {} {:?}", refused.key, refused.code),
        ClientEvent::TokenExpiring { .. } => "token expires".to_owned(),
        ClientEvent::Fault(_) => "fault".to_owned(),
        ClientEvent::Topics { told, .. } => format!("topics {}", told_in_words(told)),
        ClientEvent::TopicsRefused { code, .. } => format!("topics refused {code:?}"),
        ClientEvent::Stopped(_) => "stopped".to_owned(),
    }
}

fn told_in_words(told: &TopicsTold) -> String {
    match told {
        TopicsTold::Begun { cursor } => format!("begun {cursor}"),
        TopicsTold::Snapshot(snapshot) => format!("snapshot {}", snapshot.cursor),
        TopicsTold::Event(event) => format!("event {}", event.cursor),
        TopicsTold::Revoke { cursor } => format!("revoke {cursor}"),
        TopicsTold::Progress { cursor } => format!("progress {cursor}"),
        TopicsTold::Reset(reason) => format!("reset {reason:?}"),
    }
}

pub(super) fn reason_in_words(reason: ResetReason) -> &'static str {
    match reason {
        ResetReason::CursorAhead => "CursorAhead",
        ResetReason::EpochChanged => "EpochChanged",
    }
}

pub(super) fn snapshot() -> Snapshot {
    Snapshot { user: UserId::new("alice").ok(), ..Snapshot::default() }
}

pub(super) fn positions(held: &[(&str, u64)]) -> Snapshot {
    let place = |number| Position { epoch: epoch(), seq: seq(number) };
    let positions = held.iter().map(|(name, number)| (conv(name), place(*number))).collect();
    Snapshot { positions, ..snapshot() }
}

pub(super) fn conv(name: &str) -> ConvId {
    ConvId::new(name).unwrap()
}

pub(super) fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

pub(super) fn body() -> Body {
    Body::from_value(&1).unwrap()
}

pub(super) fn epoch() -> Epoch {
    Epoch::new(5).unwrap()
}

pub(super) fn seq(number: u64) -> Seq {
    Seq::new(number).unwrap()
}

pub(super) fn entry(number: u64) -> Entry {
    Entry {
        seq: seq(number),
        kind: Kind::Message,
        sender: UserId::new("bob").unwrap(),
        key: None,
        ts: Timestamp::default(),
        body: body(),
    }
}
