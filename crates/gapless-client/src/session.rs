//! The client's decisions: one connection at a time, an outbox, and a cursor for each conversation.

mod answers;
mod command;
mod config;
mod connection;
mod feeds;
mod lifecycle;
mod persisting;
mod requests;
#[cfg(test)]
mod tests;
mod topics;

use std::collections::VecDeque;
use std::time::Instant;

use gapless_core::{Backoff, FeedCommand, FeedReader, Outbox, OutboxError, OutboxId, OutboxMessage};
use gapless_proto::{
    Body, ClientMessage, CloseCode, ConvId, ErrorCode, Key, Position, Rid, Seq, ServerMessage, UserId,
};

use crate::{Change, ClientEvent, DisconnectReason, Fault, RefusedSend, Snapshot, StopReason};

use connection::Connection;
use feeds::Feeds;
use persisting::{Consequence, Persisting};
use requests::Request;
use topics::TopicSubscriptions;

pub use command::{Command, ConnectionId, PersistId};
pub use config::{Follow, SessionConfig};
pub use topics::{Topics, TopicsId, TopicsStart, TopicsTold};

/// Decides everything that a client does, without a socket, a clock or a disk.
///
/// Feed it with [`Self::send`], [`Self::watch`] and the `handle_*` methods, then drain [`Self::poll_command`] and arm a timer
/// for [`Self::poll_timeout`]. The same seed and inputs give the same commands.
///
/// - After a (re)connect the outbox goes first and in order, then one sync for each conversation, then what is new.
/// - A message is transmitted only after it is persisted, and is in the outbox until the server has answered.
/// - A position is acknowledged only after it is persisted (G3).
/// - A send that fails for a passing reason ends the connection, since what was sent behind it must not overtake it.
/// - A connection that is silent, leaves requests unanswered or was slept through is tested and replaced.
#[derive(Debug)]
pub struct Session {
    config: SessionConfig,
    /// Whose local state it is.
    user: Option<UserId>,
    connection: Connection,
    feeds: Feeds,
    outbox: Outbox,
    persisting: Persisting,
    topics: TopicSubscriptions,
    reconnect: Backoff,
    /// Whether no connection has failed since the last healthy one.
    is_first_failure: bool,
    /// Whether the server refused the last token.
    needs_fresh_token: bool,
    /// The longest body that the server takes, once it has said so.
    body_bytes_max: Option<usize>,
    /// Halved when a connection fails with a page on its way: it may be too large for the network.
    page_limit: u32,
    /// Why it has stopped, until that is told: after everything that is still being persisted.
    farewell: Option<StopReason>,
    next_connection: u64,
    next_rid: u64,
    commands: VecDeque<Command>,
}

/// Why a session takes no message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The outbox has no room.
    #[error(transparent)]
    Full(#[from] OutboxError),
    /// The server takes no body of this length.
    #[error("a body of {bytes} bytes is over the server's limit of {bytes_max}; make it smaller")]
    TooLarge {
        /// Its length.
        bytes: usize,
        /// The server's limit.
        bytes_max: usize,
    },
    /// The client has ended.
    #[error("the client has stopped, so it takes no message")]
    Stopped,
}

/// Why a conversation can't be watched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    /// As many are followed as may be.
    #[error("{conversations_max} conversations are followed already; raise `conversations_max`")]
    TooMany {
        /// The bound.
        conversations_max: usize,
    },
    /// The client has ended.
    #[error("the client has stopped, so it watches nothing")]
    Stopped,
}

/// How a connection ended or didn't come about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Closed {
    /// With a close frame.
    ByServer {
        /// Its code.
        code: u16,
        /// Its reason.
        reason: String,
    },
    /// Without one.
    Network {
        /// How.
        message: String,
    },
    /// Before it stood: what answers is no gapless.
    WrongAddress {
        /// Where it was looked for.
        url: String,
        /// What is there instead, in words.
        found: String,
    },
}

