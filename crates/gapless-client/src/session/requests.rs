//! What a connection was asked and hasn't answered.

use std::collections::BTreeMap;
use std::time::Instant;

use gapless_core::{OutboxId, SyncRequest};
use gapless_proto::{ConvId, Rid};

use super::topics::TopicsId;

/// The unanswered requests of one connection.
#[derive(Debug, Default)]
pub(super) struct Requests {
    unanswered: BTreeMap<Rid, (Request, Instant)>,
    syncs: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Request {
    Send(OutboxId),
    Sync { conv: ConvId, asked: SyncRequest },
    Renew,
    Subscribe(TopicsId),
}

impl Requests {
    /// Notes a request; rids rise.
    pub(super) fn insert(&mut self, rid: Rid, request: Request, now: Instant) {
        self.syncs += usize::from(request.is_sync());
        self.unanswered.insert(rid, (request, now));
    }

    /// Takes out what was answered; `None` if nobody waits for it.
    pub(super) fn remove(&mut self, rid: Rid) -> Option<Request> {
        let (request, _) = self.unanswered.remove(&rid)?;
        self.syncs -= usize::from(request.is_sync());
        Some(request)
    }

    /// How many syncs are unanswered.
    pub(super) fn syncs(&self) -> usize {
        self.syncs
    }

    /// When the oldest one was asked.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.unanswered.first_key_value().map(|(_, (_, asked_at))| *asked_at)
    }
}

impl Request {
    fn is_sync(&self) -> bool {
        matches!(self, Self::Sync { .. })
    }
}
