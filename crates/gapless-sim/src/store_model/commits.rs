//! The store's transactions: what waits for one, what is being flushed, and how each may end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use gapless_core::{Append, AppendBatch, AppendOutcome, Authority, FeedNews, Operation};
use gapless_proto::{Body, ConvId, Entry, Position, Rid, Timestamp};

use super::{Disk, Down, Frame, fresh};
use crate::names::{BatchNo, GatewayNo, LinkNo};

/// Decides every append with the [`AppendBatch`] of the real stores.
///
/// Each gateway has a few lanes of its own; a conversation is always served by the same. In a lane one transaction is flushed at
/// a time and the others gather behind it. A transaction keeps its feeds locked until it ends, against other lanes too, and also
/// when its lane has given it up: that is what a database does with a connection that died during the commit.
#[derive(Debug)]
pub(crate) struct Commits {
    lanes_per_gateway: usize,
    lanes: BTreeMap<LaneNo, Lane>,
    open: BTreeMap<BatchNo, Batch>,
    batches: u64,
}

/// One lane of one gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LaneNo {
    pub(crate) gateway: GatewayNo,
    number: usize,
}

/// Whose append it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ticket {
    /// A connection's, which is to be answered.
    Send { link: LinkNo, rid: Rid, conv: ConvId },
    /// A backend's.
    Backend,
}

/// How many commits of a lane have failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Generation(u64);

/// An append that waits for the next transaction.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    pub(crate) ticket: Ticket,
    pub(crate) append: Append,
    pub(crate) generation: Option<Generation>,
}

/// What is to be answered.
pub(crate) type Answer = (Ticket, Result<AppendOutcome, Down>);

/// How many appends a transaction takes; small, so that pipelines are spread over several.
const BATCH_APPENDS_MAX: usize = 4;

#[derive(Debug, Default)]
struct Lane {
    generation: Generation,
    waiting: VecDeque<Waiting>,
    open: Option<BatchNo>,
}

/// A transaction that is being flushed.
#[derive(Debug)]
struct Batch {
    /// Who waits for it; `None` once it was given up.
    lane: Option<LaneNo>,
    feeds: BTreeSet<ConvId>,
    decided: AppendBatch,
    outcomes: Vec<(Ticket, AppendOutcome)>,
}

/// A transaction that has begun.
#[derive(Debug)]
pub(crate) struct Begun {
    /// `None` if none of it was admitted.
    pub(crate) batch: Option<BatchNo>,
    /// What wasn't admitted, since it must not follow a failed transaction.
    pub(crate) turned_away: Vec<Answer>,
    /// The messages that were decided against.
    pub(crate) refused: Vec<Body>,
}

/// A transaction that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The lane that goes on; `None` if the transaction was given up before.
    pub(crate) lane: Option<LaneNo>,
    pub(crate) answers: Vec<Answer>,
    /// What was appended to which life of which feed.
    pub(crate) written: Vec<(ConvId, Position, Vec<Entry>)>,
    pub(crate) news: Vec<FeedNews<Frame>>,
}

impl Waiting {
    /// A backend's change of who is a member.
    pub(crate) fn of_backend(conv: ConvId, authority: Authority, operation: Operation) -> Self {
        Self { ticket: Ticket::Backend, append: Append { conv, authority, operation }, generation: None }
    }
}

impl Commits {
    pub(super) fn new(lanes_per_gateway: usize) -> Self {
        Self { lanes_per_gateway, lanes: BTreeMap::new(), open: BTreeMap::new(), batches: 0 }
    }

    /// Which lane serves a conversation.
    pub(crate) fn lane_of(&self, gateway: GatewayNo, conv: &ConvId) -> LaneNo {
        let sum: usize = conv.as_str().bytes().map(usize::from).sum();
        LaneNo { gateway, number: sum % self.lanes_per_gateway }
    }

    /// All lanes of a gateway.
    pub(crate) fn lanes_of(&self, gateway: GatewayNo) -> impl Iterator<Item = LaneNo> + use<> {
        (0..self.lanes_per_gateway).map(move |number| LaneNo { gateway, number })
    }

