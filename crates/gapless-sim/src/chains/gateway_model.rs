//! The part of a gateway that follows chains, without sockets: the real [`ChainTail`] and
//! [`Subscription`](gapless_core::Subscription), and around them what the server's shell does.

mod begin;
mod connection;
mod follow;
mod told;

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use gapless_core::{Beat, ChainHead, ChainTail, HeartbeatConfig, safe_block};
use gapless_proto::{
    BlockNumber, ChainId, ChainPoint, ClientMessage, CloseCode, ErrorCode, Rid, Seq, ServerMessage, Sub,
    Subscribe, Topic,
};
use gapless_store::{ChainInfo, ChainLogRequest, ChainNews, ChainSlice, ChainValues, ChainValuesRequest};

use super::coverage::{ChainCoverage, ChainLandmark};
use super::errand::Stand;
use super::fault::ChainFault;
use crate::gateway_model::replies;
use crate::names::LinkNo;
use crate::store_model::Down;

use begin::{Begin, Beginning};
use connection::Connection;
use follow::Follow;
use told::Told;

/// One life of a gateway's process.
#[derive(Debug)]
pub(super) struct ChainGateway {
    config: ChainGatewayConfig,
    fault: Option<ChainFault>,
    followed: BTreeMap<ChainId, ChainTail<Told>>,
    connections: BTreeMap<LinkNo, Connection>,
    effects: VecDeque<Effect>,
    coverage: ChainCoverage,
}

/// The bounds of a gateway; small, so that they are reached.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChainGatewayConfig {
    pub(super) confirmations: u64,
    pub(super) tail_entries_max: usize,
    pub(super) queued_frames_max: usize,
    pub(super) slice_entries: u32,
    pub(super) snapshot_values: u32,
    pub(super) heartbeat: HeartbeatConfig,
    pub(super) write_stall_max: Duration,
    /// How many frames a socket takes before its peer has read one.
    pub(super) socket_frames_max: usize,
}

/// A question to the store about one chain.
#[derive(Debug, Clone)]
pub(super) enum StoreAsk {
    Info,
    SeqAt(ChainPoint),
    Values(ChainValuesRequest),
    Log(ChainLogRequest),
}

/// What the store answers; it fits the question. `None` where there is no feed.
#[derive(Debug, Clone)]
pub(super) enum StoreFound {
    Info(Option<ChainInfo>),
    SeqAt(Option<Seq>),
    Values(Option<ChainValues>),
    Log(Option<ChainSlice>),
}

/// Whom an answer of the store is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ticket {
    /// A subscription that is about to begin.
    Begin { link: LinkNo, rid: Rid },
    /// A subscription.
    Follow { link: LinkNo, sub: Sub },
    /// The comparison of where the chains' feeds are.
    HeadsPoll,
}

/// What a gateway wants done.
#[derive(Debug)]
pub(super) enum Effect {
    Read { ticket: Ticket, chain: ChainId, ask: StoreAsk, pause: Duration },
    Write { link: LinkNo, message: ServerMessage },
    Close { link: LinkNo, code: CloseCode },
}

/// How long a follow waits after the store failed.
const STORE_PAUSE: Duration = Duration::from_secs(1);

impl ChainGateway {
    pub(super) fn new(config: ChainGatewayConfig, fault: Option<ChainFault>) -> Self {
        Self {
            config,
            fault,
            followed: BTreeMap::new(),
            connections: BTreeMap::new(),
            effects: VecDeque::new(),
            coverage: ChainCoverage::default(),
        }
    }

    pub(super) fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    pub(super) fn take_coverage(&mut self) -> ChainCoverage {
        std::mem::take(&mut self.coverage)
    }

    pub(super) fn handle_opened(&mut self, link: LinkNo, user: gapless_proto::UserId, now: Instant) {
        let mut connection = Connection::new(self.config.heartbeat, self.config.socket_frames_max, now);
        connection.reply(replies::welcome(link, user, self.config.heartbeat.ping_after));
        self.connections.insert(link, connection);
        self.pump(now);
    }

    pub(super) fn handle_closed(&mut self, link: LinkNo) {
        self.connections.remove(&link);
    }

