//! A copy in SQLite as it is compared and mended.

use std::borrow::Cow;
use std::path::PathBuf;

use async_trait::async_trait;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, Row, params_from_iter};

use super::file::{open_beside, sink_error};
use super::statements::{self, Statements};
use super::{blocking, catalog, state, texts, unprepared, writing};
use crate::digest::row_hash;
use crate::quoting::identifier;
use crate::replicate::kept::{Found, not_a_copy, outdated};
use crate::replicate::page::Values;
use crate::replicate::plan::plan;
use crate::replicate::position::Position;
use crate::replicate::run::Fault;
use crate::replicate::sink::SinkError;
use crate::verify::{CheckedCopy, Fetch};
use crate::wire::{KeyRange, RangeDigest, RowDigest, TableDescription};

/// A copy in SQLite as it is compared and mended, beside a replicator that may be filling it.
pub struct SqliteCopy {
    path: PathBuf,
    into: Option<String>,
    open: Option<Open>,
}

struct Open {
    connection: Connection,
    statements: Statements,
    /// The types of the columns at the source.
    types: Vec<String>,
    /// Reads rows, up to a `WHERE`.
    select: String,
    /// The columns of the key, quoted.
    key: Vec<String>,
}

/// Types whose values SQLite orders as PostgreSQL does.
const IN_ORDER: [&str; 5] = ["smallint", "integer", "bigint", "uuid", "bytea"];

impl SqliteCopy {
    /// Prepares to look at a copy; nothing is done yet. Without `into`, the table is called as at the source.
    pub fn new(path: PathBuf, into: Option<String>) -> Self {
        Self { path, into, open: None }
    }

    /// Does something with the open file where it disturbs nobody. If it fails, the file has to be opened again.
    async fn with_open<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Open) -> Result<T, SinkError> + Send + 'static,
    ) -> Result<T, SinkError> {
        let mut open = self.open.take().ok_or_else(unprepared)?;
        let (open, done) = blocking(move || {
            let done = work(&mut open)?;
            Ok((open, done))
        })
        .await?;
        self.open = Some(open);
        Ok(done)
    }
}

impl Open {
    fn new(connection: Connection, table: &str, description: &TableDescription) -> Self {
        let columns: Vec<String> =
            description.columns.iter().map(|column| identifier(&column.name)).collect();
        Self {
            connection,
            statements: Statements::new(table, description),
            types: description.columns.iter().map(|column| column.type_name.clone()).collect(),
            select: format!("SELECT {} FROM {}", columns.join(", "), identifier(table)),
            key: description.key.iter().map(|name| identifier(name)).collect(),
        }
    }

    /// Makes sure that it is a copy of the described table, in its present shape.
    fn check(&self, description: &TableDescription) -> Result<(), SinkError> {
        let (connection, table) = (&self.connection, &self.statements.table);
        let name = identifier(table);
        let kept = match state::is_there(connection).map_err(sink_error)? {
            true => state::read(connection, table).map_err(sink_error)?,
            false => None,
        };
        let kept = kept.ok_or_else(|| not_a_copy(&name))?;
        let existing = catalog::table(connection, table).map_err(sink_error)?;
        let forget = state::forget(table);
        let found = Found {
            name: &name,
            kept: Some(&kept),
            existing: existing.as_ref(),
            has_rows: true,
            forget: &forget,
        };
        found.check(description)?;
        match plan(&statements::wanted(description), existing.as_ref(), Some(&kept.columns))?.is_empty() {
            true => Ok(()),
            false => Err(outdated(&name)),
        }
    }