    pub(crate) fn generation(&self, lane: LaneNo) -> Generation {
        self.lanes.get(&lane).map(|lane| lane.generation).unwrap_or_default()
    }

    pub(crate) fn append(&mut self, lane: LaneNo, waiting: Waiting) {
        self.lanes.entry(lane).or_default().waiting.push_back(waiting);
    }

    /// Whether a transaction has a feed locked.
    pub(crate) fn is_locked(&self, conv: &ConvId) -> bool {
        self.open.values().any(|batch| batch.feeds.contains(conv))
    }

    /// Begins a lane's next transaction, if something waits, none is open and nobody else has its feeds locked.
    pub(super) fn begin(&mut self, no: LaneNo, disk: &Disk, now: Timestamp) -> Option<Begun> {
        let lane = self.lanes.get(&no).filter(|lane| lane.open.is_none())?;
        let size = lane.waiting.len().min(BATCH_APPENDS_MAX);
        if size == 0 || lane.waiting.iter().take(size).any(|waiting| self.is_locked(&waiting.append.conv)) {
            return None;
        }
        let generation = lane.generation;
        let (admitted, turned_away): (Vec<_>, Vec<_>) = self
            .lanes
            .get_mut(&no)?
            .waiting
            .drain(..size)
            .partition(|waiting| waiting.generation.is_none_or(|since| since >= generation));
        let turned_away = turned_away.into_iter().map(|waiting| (waiting.ticket, Err(Down))).collect();
        if admitted.is_empty() {
            return Some(Begun { batch: None, turned_away, refused: Vec::new() });
        }
        let (batch, refused) = self.open(no, admitted, disk, now);
        Some(Begun { batch: Some(batch), turned_away, refused })
    }

    /// Fails what waits in a lane, since the database can't be reached.
    pub(crate) fn fail_waiting(&mut self, lane: LaneNo) -> Vec<Answer> {
        let Some(lane) = self.lanes.get_mut(&lane).filter(|lane| lane.open.is_none()) else {
            return Vec::new();
        };
        if !lane.waiting.is_empty() {
            lane.generation.0 += 1;
        }
        lane.waiting.drain(..).map(|waiting| (waiting.ticket, Err(Down))).collect()
    }

    pub(super) fn commit(&mut self, batch: BatchNo, disk: &mut Disk) -> Option<Ended> {
        let Batch { lane, decided, outcomes, .. } = self.open.remove(&batch)?;
        let written = written(&decided);
        for (conv, row) in decided.changed_feeds() {
            let Some(log) = disk.0.get_mut(conv) else {
                unreachable!("feeds that are written were locked");
            };
            let own = written.iter().find(|(written, ..)| written == conv);
            let memberships = decided.memberships().filter(|(written, ..)| *written == conv);
            let memberships = memberships.map(|(_, user, row)| (user, row));
            log.write(row, own.map_or(&[], |(.., entries)| entries), memberships);
        }
        self.free(lane);
        let Some(lane) = lane else {
            return Some(Ended { lane: None, answers: Vec::new(), written, news: Vec::new() });
        };
        let answers = outcomes.into_iter().map(|(ticket, outcome)| (ticket, Ok(outcome))).collect();
        Some(Ended { lane: Some(lane), answers, written, news: news(&decided) })
    }

    /// The transaction left nothing behind.
    pub(crate) fn roll_back(&mut self, batch: BatchNo) -> Option<Ended> {
        let lane = self.open.get(&batch)?.lane;
        let answers = self.give_up(batch);
        self.open.remove(&batch);
        Some(Ended { lane, answers, written: Vec::new(), news: Vec::new() })
    }

    /// Its lane takes the transaction for failed and goes on; how it ends is still open.
    pub(crate) fn give_up(&mut self, batch: BatchNo) -> Vec<Answer> {
        let Some(open) = self.open.get_mut(&batch) else {
            return Vec::new();
        };
        let Some(lane) = open.lane.take() else {
            return Vec::new();
        };
        let answers = open.outcomes.iter().map(|(ticket, _)| (ticket.clone(), Err(Down))).collect();
        if let Some(lane) = self.lanes.get_mut(&lane) {
            lane.generation.0 += 1;
        }
        self.free(Some(lane));
        answers
    }

