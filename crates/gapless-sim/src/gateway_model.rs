//! A gateway without sockets: the real [`Hub`] and queues, and a loop around them in the shape of the server's.

mod connection;
mod effect;
mod queue;
pub(crate) mod replies;

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use gapless_core::{
    Append, AppendOutcome, Authority, Beat, DeliveryConfig, FeedNews, Heartbeat, HeartbeatConfig, Hub,
    HubCommand, HubConfig, Operation, Standing,
};
use gapless_proto::{
    ClientMessage, CloseCode, ConvId, ErrorCode, Rid, Sent, ServerMessage, Subscribe, UserId,
};

use crate::names::LinkNo;
use crate::store_model::{Down, Frame, Generation, PageAsk};
use crate::{Fault, Violation};

pub(crate) use effect::{Effect, Found, Read};

use connection::Connection;
use queue::Queue;

/// One life of a gateway's process.
///
/// Feed it with the `handle_*` methods and drain [`Self::poll_effect`].
#[derive(Debug)]
pub(crate) struct GatewayModel {
    config: GatewayConfig,
    fault: Option<Fault>,
    hub: Hub<LinkNo, Frame>,
    connections: BTreeMap<LinkNo, Connection>,
    effects: VecDeque<Effect>,
    overflows: u64,
}

/// The bounds of a gateway; small, so that they are reached.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GatewayConfig {
    pub(crate) hub: HubConfig,
    pub(crate) delivery: DeliveryConfig,
    pub(crate) heartbeat: HeartbeatConfig,
    pub(crate) write_stall_max: Duration,
    /// Between two readings of a session's standings.
    pub(crate) reload_every: Duration,
    /// How many standings or entries one read returns.
    pub(crate) read_limit: usize,
}

impl GatewayModel {
    pub(crate) fn new(config: GatewayConfig, fault: Option<Fault>) -> Self {
        Self {
            config,
            fault,
            hub: Hub::new(config.hub),
            connections: BTreeMap::new(),
            effects: VecDeque::new(),
            overflows: 0,
        }
    }

    pub(crate) fn handle_opened(&mut self, link: LinkNo, user: UserId, now: Instant) {
        let queue = Queue::new(self.config.delivery, self.fault);
        let heartbeat = Heartbeat::new(self.config.heartbeat, now);
        let reload_at = now + self.config.reload_every;
        self.connections.insert(link, Connection::new(user.clone(), queue, heartbeat, reload_at));
        if self.fault != Some(Fault::RegisterAfterReading) {
            self.hub.handle_connected(link, user.clone());
        }
        self.effects.push_back(Effect::Read(Read::Standings { link, user, after: None }));
        self.settle(now);
    }

    /// The peer is gone.
    pub(crate) fn handle_closed(&mut self, link: LinkNo, now: Instant) {
        self.forget(link);
        self.settle(now);
    }

    /// A frame has arrived. `present` is the generation of the lane that serves the conversation it names.
    pub(crate) fn handle_message(
        &mut self,
        link: LinkNo,
        message: ClientMessage,
        present: Generation,
        now: Instant,
    ) {
        let Some(connection) = self.connections.get_mut(&link) else {
            return;
        };
        connection.heartbeat.handle_received(now);
        if connection.is_serving() {
            self.answer(link, message, present, now);
        }
        self.settle(now);
    }

    /// The peer has read a frame, so the socket has room for another.
    pub(crate) fn handle_taken(&mut self, link: LinkNo, now: Instant) {
        if let Some(connection) = self.connections.get_mut(&link) {
            connection.taken();
        }
        self.settle(now);
    }

    /// The store has answered a send.
    pub(crate) fn handle_appended(
        &mut self,
        link: LinkNo,
        rid: Rid,
        conv: &ConvId,
        outcome: Result<AppendOutcome, Down>,
        now: Instant,
    ) {
        if let Some(connection) = self.connections.get_mut(&link) {
            connection.end_send(conv);
        }
        match outcome {
            Ok(Ok(appended)) => self.reply(
                link,
                ServerMessage::Sent(Sent {
                    rid,
                    conv: conv.clone(),
                    seq: appended.position.seq,
                    epoch: appended.position.epoch,
                    ts: appended.ts,
                    duplicate: appended.duplicate,
                }),
            ),
            Ok(Err(refusal)) => self.reply(link, replies::refusal(rid, &refusal)),
            Err(Down) => {
                self.reply(link, replies::error(rid, ErrorCode::Unavailable));
                self.finish(link, CloseCode::Unavailable);
            }
        }
        self.settle(now);
    }