    pub(super) fn handle_message(&mut self, link: LinkNo, message: ClientMessage, now: Instant) {
        let Some(connection) = self.connections.get_mut(&link) else {
            return;
        };
        connection.heartbeat.handle_received(now);
        match message {
            ClientMessage::Ping => connection.reply(ServerMessage::Pong),
            ClientMessage::Subscribe(subscribe) => self.subscribe(link, subscribe, now),
            ClientMessage::Pong
            | ClientMessage::Ack { .. }
            | ClientMessage::Send { .. }
            | ClientMessage::Sync { .. }
            | ClientMessage::Renew { .. }
            | ClientMessage::Unsubscribe { .. } => {}
        }
        self.pump(now);
    }

    /// The peer has read a frame, so the socket has room for another.
    pub(super) fn handle_taken(&mut self, link: LinkNo, now: Instant) {
        if let Some(connection) = self.connections.get_mut(&link) {
            connection.taken();
        }
        self.pump(now);
    }

    pub(super) fn handle_news(&mut self, news: ChainNews, now: Instant) {
        let head = self.head_of(&news.info);
        if let Some(tail) = self.followed.get_mut(&news.chain) {
            let told = news.entries.into_iter().map(|entry| {
                let told = Told::of_entry(news.chain, &entry);
                (entry, told, 1)
            });
            tail.handle_news(head, told.collect());
        }
        self.pump(now);
    }

    /// Time has passed.
    pub(super) fn handle_tick(&mut self, now: Instant) {
        for link in self.connections.keys().copied().collect::<Vec<_>>() {
            self.beat(link, now);
        }
        self.pump(now);
    }

    /// It is time to compare where the chains' feeds are.
    pub(super) fn handle_poll_due(&mut self) {
        if self.fault == Some(ChainFault::NoHeadsPoll) {
            return;
        }
        let reads = self.followed.keys().map(|chain| Effect::Read {
            ticket: Ticket::HeadsPoll,
            chain: *chain,
            ask: StoreAsk::Info,
            pause: Duration::ZERO,
        });
        self.effects.extend(reads);
    }

    /// The store has answered.
    pub(super) fn handle_found(
        &mut self,
        ticket: Ticket,
        chain: ChainId,
        found: Result<StoreFound, Down>,
        now: Instant,
    ) {
        match ticket {
            Ticket::HeadsPoll => {
                if let Ok(StoreFound::Info(Some(info))) = found
                    && self.catch_up(chain, &info)
                {
                    self.coverage.note(ChainLandmark::HeadsPolled);
                }
            }
            Ticket::Begin { link, rid } => {
                if let Ok(StoreFound::Info(Some(info))) = &found {
                    self.follow_chain(chain, info);
                }
                let begins = self.connections.get_mut(&link).and_then(|open| open.beginning.get_mut(&rid));
                if let Some(beginning) = begins {
                    beginning.errand.answer(found, now);
                    self.go_on_beginning(link, rid, now);
                }
            }
            Ticket::Follow { link, sub } => {
                let (Some(tail), Some(connection)) =
                    (self.followed.get(&chain), self.connections.get_mut(&link))
                else {
                    return;
                };
                let context = follow::Context { tail, config: &self.config, fault: self.fault };
                let again = connection
                    .follow(sub)
                    .and_then(|follow| follow.handle_found(found, &context, &mut self.coverage, now));
                if let Some((ask, pause)) = again {
                    self.effects.push_back(Effect::Read { ticket, chain, ask, pause });
                }
            }
        }
        self.pump(now);
    }

    fn subscribe(&mut self, link: LinkNo, subscribe: Subscribe, now: Instant) {
        let Subscribe { rid, topics, cursor, mode, snapshot } = subscribe;
        let Some(connection) = self.connections.get_mut(&link) else {
            return;
        };
        let Some((chain, topics)) = parse_topics(&topics) else {
            return connection.reply(replies::error(rid, ErrorCode::BadRequest));
        };
        let begin = Begin {
            chain,
            topics,
            cursor,
            mode: mode.unwrap_or_default(),
            snapshot: snapshot.unwrap_or(false),
            config: self.config,
            fault: self.fault,
        };
        connection.beginning.insert(rid, Beginning::new(begin, now));
        self.go_on_beginning(link, rid, now);
    }

