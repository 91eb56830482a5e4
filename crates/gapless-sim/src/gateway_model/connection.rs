//! One connection, as its gateway knows it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use gapless_core::{Heartbeat, Outgoing};
use gapless_proto::{CloseCode, ConvId, ServerMessage, UserId};

use super::queue::Queue;
use crate::store_model::{Frame, Generation};

/// How many frames the socket takes before its peer has read one.
const SOCKET_FRAMES_MAX: usize = 4;

/// What a gateway keeps for one connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) user: UserId,
    pub(super) queue: Queue,
    pub(super) heartbeat: Heartbeat,
    /// When its user's standings are read anew.
    pub(super) reload_at: Instant,
    stage: Stage,
    /// Answers, which go before pushes. Each belongs to a request, so the client's windows bound them.
    replies: VecDeque<ServerMessage>,
    /// The sends under way, and the generation from before the first of them.
    pipelines: BTreeMap<ConvId, (Generation, usize)>,
    in_socket: usize,
    /// Since when the socket is full.
    stalled_since: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    /// The standings are being read; nothing is served.
    Loading,
    Serving,
    /// Nothing more is read; what is under way is answered.
    Finishing(CloseCode),
}

impl Connection {
    pub(super) fn new(user: UserId, queue: Queue, heartbeat: Heartbeat, reload_at: Instant) -> Self {
        Self {
            user,
            queue,
            heartbeat,
            reload_at,
            stage: Stage::Loading,
            replies: VecDeque::new(),
            pipelines: BTreeMap::new(),
            in_socket: 0,
            stalled_since: None,
        }
    }

    pub(super) fn is_loading(&self) -> bool {
        matches!(self.stage, Stage::Loading)
    }

    pub(super) fn is_serving(&self) -> bool {
        matches!(self.stage, Stage::Serving)
    }

    /// The standings are read.
    pub(super) fn serve(&mut self) {
        if self.is_loading() {
            self.stage = Stage::Serving;
        }
    }

    /// Nothing more is read, and it closes once what is under way is answered.
    pub(super) fn finish(&mut self, code: CloseCode) {
        if !matches!(self.stage, Stage::Finishing(_)) {
            self.stage = Stage::Finishing(code);
        }
    }

    /// With which code it closes now, if it has finished.
    pub(super) fn finished(&self) -> Option<CloseCode> {
        match self.stage {
            Stage::Finishing(code) if self.pipelines.is_empty() && self.replies.is_empty() => Some(code),
            Stage::Finishing(_) | Stage::Loading | Stage::Serving => None,
        }
    }

    /// Begins a send. Returns the generation that it goes out under: that from before the first of those under way.
    pub(super) fn begin_send(&mut self, conv: &ConvId, present: Generation) -> Generation {
        let (generation, sends) = self.pipelines.entry(conv.clone()).or_insert((present, 0));
        *sends += 1;
        *generation
    }

    pub(super) fn end_send(&mut self, conv: &ConvId) {
        if let Some((_, sends)) = self.pipelines.get_mut(conv) {
            *sends -= 1;
            if *sends == 0 {
                self.pipelines.remove(conv);
            }
        }
    }

    pub(super) fn reply(&mut self, message: ServerMessage) {
        self.replies.push_back(message);
    }

    /// The peer has read a frame.
    pub(super) fn taken(&mut self) {
        self.in_socket = self.in_socket.saturating_sub(1);
        self.stalled_since = None;
    }

    /// The next frame that the socket has room for.
    pub(super) fn next_frame(&mut self, now: Instant) -> Option<ServerMessage> {
        if self.in_socket >= SOCKET_FRAMES_MAX {
            self.stalled_since.get_or_insert(now);
            return None;
        }
        let frame = match self.replies.pop_front() {
            Some(reply) => reply,
            None if self.is_serving() => message(self.queue.poll()?),
            None => return None,
        };
        self.in_socket += 1;
        Some(frame)
    }

    pub(super) fn stalled_since(&self) -> Option<Instant> {
        self.stalled_since
    }
}

fn message(outgoing: Outgoing<Frame>) -> ServerMessage {
    match outgoing {
        Outgoing::Event(frame) => ServerMessage::Event((*frame).clone()),
        Outgoing::Hint { conv, position } => {
            ServerMessage::Hint { conv, epoch: position.epoch, head: position.seq }
        }
    }
}
