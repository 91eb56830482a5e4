//! A store in memory: what is on disk, and the transactions that are about to be.

mod commits;
mod log;

use std::collections::BTreeMap;
use std::sync::Arc;

use gapless_core::{FeedNews, Fresh, History, Standing};
use gapless_proto::{ConvId, Entry, Epoch, ErrorCode, Event, Page, Position, Seq, Timestamp, UserId};

use crate::Fault;

pub(crate) use commits::{Answer, Begun, Commits, Ended, Generation, LaneNo, Ticket, Waiting};
use log::Log;

/// What a store keeps, and what it is about to keep.
#[derive(Debug)]
pub(crate) struct StoreModel {
    disk: Disk,
    pub(crate) commits: Commits,
}

/// Everything that survives a crash; a clone is a backup.
#[derive(Debug, Default, Clone)]
pub(crate) struct Disk(BTreeMap<ConvId, Log>);

/// A pushed frame, shared by all who get it.
pub(crate) type Frame = Arc<Event>;

/// The store can't answer. Whether what was asked took effect isn't known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Down;

/// A reader's question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageAsk {
    pub(crate) after: Seq,
    pub(crate) epoch: Option<Epoch>,
    pub(crate) limit: usize,
}

impl StoreModel {
    /// An empty one, in which each gateway has so many lanes.
    pub(crate) fn new(lanes: usize) -> Self {
        Self { disk: Disk::default(), commits: Commits::new(lanes) }
    }

    /// Writes a new conversation with its first members.
    pub(crate) fn create(
        &mut self,
        conv: &ConvId,
        members: &[UserId],
        history: History,
        now: Timestamp,
    ) -> Vec<Entry> {
        let (log, entries) = Log::created(conv, members, history, now);
        self.disk.0.insert(conv.clone(), log);
        entries
    }

    /// Begins a lane's next transaction, if it can.
    pub(crate) fn begin(&mut self, lane: LaneNo, now: Timestamp) -> Option<Begun> {
        self.commits.begin(lane, &self.disk, now)
    }

    /// The transaction is on disk.
    pub(crate) fn commit(&mut self, batch: crate::names::BatchNo) -> Option<Ended> {
        self.commits.commit(batch, &mut self.disk)
    }

    /// A backup of this moment.
    pub(crate) fn backup(&self) -> Disk {
        self.disk.clone()
    }

    /// Puts a backup in the disk's place and raises every epoch, in one step. No transaction may be open.
    pub(crate) fn restore(&mut self, mut backup: Disk, now: Timestamp) -> Vec<(ConvId, Position)> {
        for log in backup.0.values_mut() {
            log.raise_epoch(now);
        }
        self.disk = backup;
        self.disk.0.iter().map(|(conv, log)| (conv.clone(), log.position())).collect()
    }

    /// Raises one epoch without taking anything back; `None` while the feed is locked.
    pub(crate) fn raise_epoch(&mut self, conv: &ConvId, now: Timestamp) -> Option<Position> {
        if self.commits.is_locked(conv) {
            return None;
        }
        let log = self.disk.0.get_mut(conv)?;
        log.raise_epoch(now);
        Some(log.position())
    }

    /// Appends an entry of a kind that this version doesn't know; `None` while the feed is locked. It makes no news.
    pub(crate) fn append_unknown(&mut self, conv: &ConvId, now: Timestamp) -> Option<(Epoch, Entry)> {
        if self.commits.is_locked(conv) {
            return None;
        }
        Some(self.disk.0.get_mut(conv)?.append_unknown(now))
    }

    /// Deletes entries from the beginning of a log. Returns its epoch and the oldest seq kept.
    pub(crate) fn trim(&mut self, conv: &ConvId, below: Seq) -> Option<Position> {
        let log = self.disk.0.get_mut(conv)?;
        log.trim(below);
        Some(Position { epoch: log.position().epoch, seq: log.min_seq() })
    }

    /// What a user may see after a cursor.
    pub(crate) fn page(
        &self,
        user: &UserId,
        conv: &ConvId,
        ask: PageAsk,
        fault: Option<Fault>,
    ) -> Result<Page, ErrorCode> {
        self.disk.0.get(conv).ok_or(ErrorCode::NotFound)?.page(user, ask, fault)
    }

    /// Where a user's conversations are, beginning after `after`.
    pub(crate) fn standings(&self, user: &UserId, after: Option<&ConvId>, limit: usize) -> Vec<Standing> {
        let standings = self.disk.0.iter().filter_map(|(conv, log)| log.standing(conv, user));
        standings.filter(|standing| after.is_none_or(|after| standing.conv > *after)).take(limit).collect()
    }

    /// How a user stands to one conversation.
    pub(crate) fn standing(&self, conv: &ConvId, user: &UserId) -> Option<Standing> {
        self.disk.0.get(conv)?.standing(conv, user)
    }

    /// What comes after `after` in a log, for everyone.
    pub(crate) fn log(&self, conv: &ConvId, after: Seq, limit: usize) -> Option<FeedNews<Frame>> {
        let log = self.disk.0.get(conv)?;
        Some(log.news(conv, log.entries_after(after).take(limit)))
    }

    /// Where feeds are now.
    pub(crate) fn heads(&self, convs: &[ConvId]) -> Vec<FeedNews<Frame>> {
        let logs = convs.iter().filter_map(|conv| Some((conv, self.disk.0.get(conv)?)));
        logs.map(|(conv, log)| log.news(conv, std::iter::empty())).collect()
    }

    pub(crate) fn position(&self, conv: &ConvId) -> Option<Position> {
        self.disk.0.get(conv).map(Log::position)
    }
}

fn fresh(conv: &ConvId, epoch: Epoch, entry: &Entry) -> Fresh<Frame> {
    let event = Event { conv: conv.clone(), epoch, entry: entry.clone() };
    Fresh { entry: entry.clone(), frame: Arc::new(event) }
}