    /// A gateway's process has ended: nobody waits for its appends any more.
    pub(crate) fn lose_lanes(&mut self, gateway: GatewayNo) {
        self.lanes.retain(|lane, _| lane.gateway != gateway);
        for batch in self.open.values_mut() {
            batch.lane = batch.lane.filter(|lane| lane.gateway != gateway);
        }
    }

    /// The transactions that have not ended.
    pub(crate) fn open_batches(&self) -> Vec<BatchNo> {
        self.open.keys().copied().collect()
    }

    /// Whether nothing waits, is being flushed or lingers.
    pub(crate) fn is_idle(&self) -> bool {
        self.open.is_empty() && self.lanes.values().all(|lane| lane.waiting.is_empty())
    }

    /// What a transaction would tell if it were on disk already.
    pub(crate) fn foretell(&self, batch: BatchNo) -> (Vec<Answer>, Vec<FeedNews<Frame>>) {
        let Some(open) = self.open.get(&batch) else {
            return (Vec::new(), Vec::new());
        };
        let answers = open.outcomes.iter().map(|(ticket, outcome)| (ticket.clone(), Ok(outcome.clone())));
        (answers.collect(), news(&open.decided))
    }

    /// Locks the feeds, loads what the batch asks for, and decides.
    fn open(
        &mut self,
        lane: LaneNo,
        admitted: Vec<Waiting>,
        disk: &Disk,
        now: Timestamp,
    ) -> (BatchNo, Vec<Body>) {
        let feeds: BTreeSet<ConvId> = admitted.iter().map(|waiting| waiting.append.conv.clone()).collect();
        let states = feeds.iter().filter_map(|conv| {
            let appends = admitted.iter().map(|waiting| &waiting.append);
            let of_conv = appends.filter(|append| append.conv == *conv);
            Some((conv.clone(), disk.0.get(conv)?.state_for(of_conv)))
        });
        let mut decided = AppendBatch::new(now, states.collect());
        let (mut outcomes, mut refused) = (Vec::new(), Vec::new());
        for Waiting { ticket, append, .. } in admitted {
            let outcome = decided.push(&append);
            if let (Err(_), Operation::Message { body, .. }) = (&outcome, append.operation) {
                refused.push(body);
            }
            outcomes.push((ticket, outcome));
        }
        let batch = BatchNo(self.batches);
        self.batches += 1;
        self.open.insert(batch, Batch { lane: Some(lane), feeds, decided, outcomes });
        self.lanes.entry(lane).or_default().open = Some(batch);
        (batch, refused)
    }

    fn free(&mut self, lane: Option<LaneNo>) {
        if let Some(lane) = lane.and_then(|lane| self.lanes.get_mut(&lane)) {
            lane.open = None;
        }
    }
}

fn written(decided: &AppendBatch) -> Vec<(ConvId, Position, Vec<Entry>)> {
    let feeds = decided.changed_feeds().map(|(conv, row)| {
        let entries = decided.entries().iter().filter(|(of, _)| of == conv);
        let position = Position { epoch: row.epoch, seq: row.head };
        (conv.clone(), position, entries.map(|(_, entry)| entry.clone()).collect())
    });
    feeds.collect()
}

fn news(decided: &AppendBatch) -> Vec<FeedNews<Frame>> {
    let feeds = decided.changed_feeds().map(|(conv, row)| {
        let entries = decided.entries().iter().filter(|(of, _)| of == conv).map(|(_, entry)| entry);
        FeedNews {
            conv: conv.clone(),
            position: Position { epoch: row.epoch, seq: row.head },
            members: row.members,
            entries: entries.map(|entry| fresh(conv, row.epoch, entry)).collect(),
        }
    });
    feeds.collect()
}