    /// The store has answered a question.
    pub(crate) fn handle_read(&mut self, read: Read, found: Result<Found, Down>, now: Instant) {
        match (read, found) {
            (Read::Standings { link, user, after }, Ok(Found::Standings(standings))) => {
                let is_first =
                    self.connections.get(&link).is_some_and(Connection::is_loading) && after.is_none();
                if self.fault == Some(Fault::RegisterAfterReading) && is_first {
                    self.hub.handle_connected(link, user.clone());
                }
                self.handle_standings(link, user, standings, now);
            }
            (Read::LookUp { link, conv, .. }, Ok(Found::LookUp(standing))) => {
                self.hub.handle_looked_up(&link, &conv, standing, now);
            }
            (Read::Standings { link, .. }, Err(Down)) => self.handle_standings_unread(link),
            (Read::LookUp { link, .. }, Err(Down)) => self.close(link, CloseCode::Unavailable),
            (Read::Log { .. }, Ok(Found::Log(Some(log)))) => self.hub.handle_log(log, now),
            (Read::Log { conv, .. }, Ok(Found::Log(None)) | Err(Down)) => self.hub.handle_fetch_failed(&conv),
            (Read::Heads { .. }, Ok(Found::Heads(heads))) => {
                for head in heads {
                    self.hub.handle_news(head, now);
                }
            }
            (Read::Heads { .. }, Err(Down)) => {}
            (Read::Page { link, rid, conv, .. }, Ok(Found::Page(Ok(page)))) => {
                self.reply(link, ServerMessage::Page { rid, conv, page });
            }
            (Read::Page { link, rid, .. }, Ok(Found::Page(Err(code)))) => {
                self.reply(link, replies::error(rid, code))
            }
            (Read::Page { link, rid, .. }, Err(Down)) => {
                self.reply(link, replies::error(rid, ErrorCode::Unavailable));
            }
            (read, Ok(found)) => unreachable!("{found:?} doesn't answer {read:?}"),
        }
        self.settle(now);
    }

    /// News of a commit has arrived, perhaps late, twice or out of order.
    pub(crate) fn handle_news(&mut self, news: FeedNews<Frame>, now: Instant) {
        if self.fault == Some(Fault::PushWithoutMembership) {
            for fresh in &news.entries {
                let position = gapless_proto::Position { seq: fresh.entry.seq, ..news.position };
                for connection in self.connections.values_mut() {
                    connection.queue.push(news.conv.clone(), position, fresh.frame.clone());
                }
            }
        }
        self.hub.handle_news(news, now);
        self.settle(now);
    }

    /// A second has passed.
    pub(crate) fn handle_tick(&mut self, now: Instant) {
        if self.fault != Some(Fault::NoSweep) {
            self.hub.handle_sweep(now);
        }
        for link in self.connections.keys().copied().collect::<Vec<_>>() {
            self.beat(link, now);
            self.reload(link, now);
        }
        self.settle(now);
    }

    /// It is time to compare with the store what was told.
    pub(crate) fn handle_heads_due(&mut self) {
        let convs = self.hub.feeds_after(None, usize::MAX);
        if self.fault != Some(Fault::NoHeadsPoll) && !convs.is_empty() {
            self.effects.push_back(Effect::Read(Read::Heads { convs }));
        }
    }

    /// The process is about to be stopped: sends everyone away, once what they have under way is answered.
    pub(crate) fn handle_drain(&mut self, now: Instant) {
        for link in self.connections.keys().copied().collect::<Vec<_>>() {
            self.reply(link, replies::draining(link));
            self.finish(link, CloseCode::ServiceRestart);
        }
        self.settle(now);
    }

    /// Whether nobody is connected.
    pub(crate) fn is_deserted(&self) -> bool {
        self.connections.is_empty()
    }

    /// What to do next, oldest first.
    pub(crate) fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// How often a queue went because its reader was too slow.
    pub(crate) fn overflows(&self) -> u64 {
        self.overflows + self.connections.values().map(|connection| connection.queue.overflows()).sum::<u64>()
    }

    /// G9 on every connection.
    pub(crate) fn check(&self) -> Result<(), Violation> {
        self.connections.values().try_for_each(|connection| connection.queue.check())
    }

    fn answer(&mut self, link: LinkNo, message: ClientMessage, present: Generation, now: Instant) {
        let Some(connection) = self.connections.get_mut(&link) else {
            return;
        };
        let user = connection.user.clone();
        match message {
            ClientMessage::Send { rid, conv, key, body } => {
                let guarded = self.fault != Some(Fault::SendsFollowFailures);
                let generation = connection.begin_send(&conv, present);
                let generation = guarded.then_some(generation);
                let operation = Operation::Message { sender: user, key, body };
                let append = Append { conv, authority: Authority::Member, operation };
                self.effects.push_back(Effect::Append { link, rid, append, generation });
            }
            ClientMessage::Sync { rid, conv, after, limit, epoch } => {
                let limit = usize::try_from(limit.unwrap_or(50)).unwrap_or(usize::MAX).clamp(1, 200);
                let ask = PageAsk { after, epoch, limit };
                self.effects.push_back(Effect::Read(Read::Page { link, rid, user, conv, ask }));
            }
            ClientMessage::Ack { conv, cursor, epoch } => {
                self.hub.handle_ack(&link, &conv, cursor, epoch, now);
            }
            ClientMessage::Ping => connection.reply(ServerMessage::Pong),
            ClientMessage::Pong => {}
            ClientMessage::Renew { rid, .. }
            | ClientMessage::Subscribe(Subscribe { rid, .. })
            | ClientMessage::Unsubscribe { rid, .. } => {
                connection.reply(replies::error(rid, ErrorCode::BadRequest));
            }
        }
    }

