//! One conversation as the disk has it.

use std::collections::BTreeMap;

use gapless_core::{
    Append, AppendBatch, Authority, CursorRefusal, FeedNews, FeedRow, FeedState, History, Interval,
    MembershipRow, Operation, Seen, Standing, StoredContent, StoredKey,
};
use gapless_proto::{
    Body, ConvId, Entry, Epoch, ErrorCode, Key, Kind, Page, Position, Seq, Timestamp, UserId,
};

use super::{Frame, PageAsk, fresh};
use crate::Fault;

/// A log, who may see what of it, and which keys were used.
#[derive(Debug, Clone)]
pub(super) struct Log {
    row: FeedRow,
    /// The oldest seq that is kept.
    min_seq: Seq,
    entries: BTreeMap<Seq, Entry>,
    /// By user and join seq.
    memberships: BTreeMap<(UserId, Seq), MembershipRow>,
    keys: BTreeMap<(UserId, Key), StoredKey>,
}

impl Log {
    /// A new one with its first members, and their join entries.
    pub(super) fn created(
        conv: &ConvId,
        members: &[UserId],
        history: History,
        now: Timestamp,
    ) -> (Self, Vec<Entry>) {
        let creator = members.first().expect("a conversation is created by somebody").clone();
        let created = FeedState::created(Epoch::of_creation(now), history, creator.clone());
        let mut log = Self {
            row: created.row.clone(),
            min_seq: Seq::FIRST,
            entries: BTreeMap::new(),
            memberships: BTreeMap::new(),
            keys: BTreeMap::new(),
        };
        let mut batch = AppendBatch::new(now, BTreeMap::from([(conv.clone(), created)]));
        for user in members {
            let operation = Operation::Join { user: user.clone(), by: creator.clone() };
            let append = Append { conv: conv.clone(), authority: Authority::Service, operation };
            batch.push(&append).expect("a backend may add anyone");
        }
        let entries: Vec<Entry> = batch.entries().iter().map(|(_, entry)| entry.clone()).collect();
        for (_, row) in batch.changed_feeds() {
            log.write(row, &entries, batch.memberships().map(|(_, user, row)| (user, row)));
        }
        (log, entries)
    }

    /// What a batch must know to decide these appends.
    pub(super) fn state_for<'a>(&self, appends: impl Iterator<Item = &'a Append>) -> FeedState {
        let mut state =
            FeedState { row: self.row.clone(), memberships: BTreeMap::new(), keys: BTreeMap::new() };
        for append in appends {
            for user in append.users() {
                if let Some(latest) = self.memberships_of(user).last() {
                    state.memberships.insert(user.clone(), latest.clone());
                }
            }
            if let Some((sender, key)) = append.key()
                && let Some(stored) = self.keys.get(&(sender.clone(), key.clone()))
            {
                state.keys.insert((sender.clone(), key.clone()), stored.clone());
            }
        }
        state
    }

    /// Writes what a batch has decided.
    pub(super) fn write<'a>(
        &mut self,
        row: &FeedRow,
        entries: &[Entry],
        memberships: impl Iterator<Item = (&'a UserId, &'a MembershipRow)>,
    ) {
        self.row = row.clone();
        for entry in entries {
            self.entries.insert(entry.seq, entry.clone());
            if let Some(key) = &entry.key {
                let content = StoredContent::Body(entry.body.clone());
                let stored = StoredKey { seq: entry.seq, ts: entry.ts, content };
                self.keys.insert((entry.sender.clone(), key.clone()), stored);
            }
        }
        for (user, row) in memberships {
            self.memberships.insert((user.clone(), row.joined), row.clone());
        }
    }

    pub(super) fn append_unknown(&mut self, now: Timestamp) -> (Epoch, Entry) {
        self.row.head = self.row.head.next();
        let entry = Entry {
            seq: self.row.head,
            kind: Kind::Other("poll".to_owned()),
            sender: self.row.creator.clone(),
            key: None,
            ts: now,
            body: Body::from_text("{}".to_owned()).expect("it is JSON"),
        };
        self.entries.insert(entry.seq, entry.clone());
        (self.row.epoch, entry)
    }

    pub(super) fn raise_epoch(&mut self, now: Timestamp) {
        self.row.epoch = self.row.epoch.raised(now);
    }

    pub(super) fn trim(&mut self, below: Seq) {
        let below = below.min(self.row.head.next());
        if below <= self.min_seq {
            return;
        }
        let kept = self.entries.split_off(&below);
        for entry in std::mem::replace(&mut self.entries, kept).into_values() {
            if let Some(key) = entry.key
                && let Some(stored) = self.keys.get_mut(&(entry.sender, key))
            {
                stored.content = StoredContent::Digest(StoredContent::digest(&entry.body));
            }
        }
        self.min_seq = below;
    }

    pub(super) fn position(&self) -> Position {
        Position { epoch: self.row.epoch, seq: self.row.head }
    }

    pub(super) fn min_seq(&self) -> Seq {
        self.min_seq
    }

    /// What a user may see after a cursor.
    pub(super) fn page(&self, user: &UserId, ask: PageAsk, fault: Option<Fault>) -> Result<Page, ErrorCode> {
        let PageAsk { after, epoch, limit } = ask;
        if self.memberships_of(user).next().is_none() {
            return Err(ErrorCode::NotFound);
        }
        let reaches_beyond = |row: &&MembershipRow| row.visible.to.is_none_or(|to| to > after);
        let latest_end = self.memberships_of(user).last().and_then(|row| row.visible.to);
        let visible = |entry: &&Entry| self.memberships_of(user).any(|row| row.visible.contains(entry.seq));
        let holds_cursors = self.row.history == History::All && fault != Some(Fault::PassTheAbsence);
        let seen = Seen {
            epoch: self.row.epoch,
            head: self.row.head,
            min_seq: self.min_seq,
            visible_from: self.memberships_of(user).find(reaches_beyond).map(|row| row.visible.from),
            held_at: latest_end.filter(|_| holds_cursors),
            entries: self.entries_after(after).filter(visible).take(limit + 1).cloned().collect(),
        };
        seen.into_page(after, epoch, limit).map_err(|refusal| match refusal {
            CursorRefusal::EpochChanged { .. } => ErrorCode::EpochChanged,
            CursorRefusal::Ahead { .. } => ErrorCode::CursorAhead,
        })
    }

    /// How a user stands to it; `None` when they never were in it.
    pub(super) fn standing(&self, conv: &ConvId, user: &UserId) -> Option<Standing> {
        let latest: Interval = self.memberships_of(user).last()?.visible;
        Some(Standing { conv: conv.clone(), position: self.position(), members: self.row.members, latest })
    }

    pub(super) fn entries_after(&self, after: Seq) -> impl Iterator<Item = &Entry> {
        self.entries.range(after.next()..).map(|(_, entry)| entry)
    }

    pub(super) fn news<'a>(
        &self,
        conv: &ConvId,
        entries: impl Iterator<Item = &'a Entry>,
    ) -> FeedNews<Frame> {
        FeedNews {
            conv: conv.clone(),
            position: self.position(),
            members: self.row.members,
            entries: entries.map(|entry| fresh(conv, self.row.epoch, entry)).collect(),
        }
    }

    /// A user's memberships in the order of joining.
    fn memberships_of(&self, user: &UserId) -> impl Iterator<Item = &MembershipRow> {
        let from = (user.clone(), Seq::ZERO);
        self.memberships.range(from..).take_while(move |((of, _), _)| of == user).map(|(_, row)| row)
    }
}
