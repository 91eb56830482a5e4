//! Values of the database to types, and what the database's errors mean.

use std::sync::Arc;

use gapless_core::{History, Interval, MembershipRow};
use gapless_proto::{
    Amount, BlockHash, BlockNumber, Body, ConvId, Entry, Epoch, Key, Kind, Seq, Timestamp, Topic, UserId,
    ValueKey,
};
use rusqlite::types::{FromSqlError, FromSqlResult, Type, ValueRef};
use rusqlite::{ErrorCode, Row};
use serde::de::DeserializeOwned;

use crate::{FeedHead, StoreError};

/// Reads the columns of a row from left to right.
pub(super) struct Columns<'row> {
    row: &'row Row<'row>,
    next: usize,
}

impl<'row> Columns<'row> {
    pub(super) fn of(row: &'row Row<'row>) -> Self {
        Self { row, next: 0 }
    }

    /// Whether the next column is NULL; doesn't move on.
    pub(super) fn is_null(&self) -> rusqlite::Result<bool> {
        Ok(self.row.get_ref(self.next)? == ValueRef::Null)
    }

    pub(super) fn seq(&mut self) -> rusqlite::Result<Seq> {
        self.read(|value| number(value, Seq::new))
    }

    pub(super) fn seq_or_null(&mut self) -> rusqlite::Result<Option<Seq>> {
        self.read(|value| unless_null(value, |value| number(value, Seq::new)))
    }

    pub(super) fn epoch(&mut self) -> rusqlite::Result<Epoch> {
        self.read(|value| number(value, Epoch::new))
    }

    pub(super) fn timestamp(&mut self) -> rusqlite::Result<Timestamp> {
        self.read(|value| number(value, Timestamp::new))
    }

    pub(super) fn count(&mut self) -> rusqlite::Result<u64> {
        self.read(|value| value.as_i64()?.try_into().map_err(invalid))
    }

    pub(super) fn flag(&mut self) -> rusqlite::Result<bool> {
        self.read(|value| Ok(value.as_i64()? != 0))
    }

    pub(super) fn conv(&mut self) -> rusqlite::Result<ConvId> {
        self.read(|value| ConvId::new(value.as_str()?).map_err(invalid))
    }

    pub(super) fn user(&mut self) -> rusqlite::Result<UserId> {
        self.read(|value| UserId::new(value.as_str()?).map_err(invalid))
    }

    pub(super) fn key_or_null(&mut self) -> rusqlite::Result<Option<Key>> {
        self.read(|value| unless_null(value, |value| Key::new(value.as_str()?).map_err(invalid)))
    }

    pub(super) fn body(&mut self) -> rusqlite::Result<Body> {
        self.read(|value| Body::from_text(value.as_str()?.to_owned()).map_err(invalid))
    }

    pub(super) fn history(&mut self) -> rusqlite::Result<History> {
        self.read(|value| {
            let name = value.as_str()?;
            History::from_name(name).ok_or_else(|| invalid(UnknownName(name.to_owned())))
        })
    }

    pub(super) fn digest(&mut self) -> rusqlite::Result<[u8; 32]> {
        self.read(|value| value.as_blob()?.try_into().map_err(invalid))
    }

    pub(super) fn block_number(&mut self) -> rusqlite::Result<BlockNumber> {
        self.read(|value| number(value, BlockNumber::new))
    }

    pub(super) fn block_number_or_null(&mut self) -> rusqlite::Result<Option<BlockNumber>> {
        self.read(|value| unless_null(value, |value| number(value, BlockNumber::new)))
    }

    pub(super) fn hash(&mut self) -> rusqlite::Result<BlockHash> {
        self.read(hash)
    }

    pub(super) fn hash_or_null(&mut self) -> rusqlite::Result<Option<BlockHash>> {
        self.read(|value| unless_null(value, hash))
    }

    /// A log's index in its block.
    pub(super) fn log(&mut self) -> rusqlite::Result<u32> {
        self.read(|value| value.as_i64()?.try_into().map_err(invalid))
    }

    pub(super) fn topic(&mut self) -> rusqlite::Result<Topic> {
        self.read(|value| Topic::new(value.as_str()?).map_err(invalid))
    }

    pub(super) fn value_key(&mut self) -> rusqlite::Result<ValueKey> {
        self.read(|value| ValueKey::new(value.as_str()?).map_err(invalid))
    }