impl Session {
    /// Goes on from what is kept. It wants to connect at once.
    pub fn new(config: SessionConfig, snapshot: Snapshot, seed: u64, now: Instant) -> Self {
        let mut session = Self {
            config,
            user: snapshot.user,
            connection: Connection::Disconnected { retry_at: now },
            feeds: Feeds::new(config, snapshot.positions, seed),
            outbox: Outbox::new(config.outbox, snapshot.outbox),
            persisting: Persisting::default(),
            topics: TopicSubscriptions::default(),
            reconnect: Backoff::new(config.reconnect, !seed),
            is_first_failure: true,
            needs_fresh_token: false,
            body_bytes_max: None,
            page_limit: config.page_limit,
            farewell: None,
            next_connection: 0,
            next_rid: 0,
            commands: VecDeque::new(),
        };
        session.connect(now);
        session
    }

    /// Takes a message into the outbox. It is transmitted once persisted, and repeated until answered.
    pub fn send(&mut self, conv: ConvId, key: Key, body: Body) -> Result<OutboxId, SendError> {
        if matches!(self.connection, Connection::Stopped) {
            return Err(SendError::Stopped);
        }
        self.check_length(&body)?;
        let message = self.outbox.push(conv, key, body)?;
        let id = message.id;
        self.persist(Change::Enqueue(message), Consequence::Enqueued(id));
        Ok(id)
    }

    /// Follows a conversation: from where the local state is, or, if that knows nothing of it, after `start`.
    pub fn watch(&mut self, conv: &ConvId, start: Seq, now: Instant) -> Result<(), WatchError> {
        if matches!(self.connection, Connection::Stopped) {
            return Err(WatchError::Stopped);
        }
        let is_new = self.feeds.watch(conv, start).map_err(|feeds::TooMany| WatchError::TooMany {
            conversations_max: self.config.conversations_max,
        })?;
        if is_new && self.connection.live().is_some() {
            self.with_feed(conv, None, now, FeedReader::handle_connected);
        }
        Ok(())
    }

    /// A frame arrived.
    pub fn handle_message(&mut self, connection: ConnectionId, message: ServerMessage, now: Instant) {
        if self.connection.id() != Some(connection) {
            return;
        }
        if let Some(live) = self.connection.live() {
            live.heartbeat.handle_received(now);
        }
        match message {
            ServerMessage::Welcome(welcome) => self.handle_welcome(connection, welcome, now),
            ServerMessage::Sent(sent) => self.handle_sent(sent),
            ServerMessage::Page { rid, page, .. } => self.handle_page(rid, page, now),
            ServerMessage::Event(event) => self.handle_event(event, now),
            ServerMessage::Hint { conv, epoch, head } => self.handle_hint(&conv, epoch, head, now),
            ServerMessage::Renewed { rid, .. } => self.handle_renewed(rid),
            ServerMessage::Ping => self.transmit(ClientMessage::Pong),
            ServerMessage::Error(error) => self.handle_error(error, now),
            ServerMessage::Notice(notice) => self.handle_notice(&notice),
            ServerMessage::Subscribed(subscribed) => self.handle_subscribed(subscribed),
            ServerMessage::Snapshot(snapshot) => self.handle_snapshot(snapshot),
            ServerMessage::TopicEvent(event) => self.handle_topic_event(event),
            ServerMessage::Revoke(revoke) => self.handle_revoke(revoke.sub, revoke.from_cursor),
            ServerMessage::Progress(progress) => self.handle_progress(progress.sub, progress.cursor),
            ServerMessage::Reset(reset) => self.handle_topics_reset(reset, now),
            ServerMessage::Unsubscribed { .. } | ServerMessage::Pong | ServerMessage::Unknown { .. } => {}
        }
        self.pump(now);
    }

    /// A connection ended or didn't come about.
    pub fn handle_closed(&mut self, connection: ConnectionId, closed: Closed, now: Instant) {
        if self.connection.id() != Some(connection) {
            return;
        }
        match closed {
            Closed::Network { message } => self.lose(DisconnectReason::Network { message }, None, now),
            Closed::ByServer { code, reason } if CloseCode::is_retryable(code) => {
                self.lose(DisconnectReason::Closed { code, reason }, None, now);
            }
            Closed::ByServer { code, reason } if code == CloseCode::Unauthenticated.number() => {
                self.handle_token_refused(code, reason, now);
            }
            Closed::ByServer { code, reason } => self.stop(StopReason::Refused { code, message: reason }),
            Closed::WrongAddress { url, found } => self.stop(StopReason::WrongAddress { url, found }),
        }
    }

