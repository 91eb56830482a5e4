//! From stored rows to types.

use gapless_core::{History, Interval, MembershipRow};
use gapless_proto::{Body, ConvId, Entry, Epoch, IdError, Key, Kind, PositionError, Seq, Timestamp, UserId};
use tokio_postgres::Row;

use super::fault::Fault;
use crate::FeedHead;

/// The columns of an entry, in the order in which [`entry`] reads them.
macro_rules! entry_columns {
    () => {
        "e.seq, e.kind, e.sender, e.key, e.ts, e.body"
    };
}
pub(super) use entry_columns;

/// The columns of a membership, in the order in which [`membership`] reads them.
macro_rules! member_columns {
    () => {
        "m.joined_seq, m.from_seq, m.to_seq, m.left_by_themselves"
    };
}
pub(super) use member_columns;

/// The columns of a feed's head, in the order in which [`feed_head`] reads them.
macro_rules! head_columns {
    () => {
        "f.epoch, f.head, f.members"
    };
}
pub(super) use head_columns;

/// Reads an entry from six columns.
pub(super) fn entry(row: &Row, first: usize) -> Result<Entry, Fault> {
    let key: Option<&str> = row.try_get(first + 3)?;
    Ok(Entry {
        seq: seq(row, first)?,
        kind: Kind::from_name(row.try_get(first + 1)?),
        sender: user(row, first + 2)?,
        key: key.map(Key::new).transpose().map_err(bad_id)?,
        ts: timestamp(row, first + 4)?,
        body: body(row, first + 5)?,
    })
}

/// Reads a membership from four columns.
pub(super) fn membership(row: &Row, first: usize) -> Result<MembershipRow, Fault> {
    Ok(MembershipRow {
        visible: Interval { from: seq(row, first + 1)?, to: seq_or_null(row, first + 2)? },
        joined: seq(row, first)?,
        left_by_themselves: row.try_get(first + 3)?,
    })
}

/// Reads a feed's head from three columns.
pub(super) fn feed_head(row: &Row, first: usize) -> Result<FeedHead, Fault> {
    Ok(FeedHead { epoch: epoch(row, first)?, head: seq(row, first + 1)?, members: count(row, first + 2)? })
}

/// Whether a number isn't there.
pub(super) fn is_null(row: &Row, column: usize) -> Result<bool, Fault> {
    let number: Option<i64> = row.try_get(column)?;
    Ok(number.is_none())
}

pub(super) fn conv(row: &Row, column: usize) -> Result<ConvId, Fault> {
    ConvId::new(row.try_get(column)?).map_err(bad_id)
}

pub(super) fn user(row: &Row, column: usize) -> Result<UserId, Fault> {
    UserId::new(row.try_get(column)?).map_err(bad_id)
}

pub(super) fn key(row: &Row, column: usize) -> Result<Key, Fault> {
    Key::new(row.try_get(column)?).map_err(bad_id)
}

pub(super) fn body(row: &Row, column: usize) -> Result<Body, Fault> {
    Body::from_text(row.try_get(column)?).map_err(|error| Fault::unreadable("body", error))
}

pub(super) fn history(row: &Row, column: usize) -> Result<History, Fault> {
    let name: &str = row.try_get(column)?;
    History::from_name(name)
        .ok_or_else(|| Fault::unreadable("history policy", format!("{name:?} isn't known")))
}

pub(super) fn seq(row: &Row, column: usize) -> Result<Seq, Fault> {
    seq_of(row.try_get(column)?)
}

pub(super) fn seq_or_null(row: &Row, column: usize) -> Result<Option<Seq>, Fault> {
    let stored: Option<i64> = row.try_get(column)?;
    stored.map(seq_of).transpose()
}

pub(super) fn epoch(row: &Row, column: usize) -> Result<Epoch, Fault> {
    number(row.try_get(column)?, Epoch::new)
}

pub(super) fn timestamp(row: &Row, column: usize) -> Result<Timestamp, Fault> {
    number(row.try_get(column)?, Timestamp::new)
}

pub(super) fn count(row: &Row, column: usize) -> Result<u64, Fault> {
    number(row.try_get(column)?, Ok)
}

/// A number as the database keeps it; all of ours are far below 2⁶³.
pub(super) fn bigint(number: u64) -> i64 {
    i64::try_from(number).expect("every number of the log is at most 2^53")
}

fn seq_of(stored: i64) -> Result<Seq, Fault> {
    number(stored, Seq::new)
}

fn number<T>(stored: i64, make: impl FnOnce(u64) -> Result<T, PositionError>) -> Result<T, Fault> {
    let number = u64::try_from(stored).map_err(|error| Fault::unreadable("number", error))?;
    make(number).map_err(|error| Fault::unreadable("number", error))
}

fn bad_id(error: IdError) -> Fault {
    Fault::unreadable("id", error)
}