    /// Goes through the rows of a range in the order of their keys.
    fn for_each(
        &self,
        range: &KeyRange,
        limit: Option<u32>,
        mut what: impl FnMut(&Row<'_>) -> Result<(), rusqlite::Error>,
    ) -> Result<(), SinkError> {
        let key = self.key.join(", ");
        let (mut conditions, mut params) = (Vec::new(), Vec::new());
        for (how, bound) in [(">", &range.after), ("<=", &range.up_to)] {
            let Some(bound) = bound else { continue };
            params.extend(self.key_values(bound)?);
            conditions.push(format!("({key}) {how} ({})", vec!["?"; self.key.len()].join(", ")));
        }
        let conditions = if conditions.is_empty() { "true".to_owned() } else { conditions.join(" AND ") };
        let limit = limit.map(|limit| format!(" LIMIT {limit}")).unwrap_or_default();
        let sql = format!("{} WHERE {conditions} ORDER BY {key}{limit}", self.select);
        let mut statement = self.connection.prepare_cached(&sql).map_err(sink_error)?;
        let mut rows = statement.query(params_from_iter(params)).map_err(sink_error)?;
        while let Some(row) = rows.next().map_err(sink_error)? {
            what(row).map_err(sink_error)?;
        }
        Ok(())
    }

    fn digest(&self, range: &KeyRange) -> Result<RangeDigest, SinkError> {
        let (mut rows, mut sum) = (0, 0_i128);
        self.for_each(range, None, |row| {
            rows += 1;
            sum += i128::from(row_hash(&borrowed(&self.texts(row)?)));
            Ok(())
        })?;
        Ok(RangeDigest { rows, digest: sum.to_string(), up_to: None })
    }

    fn row_digests(&self, range: &KeyRange, limit: u32) -> Result<Vec<RowDigest>, SinkError> {
        let mut digests = Vec::new();
        self.for_each(range, Some(limit), |row| {
            let texts = self.texts(row)?;
            let key = self.statements.key.iter().map(|place| match &texts[*place] {
                Some(text) => String::from_utf8_lossy(text).into_owned(),
                None => String::new(),
            });
            let (key, digest) = (key.collect(), row_hash(&borrowed(&texts)).to_string());
            digests.push(RowDigest { key, digest });
            Ok(())
        })?;
        Ok(digests)
    }

    /// The rows of some keys, and the position, of one moment.
    fn look(&mut self, keys: &[Vec<String>]) -> Result<(Position, Vec<RowDigest>), SinkError> {
        self.connection.execute_batch("BEGIN").map_err(sink_error)?;
        let kept = state::read(&self.connection, &self.statements.table).map_err(sink_error)?;
        let kept = kept.ok_or_else(|| not_a_copy(&identifier(&self.statements.table)))?;
        let same: Vec<String> = self.key.iter().map(|name| format!("{name} = ?")).collect();
        let sql = format!("{} WHERE {}", self.select, same.join(" AND "));
        let mut digests = Vec::new();
        {
            let mut statement = self.connection.prepare_cached(&sql).map_err(sink_error)?;
            for key in keys {
                let params = params_from_iter(self.key_values(key)?);
                let hash = |row: &Row<'_>| Ok(row_hash(&borrowed(&self.texts(row)?)));
                if let Some(hash) = statement.query_row(params, hash).optional().map_err(sink_error)? {
                    digests.push(RowDigest { key: key.clone(), digest: hash.to_string() });
                }
            }
        }
        self.connection.execute_batch("COMMIT").map_err(sink_error)?;
        Ok((kept.position, digests))
    }

    /// The values of a key as they are kept.
    fn key_values(&self, key: &[String]) -> Result<Vec<Value>, SinkError> {
        let value = |(place, text): (&usize, &String)| {
            let (name, storage) = &self.statements.columns[*place];
            let value = storage.value(Some(text.as_bytes()));
            value.ok_or_else(|| SinkError::Failed(format!("a value of the column `{name}` can't be read")))
        };
        self.statements.key.iter().zip(key).map(value).collect()
    }

    fn texts<'a>(&self, row: &'a Row<'_>) -> Result<Vec<Option<Cow<'a, [u8]>>>, rusqlite::Error> {
        let text = |(place, type_name): (usize, &String)| Ok(texts::text(row.get_ref(place)?, type_name));
        self.types.iter().enumerate().map(text).collect()
    }
}

fn borrowed<'a>(texts: &'a [Option<Cow<'_, [u8]>>]) -> Vec<Option<&'a [u8]>> {
    texts.iter().map(Option::as_deref).collect()
}

#[async_trait]
impl CheckedCopy for SqliteCopy {
    fn values(&self) -> Values {
        Values::Text
    }

    fn is_in_order(&self, description: &TableDescription) -> bool {
        description
            .key_columns()
            .all(|column| IN_ORDER.contains(&column.type_name.as_str()) || column.is_bytewise())
    }

    async fn open(&mut self, description: &TableDescription) -> Result<(), SinkError> {
        self.open = None;
        let (path, description) = (self.path.clone(), description.clone());
        let table = self.into.clone().unwrap_or_else(|| description.source.table.clone());
        let opened = blocking(move || {
            let open = Open::new(open_beside(&path)?, &table, &description);
            open.check(&description)?;
            Ok(open)
        });
        self.open = Some(opened.await?);
        Ok(())
    }

    async fn digest(&mut self, range: &KeyRange) -> Result<RangeDigest, SinkError> {
        let range = range.clone();
        self.with_open(move |open| open.digest(&range)).await
    }

    async fn row_digests(&mut self, range: &KeyRange, rows: u32) -> Result<Vec<RowDigest>, SinkError> {
        let range = range.clone();
        self.with_open(move |open| open.row_digests(&range, rows)).await
    }

    async fn look(&mut self, keys: &[Vec<String>]) -> Result<(Position, Vec<RowDigest>), SinkError> {
        let keys = keys.to_vec();
        self.with_open(move |open| open.look(&keys)).await
    }

    async fn mend(&mut self, fetch: Fetch<'_>) -> Result<usize, Fault> {
        self.with_open(|open| open.connection.execute_batch("BEGIN IMMEDIATE").map_err(sink_error)).await?;
        let records = match fetch.await {
            Ok(records) => records,
            Err(fault) => {
                // What has been begun ends with the connection.
                self.open = None;
                return Err(fault);
            }
        };
        let mended = self.with_open(move |open| {
            writing::put(&open.connection, &open.statements, &records)?;
            state::count_repair(&open.connection, &open.statements.table).map_err(sink_error)?;
            open.connection.execute_batch("COMMIT").map_err(sink_error)?;
            Ok(records.len())
        });
        Ok(mended.await?)
    }
}
