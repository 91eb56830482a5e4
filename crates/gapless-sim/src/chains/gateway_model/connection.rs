//! One connection, as its gateway knows it.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use gapless_core::{ChainTail, Heartbeat, HeartbeatConfig};
use gapless_proto::{ChainId, Rid, ServerMessage, Sub, Subscribed};

use super::begin::Beginning;
use super::follow::{Context, Follow, Looked};
use super::told::Told;
use super::{ChainGatewayConfig, Effect, Ticket};
use crate::chains::coverage::ChainCoverage;
use crate::chains::fault::ChainFault;
use crate::names::LinkNo;

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) heartbeat: Heartbeat,
    pub(super) beginning: BTreeMap<Rid, Beginning>,
    /// Answers, which go before what is told.
    replies: VecDeque<ServerMessage>,
    /// They take turns.
    follows: VecDeque<(Sub, Follow)>,
    newest: u32,
    socket_frames_max: usize,
    in_socket: usize,
    /// Since when the socket is full.
    stalled_since: Option<Instant>,
}

impl Connection {
    pub(super) fn new(heartbeat: HeartbeatConfig, socket_frames_max: usize, now: Instant) -> Self {
        Self {
            heartbeat: Heartbeat::new(heartbeat, now),
            beginning: BTreeMap::new(),
            replies: VecDeque::new(),
            follows: VecDeque::new(),
            newest: 0,
            socket_frames_max,
            in_socket: 0,
            stalled_since: None,
        }
    }

    pub(super) fn reply(&mut self, message: ServerMessage) {
        self.replies.push_back(message);
    }

    pub(super) fn begin(&mut self, rid: Rid, follow: Follow) {
        self.newest += 1;
        let sub = Sub::new(self.newest);
        self.reply(ServerMessage::Subscribed(Subscribed { rid, sub, cursor: follow.cursor() }));
        self.follows.push_back((sub, follow));
    }

    pub(super) fn follow(&mut self, sub: Sub) -> Option<&mut Follow> {
        self.follows.iter_mut().find(|(own, _)| *own == sub).map(|(_, follow)| follow)
    }

    /// The peer has read a frame.
    pub(super) fn taken(&mut self) {
        self.in_socket = self.in_socket.saturating_sub(1);
        self.stalled_since = None;
    }

    /// Whether the peer has taken nothing for so long.
    pub(super) fn has_stalled(&self, stall_max: Duration, now: Instant) -> bool {
        self.stalled_since.is_some_and(|since| now - since >= stall_max)
    }

    /// Fills the socket.
    #[expect(clippy::too_many_arguments, reason = "a connection sees much of its gateway")]
    pub(super) fn pump(
        &mut self,
        link: LinkNo,
        followed: &BTreeMap<ChainId, ChainTail<Told>>,
        config: &ChainGatewayConfig,
        fault: Option<ChainFault>,
        coverage: &mut ChainCoverage,
        effects: &mut VecDeque<Effect>,
        now: Instant,
    ) {
        let context = |chain: ChainId| Some(Context { tail: followed.get(&chain)?, config, fault });
        while self.in_socket < self.socket_frames_max {
            let message = match self.replies.pop_front() {
                Some(reply) => Some(reply),
                None => self.poll_told(link, context, coverage, effects, now),
            };
            let Some(message) = message else { return };
            self.in_socket += 1;
            effects.push_back(Effect::Write { link, message });
        }
        self.stalled_since.get_or_insert(now);
        for (_, follow) in &mut self.follows {
            if let Some(context) = context(follow.chain()) {
                follow.check_overrun(&context, now);
            }
        }
    }

    /// Takes what to tell next.
    fn poll_told<'a>(
        &mut self,
        link: LinkNo,
        context: impl Fn(ChainId) -> Option<Context<'a>>,
        coverage: &mut ChainCoverage,
        effects: &mut VecDeque<Effect>,
        now: Instant,
    ) -> Option<ServerMessage> {
        for _ in 0..self.follows.len() {
            let (sub, mut follow) = self.follows.pop_front()?;
            let Some(context) = context(follow.chain()) else {
                self.follows.push_back((sub, follow));
                continue;
            };
            let looked = follow.look(&context, coverage, now);
            let chain = follow.chain();
            if !matches!(looked, Looked::Ended) {
                self.follows.push_back((sub, follow));
            }
            match looked {
                Looked::Told(told) => return Some(told.message(sub)),
                Looked::Read(ask, pause) => {
                    let ticket = Ticket::Follow { link, sub };
                    effects.push_back(Effect::Read { ticket, chain, ask, pause });
                }
                Looked::Pending | Looked::Ended => {}
            }
        }
        None
    }
}
