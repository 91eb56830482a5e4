//! Changes of a table one by one, each with the cursor behind it, for those who are told of them.

use deadpool_postgres::Object;
use gapless_core::TableCursor;
use gapless_postgres::Bell;
use sha2::{Digest as _, Sha256};

use super::encoding::Form;
use super::marks::Moment;
use super::page::{Filling, Passed};
use super::raw::Raw;
use super::table::CHANNEL_PREFIX;
use super::{CursorError, Source, SourceError};
use crate::quoting::identifier;

/// Changes end behind the one that reaches so many bytes: they are kept for each reader who is behind until it takes them.
const CHANGES_BYTES_MAX: usize = 2 << 20;

/// A change of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What happened, as a record of a page in JSON, on one line.
    pub record: String,
    /// Where its reader is behind it.
    pub cursor: String,
    /// Of which row: a digest of its key.
    pub key: [u8; 32],
}

/// Changes in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes {
    /// The changes.
    pub changes: Vec<Change>,
    /// Where their reader is then.
    pub cursor: String,
    /// Whether there is more at once.
    pub has_more: bool,
    /// The moment of the pass that has begun with them, if one has.
    pub began: Option<Moment>,
}

impl Source {
    /// The cursor of a reader who has nothing yet.
    pub fn beginning(&self) -> String {
        self.seal(&TableCursor::new())
    }

    /// The cursor of a reader who wants what is committed from now on, and the moment it is of.
    pub async fn newest(&self) -> Result<(String, Moment), SourceError> {
        let client = self.connection().await?;
        let moment = self.moment(&client, None).await?;
        let at = match moment.before {
            Some(before) => before,
            None => self.newest_at(&client).await?.unwrap_or(i64::MIN),
        };
        Ok((self.seal(&TableCursor::newest(moment.mark.clone(), at)), moment))
    }

    /// Says what is wrong with a cursor, if something is.
    pub fn check_cursor(&self, cursor: &str) -> Result<(), CursorError> {
        self.keys.open(cursor, &self.table.subject).map(|_| ())
    }

    /// Reads the changes behind a cursor, at most so many. If a pass begins with them, it is of the moment `up_to`, or of now.
    pub async fn changes(
        &self,
        cursor: &str,
        limit: u32,
        up_to: Option<Moment>,
    ) -> Result<Changes, SourceError> {
        let mut cursor = self.keys.open(cursor, &self.table.subject)?;
        let client = self.connection().await?;
        let mut filling = Filling::new(self, Form::Lines, limit.max(1) as usize);
        filling.bytes_max = CHANGES_BYTES_MAX;
        filling.up_to = up_to;
        filling.trail = Some(Vec::new());
        self.fill(client, &mut cursor, &mut filling).await?;
        let sealed = self.seal(&cursor);
        let lines = String::from_utf8(filling.encoder.bytes);
        let lines = lines.map_err(|_| SourceError::Unavailable("a row isn't UTF-8".to_owned()))?;
        let trail = filling.trail.unwrap_or_default();
        let mut changes = Vec::with_capacity(trail.len());
        let mut start = 0;
        for Passed { end, key, reader } in trail {
            let record = lines[start..end].trim_end().to_owned();
            changes.push(Change { record, cursor: self.seal(&reader), key });
            start = end;
        }
        if let (Some(last), false) = (changes.last_mut(), cursor.has_more()) {
            last.cursor.clone_from(&sealed);
        }
        let began = filling.up_to.filter(|_| filling.has_begun);
        Ok(Changes { changes, cursor: sealed, has_more: cursor.has_more(), began })
    }

    /// Hears when a commit has changed the table, where that is announced.
    pub async fn listen(&self) -> Result<Option<Bell>, SourceError> {
        if !self.table.config.notify {
            return Ok(None);
        }
        let channel = format!("{CHANNEL_PREFIX}{}", self.table.found.oid);
        Ok(Some(self.pool.listen(&channel).await?))
    }

    /// Whether the reader who holds a cursor may begin a pass of a moment: whether it isn't earlier than their last.
    pub fn may_begin(&self, cursor: &str, moment: &Moment) -> Result<bool, CursorError> {
        let cursor = self.keys.open(cursor, &self.table.subject)?;
        let is_later = match (moment.before, cursor.reached_at()) {
            (Some(before), Some(reached)) => reached <= before,
            (Some(_) | None, _) => true,
        };
        Ok(is_later && cursor.may_begin(&moment.mark))
    }

    /// The greatest value of the cursor column.
    async fn newest_at(&self, client: &Object) -> Result<Option<i64>, SourceError> {
        let (relation, cursor) = (&self.table.relation, identifier(&self.table.found.cursor.name));
        let sql = format!("SELECT t.{cursor} FROM {relation} t ORDER BY t.{cursor} DESC LIMIT 1");
        let row = client.query_opt(&client.prepare_cached(&sql).await?, &[]).await;
        let Some(row) = row.map_err(|error| self.refused(error))? else { return Ok(None) };
        let Raw(at) = row.try_get(0)?;
        Ok(at.and_then(|at| self.table.found.cursor_kind.number(at)))
    }

    fn seal(&self, cursor: &TableCursor) -> String {
        self.keys.seal(&self.table.subject, cursor)
    }
}

/// Names a row by its key, whatever its columns are.
pub(super) fn key_digest(key: &[Vec<u8>]) -> [u8; 32] {
    let mut digest = Sha256::new();
    for value in key {
        digest.update((value.len() as u64).to_be_bytes());
        digest.update(value);
    }
    digest.finalize().into()
}
