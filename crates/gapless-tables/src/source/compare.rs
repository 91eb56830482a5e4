//! What a copy is compared with.

use tokio_postgres::types::ToSql;

use super::{PAGE_ROWS_MAX, Source, SourceError};
use crate::digest::{Compared, by_column, of_key, params};
use crate::wire::{KeyRange, RangeDigest, RowDigest};

/// The most keys of a question.
pub(crate) const KEYS_MAX: usize = 1_000;
/// The most rows of a range that is counted off.
const COUNTED_MAX: u32 = 1_000_000;

impl Source {
    /// How many rows a range has, and the sum of their hashes; with `rows`, from 1 to 1,000,000, of so many from its beginning.
    pub async fn digest(&self, range: &KeyRange, rows: Option<u32>) -> Result<RangeDigest, SourceError> {
        self.check_range(range)?;
        if rows.is_some_and(|rows| !(1..=COUNTED_MAX).contains(&rows)) {
            return Err(SourceError::Request(format!("`limit` must be from 1 to {COUNTED_MAX}")));
        }
        let _turn = self.pool.heavy_turn().await.ok_or(SourceError::Crowded)?;
        let client = self.connection().await?;
        let compared = self.compared();
        let last = match rows {
            Some(rows) => {
                let last = client.query_opt(&compared.last_of(range, rows), &params(range)).await;
                last.map_err(|error| self.of_asker(error))?
                    .map(|row| row.try_get::<_, Vec<String>>(0))
                    .transpose()?
            }
            None => None,
        };
        let range =
            KeyRange { after: range.after.clone(), up_to: last.clone().or_else(|| range.up_to.clone()) };
        let row = client
            .query_one(&compared.sum(&range), &params(&range))
            .await
            .map_err(|error| self.of_asker(error))?;
        self.is_same(&client).await?;
        Ok(RangeDigest { rows: row.try_get(0)?, digest: row.try_get(1)?, up_to: last })
    }

    /// The rows of a range by their hashes, in the order of their keys: at most `limit`, from 1 to [`PAGE_ROWS_MAX`].
    pub async fn row_digests(&self, range: &KeyRange, limit: u32) -> Result<Vec<RowDigest>, SourceError> {
        self.check_range(range)?;
        if !(1..=PAGE_ROWS_MAX).contains(&limit) {
            return Err(SourceError::Request(format!("`limit` must be from 1 to {PAGE_ROWS_MAX}")));
        }
        let _turn = self.pool.heavy_turn().await.ok_or(SourceError::Crowded)?;
        let client = self.connection().await?;
        let rows = client
            .query(&self.compared().rows(range, limit), &params(range))
            .await
            .map_err(|error| self.of_asker(error))?;
        self.is_same(&client).await?;
        rows.iter().map(|row| Ok(RowDigest { key: row.try_get(0)?, digest: row.try_get(1)? })).collect()
    }

    /// The hashes of the rows that have some keys, at most 1,000, as far as there are such, under the keys as they were asked for.
    pub async fn key_digests(&self, keys: &[Vec<String>]) -> Result<Vec<RowDigest>, SourceError> {
        self.check_keys(keys)?;
        let _turn = self.pool.heavy_turn().await.ok_or(SourceError::Crowded)?;
        let client = self.connection().await?;
        let columns = by_column(keys, self.table.found.key.len());
        let columns: Vec<_> = columns.iter().map(|column| column as &(dyn ToSql + Sync)).collect();
        let rows =
            client.query(&self.compared().of_keys(), &columns).await.map_err(|error| self.of_asker(error))?;
        self.is_same(&client).await?;
        Ok(rows.iter().filter_map(|row| of_key(row, keys)).collect())
    }

    pub(super) fn check_keys(&self, keys: &[Vec<String>]) -> Result<(), SourceError> {
        let columns = self.table.found.key.len();
        if keys.is_empty() || keys.len() > KEYS_MAX {
            return Err(SourceError::Request(format!("`keys` must be from 1 to {KEYS_MAX}")));
        }
        keys.iter().try_for_each(|key| check_key(key, columns))
    }

    pub(super) fn compared(&self) -> Compared<'_> {
        Compared {
            relation: &self.table.relation,
            columns: &self.table.found.columns,
            key: &self.table.found.key,
            live: self.table.live.as_deref(),
        }
    }

    fn check_range(&self, range: &KeyRange) -> Result<(), SourceError> {
        let columns = self.table.found.key.len();
        [&range.after, &range.up_to].into_iter().flatten().try_for_each(|key| check_key(key, columns))
    }

    /// A key that can't be read is the asker's fault; class 22 is what PostgreSQL calls such data.
    pub(super) fn of_asker(&self, error: tokio_postgres::Error) -> SourceError {
        match error.as_db_error() {
            Some(found) if found.code().code().starts_with("22") => {
                SourceError::Request(format!("that isn't a key: {}", found.message()))
            }
            Some(_) | None => self.refused(error),
        }
    }
}

fn check_key(key: &[String], columns: usize) -> Result<(), SourceError> {
    match key.len() == columns {
        true => Ok(()),
        false => Err(SourceError::Request(format!("a key has {columns} columns here; give a text for each"))),
    }
}
