//! Rows as arrays, one a column: a statement takes any number of rows and is prepared once.

use gapless_core::AppendBatch;
use gapless_proto::{ConvId, Entry};
use tokio_postgres::types::ToSql;

use super::rows::bigint;

/// The parameters of a statement.
pub(super) type Params<'a, const COLUMNS: usize> = [&'a (dyn ToSql + Sync); COLUMNS];

/// The columns of `entry`.
#[derive(Default)]
pub(super) struct EntryColumns<'a> {
    feeds: Vec<&'a str>,
    seqs: Vec<i64>,
    kinds: Vec<&'a str>,
    senders: Vec<&'a str>,
    keys: Vec<Option<&'a str>>,
    times: Vec<i64>,
    bodies: Vec<&'a str>,
}

impl<'a> EntryColumns<'a> {
    pub(super) fn of(entries: &'a [(ConvId, Entry)]) -> Self {
        let mut columns = Self::default();
        for (conv, entry) in entries {
            columns.feeds.push(conv.as_str());
            columns.seqs.push(bigint(entry.seq.get()));
            columns.kinds.push(entry.kind.as_str());
            columns.senders.push(entry.sender.as_str());
            columns.keys.push(entry.key.as_ref().map(|key| key.as_str()));
            columns.times.push(bigint(entry.ts.get()));
            columns.bodies.push(entry.body.as_str());
        }
        columns
    }

    pub(super) fn params(&self) -> Params<'_, 7> {
        [&self.feeds, &self.seqs, &self.kinds, &self.senders, &self.keys, &self.times, &self.bodies]
    }
}

/// The columns of `member`.
#[derive(Default)]
pub(super) struct MembershipColumns<'a> {
    feeds: Vec<&'a str>,
    users: Vec<&'a str>,
    joined: Vec<i64>,
    from: Vec<i64>,
    to: Vec<Option<i64>>,
    left_by_themselves: Vec<bool>,
}

impl<'a> MembershipColumns<'a> {
    pub(super) fn of(batch: &'a AppendBatch) -> Self {
        let mut columns = Self::default();
        for (conv, user, row) in batch.memberships() {
            columns.feeds.push(conv.as_str());
            columns.users.push(user.as_str());
            columns.joined.push(bigint(row.joined.get()));
            columns.from.push(bigint(row.visible.from.get()));
            columns.to.push(row.visible.to.map(|to| bigint(to.get())));
            columns.left_by_themselves.push(row.left_by_themselves);
        }
        columns
    }

    pub(super) fn is_empty(&self) -> bool {
        self.feeds.is_empty()
    }

    pub(super) fn params(&self) -> Params<'_, 6> {
        [&self.feeds, &self.users, &self.joined, &self.from, &self.to, &self.left_by_themselves]
    }
}

/// The columns of `feed` that an append changes.
#[derive(Default)]
pub(super) struct HeadColumns<'a> {
    feeds: Vec<&'a str>,
    heads: Vec<i64>,
    members: Vec<i64>,
}

impl<'a> HeadColumns<'a> {
    pub(super) fn of(batch: &'a AppendBatch) -> Self {
        let mut columns = Self::default();
        for (conv, row) in batch.changed_feeds() {
            columns.feeds.push(conv.as_str());
            columns.heads.push(bigint(row.head.get()));
            columns.members.push(bigint(row.members));
        }
        columns
    }

    pub(super) fn params(&self) -> Params<'_, 3> {
        [&self.feeds, &self.heads, &self.members]
    }
}