    fn go_on_beginning(&mut self, link: LinkNo, rid: Rid, now: Instant) {
        let Some(connection) = self.connections.get_mut(&link) else {
            return;
        };
        let Some(beginning) = connection.beginning.get_mut(&rid) else {
            return;
        };
        let chain = beginning.chain;
        match beginning.errand.advance() {
            Stand::Asks(ask) => {
                let ticket = Ticket::Begin { link, rid };
                self.effects.push_back(Effect::Read { ticket, chain, ask, pause: Duration::ZERO });
            }
            Stand::Done(outcome) => {
                connection.beginning.remove(&rid);
                match outcome {
                    Ok(begun) => connection.begin(rid, Follow::new(chain, begun, now)),
                    Err(code) => connection.reply(replies::error(rid, code)),
                }
            }
        }
    }

    fn follow_chain(&mut self, chain: ChainId, info: &ChainInfo) {
        let head = self.head_of(info);
        let entries_max = self.config.tail_entries_max;
        self.followed.entry(chain).or_insert_with(|| ChainTail::new(head, entries_max, usize::MAX));
        self.catch_up(chain, info);
    }

    /// Takes in where a feed is. Returns whether that was news.
    fn catch_up(&mut self, chain: ChainId, info: &ChainInfo) -> bool {
        let head = self.head_of(info);
        let Some(tail) = self.followed.get_mut(&chain).filter(|tail| tail.head() != head) else {
            return false;
        };
        tail.handle_news(head, Vec::new());
        true
    }

    fn head_of(&self, info: &ChainInfo) -> ChainHead {
        head_of(info, &self.config, self.fault)
    }

    fn beat(&mut self, link: LinkNo, now: Instant) {
        let Some(connection) = self.connections.get_mut(&link) else {
            return;
        };
        let code = match connection.heartbeat.handle_timeout(now) {
            _ if connection.has_stalled(self.config.write_stall_max, now) => CloseCode::WriteStalled,
            Some(Beat::GiveUp) => CloseCode::HeartbeatTimeout,
            Some(Beat::Ping) => return connection.reply(ServerMessage::Ping),
            None => return,
        };
        self.connections.remove(&link);
        self.effects.push_back(Effect::Close { link, code });
    }

    /// Fills the sockets.
    fn pump(&mut self, now: Instant) {
        for (link, connection) in &mut self.connections {
            connection.pump(
                *link,
                &self.followed,
                &self.config,
                self.fault,
                &mut self.coverage,
                &mut self.effects,
                now,
            );
        }
    }
}

/// Where a feed is, as readers need it.
fn head_of(info: &ChainInfo, config: &ChainGatewayConfig, fault: Option<ChainFault>) -> ChainHead {
    let confirmations = match fault {
        Some(ChainFault::ConfirmedTooEarly) => config.confirmations.saturating_sub(1),
        Some(_) | None => config.confirmations,
    };
    let block = info.block.map(|block| block.number);
    let safe = safe_block(block, info.finalized, confirmations);
    ChainHead { epoch: info.epoch, seq: info.head, block, safe, anew_after: info.anew_after }
}

/// The chain, and the topics as its feed names them.
fn parse_topics(names: &[Topic]) -> Option<(ChainId, Vec<Topic>)> {
    let parsed = names.iter().map(|name| {
        let (chain, topic) = name.as_str().strip_prefix("chain:")?.split_once(':')?;
        Some((chain.parse::<ChainId>().ok()?, Topic::new(topic).ok()?))
    });
    let parsed: Vec<_> = parsed.collect::<Option<_>>()?;
    let chain = parsed.first()?.0;
    Some((chain, parsed.into_iter().map(|(_, topic)| topic).collect()))
}

/// The block up to which values are asked for.
fn safe_of(info: &ChainInfo, config: &ChainGatewayConfig, fault: Option<ChainFault>) -> BlockNumber {
    head_of(info, config, fault).safe.unwrap_or_default()
}