    /// What stands in a column as JSON.
    pub(super) fn json<T: DeserializeOwned>(&mut self) -> rusqlite::Result<T> {
        self.read(|value| serde_json::from_str(value.as_str()?).map_err(invalid))
    }

    pub(super) fn amount_or_null(&mut self) -> rusqlite::Result<Option<Amount>> {
        self.read(|value| unless_null(value, |value| value.as_str()?.parse().map_err(invalid)))
    }

    /// `epoch, head, members`.
    pub(super) fn feed_head(&mut self) -> rusqlite::Result<FeedHead> {
        Ok(FeedHead { epoch: self.epoch()?, head: self.seq()?, members: self.count()? })
    }

    /// `from_seq, to_seq`.
    pub(super) fn interval(&mut self) -> rusqlite::Result<Interval> {
        Ok(Interval { from: self.seq()?, to: self.seq_or_null()? })
    }

    /// `from_seq, to_seq, joined_seq, left_by_themselves`.
    pub(super) fn membership(&mut self) -> rusqlite::Result<MembershipRow> {
        Ok(MembershipRow { visible: self.interval()?, joined: self.seq()?, left_by_themselves: self.flag()? })
    }

    /// `seq, kind, sender, key, ts, body`.
    pub(super) fn entry(&mut self) -> rusqlite::Result<Entry> {
        Ok(Entry {
            seq: self.seq()?,
            kind: self.read(|value| Ok(Kind::from_name(value.as_str()?)))?,
            sender: self.user()?,
            key: self.key_or_null()?,
            ts: self.timestamp()?,
            body: self.body()?,
        })
    }

    fn read<T>(&mut self, read: impl FnOnce(ValueRef<'row>) -> FromSqlResult<T>) -> rusqlite::Result<T> {
        let column = self.next;
        self.next += 1;
        let value = self.row.get_ref(column)?;
        read(value).map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(column, value.data_type(), Box::new(error))
        })
    }
}

/// A number of the protocol, which is at most 2⁵³ − 1, as the database has it.
pub(super) fn integer(number: u64) -> i64 {
    number.cast_signed()
}

fn number<T, E>(value: ValueRef<'_>, make: impl FnOnce(u64) -> Result<T, E>) -> FromSqlResult<T>
where
    E: std::error::Error + Send + Sync + 'static,
{
    let number = value.as_i64()?;
    make(number.try_into().map_err(invalid)?).map_err(invalid)
}

fn hash(value: ValueRef<'_>) -> FromSqlResult<BlockHash> {
    Ok(BlockHash(value.as_blob()?.try_into().map_err(invalid)?))
}

fn unless_null<'row, T>(
    value: ValueRef<'row>,
    read: impl FnOnce(ValueRef<'row>) -> FromSqlResult<T>,
) -> FromSqlResult<Option<T>> {
    match value.data_type() {
        Type::Null => Ok(None),
        Type::Integer | Type::Real | Type::Text | Type::Blob => read(value).map(Some),
    }
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> FromSqlError {
    FromSqlError::Other(Box::new(error))
}

/// A name of a closed set that isn't in it.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is no name that this version knows")]
struct UnknownName(String);

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        let is_passing = is_passing(&error);
        of(Arc::new(error), is_passing)
    }
}

/// The same error for everyone whose append was in a failed commit.
pub(super) fn for_each(error: &Arc<rusqlite::Error>) -> StoreError {
    of(Arc::clone(error), is_passing(error))
}

fn of(error: Arc<rusqlite::Error>, is_passing: bool) -> StoreError {
    if is_passing { StoreError::Unreachable(Box::new(error)) } else { StoreError::Broken(Box::new(error)) }
}

/// Whether the database may work again by itself: the disk was full, a lock was held, the machine had no memory left.
fn is_passing(error: &rusqlite::Error) -> bool {
    match error.sqlite_error_code() {
        Some(
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::DiskFull
            | ErrorCode::SystemIoFailure
            | ErrorCode::CannotOpen
            | ErrorCode::ReadOnly
            | ErrorCode::PermissionDenied
            | ErrorCode::OutOfMemory
            | ErrorCode::OperationAborted
            | ErrorCode::OperationInterrupted
            | ErrorCode::FileLockingProtocolFailed,
        ) => true,
        Some(_) | None => false,
    }
}
