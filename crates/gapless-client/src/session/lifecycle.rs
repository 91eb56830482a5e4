//! How a session comes by its connection, keeps it and loses it.

use std::time::{Duration, Instant};

use gapless_core::{Beat, FeedReader, Heartbeat, HeartbeatConfig};
use gapless_proto::{ClientMessage, UserId, Welcome};

use super::connection::{Connection, Live};
use super::persisting::Consequence;
use super::{Command, ConnectionId, Session};
use crate::{Change, ClientEvent, DisconnectReason, StopReason};

/// A wait that a server asks for is cut here: longer ones are mistakes.
pub(super) const RECONNECT_AFTER_MAX: Duration = Duration::from_secs(600);

/// The most frequent pings that a server can ask for.
const PING_AFTER_MIN: Duration = Duration::from_millis(100);

impl Session {
    pub(super) fn connect(&mut self, now: Instant) {
        let id = ConnectionId(self.next_connection);
        self.next_connection += 1;
        let fresh_token = std::mem::take(&mut self.needs_fresh_token);
        self.connection =
            Connection::Connecting { id, deadline: now + self.config.connect_timeout, fresh_token };
        self.commands.push_back(Command::Connect { connection: id, fresh_token });
    }

    pub(super) fn handle_welcome(&mut self, id: ConnectionId, welcome: Welcome, now: Instant) {
        if !matches!(self.connection, Connection::Connecting { .. }) {
            return;
        }
        if let Err(reason) = self.claim(&welcome.user) {
            self.stop(reason);
            return;
        }
        let ping_after = Duration::from_millis(welcome.heartbeat_ms)
            .clamp(PING_AFTER_MIN, self.config.heartbeat.ping_after);
        let heartbeat = HeartbeatConfig { ping_after, ..self.config.heartbeat };
        self.connection = Connection::Live(Live::new(id, Heartbeat::new(heartbeat, now), now));
        self.body_bytes_max = Some(usize::try_from(welcome.body_bytes_max).unwrap_or(usize::MAX));
        let Welcome { user, device, session, .. } = welcome;
        self.report(ClientEvent::Connected { user, device, session });

        self.pump_outbox(now);
        for conv in self.feeds.conversations() {
            self.with_feed(&conv, None, now, FeedReader::handle_connected);
        }
        self.subscribe_all(now);
    }

    /// Sees to it that the local state is this user's and nobody else's.
    fn claim(&mut self, connected: &UserId) -> Result<(), StopReason> {
        match &self.user {
            Some(kept) if kept == connected => Ok(()),
            Some(kept) => Err(StopReason::OtherUser { kept: kept.clone(), connected: connected.clone() }),
            None => {
                self.user = Some(connected.clone());
                self.persist(Change::Claim(connected.clone()), Consequence::None);
                Ok(())
            }
        }
    }

    pub(super) fn handle_live_timeout(&mut self, now: Instant) {
        let Some(live) = self.connection.live() else {
            return;
        };
        if live.requests.oldest().is_some_and(|asked_at| asked_at + self.config.answer_timeout <= now) {
            self.give_up(DisconnectReason::RequestUnanswered, None, now);
            return;
        }
        if live.acks_due.is_some_and(|due| due <= now) {
            self.transmit_acks();
        }
        while let Some(conv) = self.feeds.next_due(now) {
            self.with_feed(&conv, None, now, |reader| reader.handle_timeout(now));
        }
        self.subscribe_due(now);
        if let Some(beat) = self.connection.live().and_then(|live| live.heartbeat.handle_timeout(now)) {
            self.handle_beat(beat, now);
        }
    }

    pub(super) fn handle_beat(&mut self, beat: Beat, now: Instant) {
        match beat {
            Beat::Ping => self.transmit(ClientMessage::Ping),
            Beat::GiveUp => self.give_up(DisconnectReason::HeartbeatTimeout, None, now),
        }
    }

    pub(super) fn handle_token_refused(&mut self, code: u16, reason: String, now: Instant) {
        let was_fresh = matches!(self.connection, Connection::Connecting { fresh_token: true, .. });
        if !self.config.token_is_renewable || was_fresh {
            self.stop(StopReason::Unauthenticated { message: reason });
            return;
        }
        self.needs_fresh_token = true;
        self.lose(DisconnectReason::Closed { code, reason }, None, now);
    }

    /// Ends the connection from this side.
    pub(super) fn give_up(&mut self, reason: DisconnectReason, retry_after: Option<Duration>, now: Instant) {
        if let Some(connection) = self.connection.id() {
            self.commands.push_back(Command::Close { connection });
        }
        self.lose(reason, retry_after, now);
    }

    /// The connection is gone: everything unanswered is to be asked again on the next.
    pub(super) fn lose(&mut self, reason: DisconnectReason, retry_after: Option<Duration>, now: Instant) {
        let mut wanted_delay = retry_after;
        if let Some(live) = self.connection.live() {
            wanted_delay = wanted_delay.or(live.reconnect_after);
            let may_be_page =
                matches!(reason, DisconnectReason::HeartbeatTimeout | DisconnectReason::RequestUnanswered);
            if may_be_page && live.requests.syncs() > 0 {
                self.page_limit = (self.page_limit / 2).max(1);
            }
            if now.saturating_duration_since(live.since) >= self.config.healthy_after {
                self.reconnect.reset();
                self.is_first_failure = true;
            }
            self.outbox.handle_disconnected();
            for conv in self.feeds.conversations() {
                // Only an answer or time makes a reader want something.
                self.feeds.with(&conv, FeedReader::handle_disconnected);
            }
        }

        let retry_in = self.delay(wanted_delay);
        self.connection = Connection::Disconnected { retry_at: now + retry_in };
        self.report(ClientEvent::Disconnected { reason, retry_in });
    }

    /// A server's wish is followed at the first failure; later it may only lengthen the wait.
    fn delay(&mut self, wanted: Option<Duration>) -> Duration {
        let own = self.reconnect.next_delay();
        let is_first = std::mem::replace(&mut self.is_first_failure, false);
        match wanted.map(|wanted| wanted.min(RECONNECT_AFTER_MAX)) {
            Some(wanted) if is_first => wanted,
            Some(wanted) => wanted.max(own),
            None => own,
        }
    }

    pub(super) fn stop(&mut self, reason: StopReason) {
        if self.is_stopped() {
            self.say_farewell();
            return;
        }
        if let Some(connection) = self.connection.id() {
            self.commands.push_back(Command::Close { connection });
        }
        self.connection = Connection::Stopped;
        self.farewell = Some(reason);
        self.say_farewell();
    }

    pub(super) fn say_farewell(&mut self) {
        if self.persisting.is_empty()
            && let Some(reason) = self.farewell.take()
        {
            self.report(ClientEvent::Stopped(reason));
        }
    }
}