    /// All changes up to `id` are made for good.
    pub fn handle_persisted(&mut self, id: PersistId, now: Instant) {
        while let Some(consequence) = self.persisting.pop(id) {
            match consequence {
                Consequence::Enqueued(message) => self.outbox.handle_stored(message),
                Consequence::Refused(refused) => self.report(ClientEvent::SendRefused(refused)),
                Consequence::None => {}
                Consequence::Reset { conv, reason } => self.report(ClientEvent::Reset { conv, reason }),
                Consequence::Advanced { conv, advance, is_void } => {
                    if !is_void {
                        self.feeds.set_stored(&conv, Some(advance.position));
                        self.acknowledge(conv.clone(), now);
                    }
                    self.report(ClientEvent::Entries { conv, advance });
                }
            }
        }
        self.say_farewell();
        self.pump(now);
    }

    /// A token that was asked for is there.
    pub fn handle_token(&mut self, token: String, now: Instant) {
        self.request(Request::Renew, |rid| ClientMessage::Renew { rid, token }, now);
    }

    /// The machine may have slept, so that the connection may be dead and waits may be over.
    pub fn handle_wake(&mut self, now: Instant) {
        match &mut self.connection {
            Connection::Disconnected { .. } => {
                self.reconnect.reset();
                self.connect(now);
            }
            Connection::Live(live) => {
                let beat = live.heartbeat.handle_wake(now);
                self.handle_beat(beat, now);
            }
            Connection::Connecting { .. } | Connection::Stopped => {}
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        match &mut self.connection {
            Connection::Disconnected { retry_at } if *retry_at <= now => self.connect(now),
            Connection::Connecting { deadline, .. } if *deadline <= now => {
                self.give_up(DisconnectReason::ConnectTimeout, None, now);
            }
            Connection::Live(_) => self.handle_live_timeout(now),
            Connection::Disconnected { .. } | Connection::Connecting { .. } | Connection::Stopped => {}
        }
        self.pump(now);
    }

    /// The application wants to end. What isn't answered stays in the local state for the next session.
    ///
    /// The session has ended when it reports [`ClientEvent::Stopped`], after what is still being persisted.
    pub fn handle_stop(&mut self) {
        self.transmit_acks();
        self.stop(StopReason::Requested);
    }

    /// The local state failed: nothing more may be acknowledged.
    pub fn handle_state_failed(&mut self, message: String) {
        self.persisting.clear();
        self.stop(StopReason::State { message });
    }

    /// What to do next, oldest first.
    pub fn poll_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    /// When [`Self::handle_timeout`] has something to do; `None` once stopped.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match &self.connection {
            Connection::Disconnected { retry_at } => Some(*retry_at),
            Connection::Connecting { deadline, .. } => Some(*deadline),
            Connection::Live(live) => {
                let own = live.poll_timeout(self.config.answer_timeout);
                let others = [self.feeds.poll_timeout(), self.topics.poll_timeout()];
                Some(others.into_iter().flatten().fold(own, Instant::min))
            }
            Connection::Stopped => None,
        }
    }

    /// How far a conversation was read, persisted or not.
    pub fn position(&self, conv: &ConvId) -> Option<Position> {
        self.feeds.position(conv)
    }

    /// The messages that aren't answered, in order.
    pub fn outbox(&self) -> impl Iterator<Item = &OutboxMessage> {
        self.outbox.messages()
    }

    /// How many changes wait to be persisted. A shell that reads no frame while there are many keeps memory bounded.
    pub fn persisting(&self) -> usize {
        self.persisting.len()
    }

    /// Whether the session makes no further connection.
    pub fn is_stopped(&self) -> bool {
        matches!(self.connection, Connection::Stopped)
    }

    /// Lets a reader take something in and does what it wants. `refusal` is what the server said, for people.
    fn with_feed(
        &mut self,
        conv: &ConvId,
        refusal: Option<&str>,
        now: Instant,
        input: impl FnOnce(&mut FeedReader),
    ) {
        for command in self.feeds.with(conv, input) {
            let conv = conv.clone();
            match command {
                FeedCommand::Sync(asked) => {
                    if let Some(live) = self.connection.live() {
                        live.waiting_syncs.push_back((conv, asked));
                    }
                }
                FeedCommand::Apply(advance) => {
                    let change = Change::Advance { conv: conv.clone(), advance: advance.clone() };
                    self.persist(change, Consequence::Advanced { conv, advance, is_void: false });
                }
                FeedCommand::Acknowledge => self.acknowledge(conv, now),
                FeedCommand::Reset { reason } => {
                    self.persisting.void(&conv);
                    self.feeds.set_stored(&conv, None);
                    self.persist(Change::Reset { conv: conv.clone() }, Consequence::Reset { conv, reason });
                }
                FeedCommand::Refused { code } => {
                    let message = refusal.unwrap_or_default().to_owned();
                    self.report(ClientEvent::Refused { conv, code, message });
                }
            }
        }
    }

    /// Transmits what may be transmitted: the outbox before syncs.
    fn pump(&mut self, now: Instant) {
        self.pump_outbox(now);
        while let Some(live) = self.connection.live()
            && live.requests.syncs() < self.config.syncs_in_flight_max
            && let Some((conv, asked)) = live.waiting_syncs.pop_front()
        {
            let limit = Some(self.page_limit);
            let message =
                |rid, conv| ClientMessage::Sync { rid, conv, after: asked.after, limit, epoch: asked.epoch };
            self.request(Request::Sync { conv: conv.clone(), asked }, |rid| message(rid, conv), now);
        }
    }

    fn pump_outbox(&mut self, now: Instant) {
        while self.connection.live().is_some()
            && let Some(OutboxMessage { id, conv, key, body }) = self.outbox.next_to_send()
        {
            match self.check_length(&body) {
                Ok(()) => {
                    let message = |rid| ClientMessage::Send { rid, conv, key, body };
                    self.request(Request::Send(id), message, now);
                }
                // The server would end the connection over it, again and again.
                Err(error) => self.refuse_send(id, ErrorCode::TooLarge, error.to_string()),
            }
        }
    }

    fn check_length(&self, body: &Body) -> Result<(), SendError> {
        let bytes = body.as_str().len();
        match self.body_bytes_max {
            Some(bytes_max) if bytes > bytes_max => Err(SendError::TooLarge { bytes, bytes_max }),
            Some(_) | None => Ok(()),
        }
    }

    fn refuse_send(&mut self, id: OutboxId, code: ErrorCode, message: String) {
        let Some(OutboxMessage { conv, key, .. }) = self.outbox.remove(id) else {
            return;
        };
        // Told too early it could be sent again after a crash, and taken.
        let refused = RefusedSend { id, conv, key, code, message };
        self.persist(Change::Dequeue(id), Consequence::Refused(refused));
    }

    fn acknowledge(&mut self, conv: ConvId, now: Instant) {
        let due = now + self.config.ack_delay;
        if let Some(live) = self.connection.live() {
            live.acknowledge(conv, due);
        }
    }

    fn transmit_acks(&mut self) {
        let Some(live) = self.connection.live() else {
            return;
        };
        live.acks_due = None;
        for conv in std::mem::take(&mut live.acks) {
            if let Some(Position { epoch, seq }) = self.feeds.stored(&conv) {
                self.transmit(ClientMessage::Ack { conv, cursor: seq, epoch: Some(epoch) });
            }
        }
    }

    /// Sends a request under a number that no other request of this session has.
    fn request(&mut self, request: Request, message: impl FnOnce(Rid) -> ClientMessage, now: Instant) {
        let Some(live) = self.connection.live() else {
            return;
        };
        let rid = Rid::new(self.next_rid).expect("2⁵³ requests take longer than any process lives");
        self.next_rid += 1;
        live.requests.insert(rid, request, now);
        self.transmit(message(rid));
    }

    fn transmit(&mut self, message: ClientMessage) {
        if let Some(live) = self.connection.live() {
            let connection = live.id;
            self.commands.push_back(Command::Transmit { connection, message });
        }
    }

    fn persist(&mut self, change: Change, consequence: Consequence) {
        let id = self.persisting.push(consequence);
        self.commands.push_back(Command::Persist { id, change });
    }

    fn report(&mut self, event: ClientEvent) {
        self.commands.push_back(Command::Report(event));
    }

    fn report_fault(&mut self, fault: Fault) {
        self.report(ClientEvent::Fault(fault));
    }
}
