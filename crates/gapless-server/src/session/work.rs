//! What the store is asked for one session.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use gapless_core::{Append, Appended};
use gapless_proto::{ConvId, Page, Rid};
use gapless_store::{AppendError, Generation, PageError, PageRequest, Store};
use tokio::time::Instant;

use crate::gateway::Gateway;
use crate::refusal::Refusal;
use crate::subscription::{Begun, Wanted};

/// How many syncs of one connection run at a time.
const SYNCS_RUNNING_MAX: usize = 4;
/// How many more may wait; while there are as many, nothing is read from the connection.
const SYNCS_WAITING_MAX: usize = 16;

/// The store has answered.
pub(super) enum Done {
    /// A send.
    Send {
        /// The request.
        rid: Rid,
        /// Where to.
        conv: ConvId,
        /// What it came to.
        outcome: Result<Appended, AppendError>,
        /// How long that took.
        took: Duration,
    },
    /// A subscription begins, or doesn't.
    Subscribe {
        /// The request.
        rid: Rid,
        /// What it came to.
        outcome: Result<Begun, Refusal>,
    },
    /// A sync.
    Sync {
        /// The request.
        rid: Rid,
        /// Of which conversation.
        conv: ConvId,
        /// What it came to.
        outcome: Result<Page, PageError>,
        /// How long that took.
        took: Duration,
    },
}

/// Appends; the append has its place in the order once this was polled for the first time.
pub(super) async fn send(store: Arc<dyn Store>, rid: Rid, append: Append, generation: Generation) -> Done {
    let began = Instant::now();
    let conv = append.conv.clone();
    let outcome = store.append(append, Some(generation)).await;
    Done::Send { rid, conv, outcome, took: began.elapsed() }
}

/// Begins a subscription.
pub(super) async fn subscribe(gateway: Arc<Gateway>, rid: Rid, wanted: Wanted) -> Done {
    Done::Subscribe { rid, outcome: wanted.begin(&gateway).await }
}

/// Reads a page.
pub(super) async fn sync(store: Arc<dyn Store>, rid: Rid, request: PageRequest) -> Done {
    let began = Instant::now();
    let conv = request.conv.clone();
    let outcome = store.page(request).await;
    Done::Sync { rid, conv, outcome, took: began.elapsed() }
}

/// The syncs of one connection: a few run, some wait in line.
#[derive(Debug)]
pub(super) struct Syncs {
    running: usize,
    waiting: VecDeque<(Rid, PageRequest)>,
}

impl Syncs {
    pub(super) fn new() -> Self {
        Self { running: 0, waiting: VecDeque::new() }
    }

    /// Takes a sync. Call it while there is room.
    pub(super) fn handle_sync(&mut self, rid: Rid, request: PageRequest) {
        self.waiting.push_back((rid, request));
    }

    /// One that ran is done.
    pub(super) fn handle_done(&mut self) {
        self.running -= 1;
    }

    /// Takes the next one to run.
    pub(super) fn poll_start(&mut self) -> Option<(Rid, PageRequest)> {
        if !self.may_start() {
            return None;
        }
        self.running += 1;
        self.waiting.pop_front()
    }

    /// Drops those that wait.
    pub(super) fn forget_waiting(&mut self) {
        self.waiting = VecDeque::new();
    }

    /// Whether one that waits may run.
    pub(super) fn may_start(&self) -> bool {
        self.running < SYNCS_RUNNING_MAX && !self.waiting.is_empty()
    }

    /// Whether another one may come.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() < SYNCS_WAITING_MAX
    }
}

#[cfg(test)]
mod tests {
    use gapless_proto::{Seq, UserId};
    use gapless_store::Reader;

    use super::*;

    #[test]
    fn a_few_syncs_run_and_the_others_wait_for_one_to_be_done() {
        let mut syncs = Syncs::new();
        for number in 0..6 {
            syncs.handle_sync(Rid::new(number).unwrap(), request());
        }
        assert_eq!(started(&mut syncs), [0, 1, 2, 3]);
        syncs.handle_done();
        assert_eq!(started(&mut syncs), [4]);
    }

    #[test]
    fn when_many_wait_no_more_are_taken() {
        let mut syncs = Syncs::new();
        let mut number = 0;
        while syncs.has_room() {
            syncs.handle_sync(Rid::new(number).unwrap(), request());
            number += 1;
        }
        assert_eq!(number, 16);
        syncs.poll_start();
        assert!(syncs.has_room());
    }

    fn started(syncs: &mut Syncs) -> Vec<u64> {
        std::iter::from_fn(|| syncs.poll_start()).map(|(rid, _)| rid.get()).collect()
    }

    fn request() -> PageRequest {
        PageRequest {
            conv: ConvId::new("c").unwrap(),
            reader: Reader::User(UserId::new("alice").unwrap()),
            after: Seq::ZERO,
            epoch: None,
            limit: 50,
        }
    }
}
