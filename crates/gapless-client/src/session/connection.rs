//! The life of a session's connection.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use gapless_core::{Heartbeat, SyncRequest};
use gapless_proto::ConvId;

use super::command::ConnectionId;
use super::requests::Requests;

/// Where a session is.
#[derive(Debug)]
pub(super) enum Connection {
    Disconnected {
        retry_at: Instant,
    },
    /// Until the server's `welcome`.
    Connecting {
        id: ConnectionId,
        deadline: Instant,
        fresh_token: bool,
    },
    Live(Live),
    Stopped,
}

/// A connection that stands, and what ends with it.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) id: ConnectionId,
    pub(super) since: Instant,
    pub(super) heartbeat: Heartbeat,
    pub(super) requests: Requests,
    /// Syncs that wait until fewer are in flight.
    pub(super) waiting_syncs: VecDeque<(ConvId, SyncRequest)>,
    /// The conversations whose stored position is to be acknowledged, and when.
    pub(super) acks: BTreeSet<ConvId>,
    pub(super) acks_due: Option<Instant>,
    /// What a draining server said about coming back.
    pub(super) reconnect_after: Option<Duration>,
}

impl Connection {
    /// The connection that is open or on its way.
    pub(super) fn id(&self) -> Option<ConnectionId> {
        match self {
            Self::Connecting { id, .. } => Some(*id),
            Self::Live(live) => Some(live.id),
            Self::Disconnected { .. } | Self::Stopped => None,
        }
    }

    pub(super) fn live(&mut self) -> Option<&mut Live> {
        match self {
            Self::Live(live) => Some(live),
            Self::Disconnected { .. } | Self::Connecting { .. } | Self::Stopped => None,
        }
    }
}

impl Live {
    pub(super) fn new(id: ConnectionId, heartbeat: Heartbeat, now: Instant) -> Self {
        Self {
            id,
            since: now,
            heartbeat,
            requests: Requests::default(),
            waiting_syncs: VecDeque::new(),
            acks: BTreeSet::new(),
            acks_due: None,
            reconnect_after: None,
        }
    }

    /// The stored position of `conv` is to be told, together with others a little later.
    pub(super) fn acknowledge(&mut self, conv: ConvId, due: Instant) {
        self.acks.insert(conv);
        self.acks_due.get_or_insert(due);
    }

    pub(super) fn poll_timeout(&self, answer_timeout: Duration) -> Instant {
        let unanswered = self.requests.oldest().map(|asked_at| asked_at + answer_timeout);
        [Some(self.heartbeat.poll_timeout()), unanswered, self.acks_due]
            .into_iter()
            .flatten()
            .min()
            .expect("a heartbeat always has a next time")
    }
}
