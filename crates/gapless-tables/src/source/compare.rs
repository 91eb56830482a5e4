//! What a copy is compared with.

use super::page::NAMED_TABLE;
use super::{PAGE_ROWS_MAX, Source, SourceError};
use crate::digest::{Compared, params};
use crate::wire::{KeyRange, RangeDigest, RowDigest};

impl Source {
    /// How many rows a range has, and the sum of their hashes.
    pub async fn digest(&self, range: &KeyRange) -> Result<RangeDigest, SourceError> {
        self.check_range(range)?;
        let client = self.connection().await?;
        let row = client.query_one(&self.compared().sum(range), &params(range)).await.map_err(of_bounds)?;
        self.is_same(&client, &client.prepare_cached(NAMED_TABLE).await?).await?;
        Ok(RangeDigest { rows: row.try_get(0)?, digest: row.try_get(1)? })
    }

    /// The rows of a range by their hashes, in the order of their keys: at most `limit`, from 1 to [`PAGE_ROWS_MAX`].
    pub async fn row_digests(&self, range: &KeyRange, limit: u32) -> Result<Vec<RowDigest>, SourceError> {
        self.check_range(range)?;
        if !(1..=PAGE_ROWS_MAX).contains(&limit) {
            return Err(SourceError::Request(format!("`limit` must be from 1 to {PAGE_ROWS_MAX}")));
        }
        let client = self.connection().await?;
        let rows =
            client.query(&self.compared().rows(range, limit), &params(range)).await.map_err(of_bounds)?;
        self.is_same(&client, &client.prepare_cached(NAMED_TABLE).await?).await?;
        rows.iter().map(|row| Ok(RowDigest { key: row.try_get(0)?, digest: row.try_get(1)? })).collect()
    }

    fn compared(&self) -> Compared<'_> {
        Compared {
            relation: &self.table.relation,
            columns: &self.table.found.columns,
            key: &self.table.found.key,
            live: self.table.live.as_deref(),
        }
    }

    fn check_range(&self, range: &KeyRange) -> Result<(), SourceError> {
        let columns = self.table.found.key.len();
        match [&range.after, &range.up_to].into_iter().flatten().all(|key| key.len() == columns) {
            true => Ok(()),
            false => {
                Err(SourceError::Request(format!("a key has {columns} columns here; give a text for each")))
            }
        }
    }
}

/// A bound that can't be read is the asker's fault; class 22 is what PostgreSQL calls such data.
fn of_bounds(error: tokio_postgres::Error) -> SourceError {
    match error.as_db_error() {
        Some(found) if found.code().code().starts_with("22") => {
            SourceError::Request(format!("a bound isn't a key: {}", found.message()))
        }
        Some(_) | None => error.into(),
    }
}