    fn handle_standings(&mut self, link: LinkNo, user: UserId, standings: Vec<Standing>, now: Instant) {
        if !self.connections.contains_key(&link) {
            return;
        }
        let is_last = standings.len() < self.config.read_limit;
        let after = standings.last().map(|last| last.conv.clone());
        for standing in standings {
            self.hub.handle_standing(&link, standing, now);
        }
        if !is_last {
            self.effects.push_back(Effect::Read(Read::Standings { link, user, after }));
            return;
        }
        self.hub.handle_loaded(&link);
        let welcome = replies::welcome(link, user, self.config.heartbeat.ping_after);
        if let Some(connection) = self.connections.get_mut(&link).filter(|connection| connection.is_loading())
        {
            connection.reply(welcome);
            connection.serve();
        }
    }

    /// Nobody is served without knowing what they may see; who is served already is read again later.
    fn handle_standings_unread(&mut self, link: LinkNo) {
        if self.connections.get(&link).is_some_and(Connection::is_loading) {
            self.close(link, CloseCode::Unavailable);
        } else {
            self.hub.handle_loaded(&link);
        }
    }

    fn reload(&mut self, link: LinkNo, now: Instant) {
        let Some(connection) = self.connections.get_mut(&link) else {
            return;
        };
        if connection.reload_at > now || !connection.is_serving() || self.fault == Some(Fault::NoReload) {
            return;
        }
        connection.reload_at = now + self.config.reload_every;
        if self.hub.handle_reloading(&link) {
            let user = connection.user.clone();
            self.effects.push_back(Effect::Read(Read::Standings { link, user, after: None }));
        }
    }

    fn beat(&mut self, link: LinkNo, now: Instant) {
        let Some(connection) = self.connections.get_mut(&link) else {
            return;
        };
        if connection.stalled_since().is_some_and(|since| now - since >= self.config.write_stall_max) {
            self.close(link, CloseCode::WriteStalled);
            return;
        }
        match connection.heartbeat.handle_timeout(now) {
            Some(Beat::Ping) => connection.reply(ServerMessage::Ping),
            Some(Beat::GiveUp) => self.close(link, CloseCode::HeartbeatTimeout),
            None => {}
        }
    }

    fn reply(&mut self, link: LinkNo, message: ServerMessage) {
        if let Some(connection) = self.connections.get_mut(&link) {
            connection.reply(message);
        }
    }

    fn finish(&mut self, link: LinkNo, code: CloseCode) {
        if let Some(connection) = self.connections.get_mut(&link) {
            connection.finish(code);
        }
    }

    fn close(&mut self, link: LinkNo, code: CloseCode) {
        if self.forget(link) {
            self.effects.push_back(Effect::Close { link, code });
        }
    }

    fn forget(&mut self, link: LinkNo) -> bool {
        self.hub.handle_disconnected(&link);
        let Some(gone) = self.connections.remove(&link) else {
            return false;
        };
        self.overflows += gone.queue.overflows();
        true
    }

    /// Does what the hub wants, then fills the sockets.
    fn settle(&mut self, now: Instant) {
        while let Some(command) = self.hub.poll_command() {
            match command {
                HubCommand::Push { session, conv, position, frame } => {
                    if let Some(connection) = self.connections.get_mut(&session) {
                        connection.queue.push(conv, position, frame);
                    }
                }
                HubCommand::Hint { session, conv, position } => {
                    if let Some(connection) = self.connections.get_mut(&session) {
                        connection.queue.hint(conv, position);
                    }
                }
                HubCommand::Fetch { conv, after } => {
                    self.effects.push_back(Effect::Read(Read::Log { conv, after }));
                }
                HubCommand::LookUp { session: link, conv } => {
                    if let Some(connection) = self.connections.get(&link) {
                        let user = connection.user.clone();
                        self.effects.push_back(Effect::Read(Read::LookUp { link, user, conv }));
                    }
                }
            }
        }
        self.pump(now);
    }

    fn pump(&mut self, now: Instant) {
        for (link, connection) in &mut self.connections {
            while let Some(message) = connection.next_frame(now) {
                self.effects.push_back(Effect::Write { link: *link, message });
            }
        }
        let finished =
            self.connections.iter().filter_map(|(link, connection)| Some((*link, connection.finished()?)));
        for (link, code) in finished.collect::<Vec<_>>() {
            self.close(link, code);
        }
    }
}
