//! A copy in PostgreSQL as it is compared and mended.

use async_trait::async_trait;
use gapless_postgres::{Connector, UrlError};
use tokio::task::JoinHandle;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, IsolationLevel};

use super::errors::sink_error;
use super::statements::{Statements, Way};
use super::writing::Prepared;
use super::{SESSION, catalog, ddl, state};
use crate::digest::{Compared, TEXTS, by_column, of_key, params};
use crate::quoting::qualified;
use crate::replicate::kept::{Found, Kept, not_a_copy, outdated};
use crate::replicate::page::Values;
use crate::replicate::plan::plan;
use crate::replicate::position::Position;
use crate::replicate::run::Fault;
use crate::replicate::sink::SinkError;
use crate::verify::{CheckedCopy, Fetch};
use crate::wire::{Column, KeyRange, RangeDigest, RowDigest, SourceName, TableDescription};

/// A copy in PostgreSQL as it is compared and mended, beside a replicator that may be filling it.
pub struct PostgresCopy {
    connector: Connector,
    into: Option<SourceName>,
    open: Option<Open>,
}

/// A connection to the copy.
struct Open {
    client: Client,
    driver: JoinHandle<()>,
    name: SourceName,
    relation: String,
    description: TableDescription,
    key: Vec<Column>,
    /// Made when it is first needed.
    prepared: Option<Prepared>,
}

/// The first words of types whose values have the same order in each database.
const IN_ORDER: [&str; 13] = [
    "smallint",
    "integer",
    "bigint",
    "numeric",
    "real",
    "double",
    "boolean",
    "uuid",
    "bytea",
    "date",
    "time",
    "timestamp",
    "inet",
];

impl PostgresCopy {
    /// Prepares to look at a copy; nothing is asked yet. Without `into`, the table is called as at the source.
    pub fn new(url: &str, into: Option<SourceName>) -> Result<Self, UrlError> {
        Ok(Self { connector: Connector::new(url)?.writing(), into, open: None })
    }

    fn opened(&mut self) -> Result<&mut Open, SinkError> {
        self.open.as_mut().ok_or_else(|| SinkError::Unavailable("it has to be opened first".to_owned()))
    }
}

impl Open {
    fn compared(&self) -> Compared<'_> {
        Compared { relation: &self.relation, columns: &self.description.columns, key: &self.key, live: None }
    }

    /// Makes sure that it is a copy of the described table, in its present shape.
    async fn check(&mut self) -> Result<(), SinkError> {
        let Self { client, name, relation, description, .. } = self;
        let transaction = client.transaction().await.map_err(sink_error)?;
        let kept = match state::is_there(&transaction, &name.schema).await.map_err(sink_error)? {
            true => state::read(&transaction, name).await.map_err(sink_error)?,
            false => None,
        };
        let kept = kept.ok_or_else(|| not_a_copy(relation))?;
        let existing = catalog::table(&transaction, name).await.map_err(sink_error)?;
        let forget = state::forget(name);
        let found = Found {
            name: relation,
            kept: Some(&kept),
            existing: existing.as_ref(),
            has_rows: true,
            forget: &forget,
        };
        found.check(description)?;
        match plan(&ddl::wanted(description), existing.as_ref(), Some(&kept.columns))?.is_empty() {
            true => Ok(()),
            false => Err(outdated(relation)),
        }
    }

    async fn mend(&mut self, fetch: Fetch<'_>) -> Result<usize, Fault> {
        if self.prepared.is_none() {
            let statements = Statements::new(&self.name, &self.description);
            self.prepared = Some(Prepared::new(&self.client, statements).await.map_err(sink_error)?);
        }
        let Self { client, name, relation, prepared: Some(prepared), .. } = self else {
            return Ok(0);
        };
        let transaction = client.transaction().await.map_err(sink_error)?;
        let kept = state::lock(&transaction, name).await.map_err(sink_error)?;
        kept.ok_or_else(|| not_a_copy(relation))?;
        let records = fetch.await?;
        // Two keys may be those of one row.
        prepared.put(&transaction, Way::Merged, &records).await.map_err(sink_error)?;
        state::count_repair(&transaction, name).await.map_err(sink_error)?;
        transaction.commit().await.map_err(sink_error)?;
        Ok(records.len())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

#[async_trait]
impl CheckedCopy for PostgresCopy {
    fn values(&self) -> Values {
        Values::Binary
    }

    fn is_in_order(&self, description: &TableDescription) -> bool {
        description.key_columns().all(|column| {
            let first_word = column.type_name.split([' ', '(']).next().unwrap_or_default();
            IN_ORDER.contains(&first_word) || column.is_bytewise()
        })
    }

    async fn open(&mut self, description: &TableDescription) -> Result<(), SinkError> {
        self.open = None;
        let name = self.into.clone().unwrap_or_else(|| description.source.clone());
        let (client, driver) = self.connector.connect().await.map_err(sink_error)?;
        client.batch_execute(SESSION).await.map_err(sink_error)?;
        client.batch_execute(TEXTS).await.map_err(sink_error)?;
        let mut open = Open {
            client,
            driver,
            relation: qualified(&name.schema, &name.table),
            name,
            key: description.key_columns().cloned().collect(),
            description: description.clone(),
            prepared: None,
        };
        open.check().await?;
        self.open = Some(open);
        Ok(())
    }

    async fn digest(&mut self, range: &KeyRange) -> Result<RangeDigest, SinkError> {
        let open = self.opened()?;
        let row = open.client.query_one(&open.compared().sum(range), &params(range)).await;
        let row = row.map_err(sink_error)?;
        Ok(RangeDigest { rows: row.get(0), digest: row.get(1), up_to: None })
    }

    async fn row_digests(&mut self, range: &KeyRange, rows: u32) -> Result<Vec<RowDigest>, SinkError> {
        let open = self.opened()?;
        let rows = open.client.query(&open.compared().rows(range, rows), &params(range)).await;
        Ok(rows
            .map_err(sink_error)?
            .iter()
            .map(|row| RowDigest { key: row.get(0), digest: row.get(1) })
            .collect())
    }

    async fn look(&mut self, keys: &[Vec<String>]) -> Result<(Position, Vec<RowDigest>), SinkError> {
        let open = self.opened()?;
        let sql = open.compared().of_keys();
        let columns = by_column(keys, open.key.len());
        let columns: Vec<_> = columns.iter().map(|column| column as &(dyn ToSql + Sync)).collect();
        let relation = open.relation.clone();
        let begun = open.client.build_transaction();
        let begun = begun.isolation_level(IsolationLevel::RepeatableRead).read_only(true).start().await;
        let transaction = begun.map_err(sink_error)?;
        let Kept { position, .. } = state::read(&transaction, &open.name)
            .await
            .map_err(sink_error)?
            .ok_or_else(|| not_a_copy(&relation))?;
        let rows = transaction.query(&sql, &columns).await.map_err(sink_error)?;
        transaction.commit().await.map_err(sink_error)?;
        Ok((position, rows.iter().filter_map(|row| of_key(row, keys)).collect()))
    }

    async fn mend(&mut self, fetch: Fetch<'_>) -> Result<usize, Fault> {
        // One that fails is given up, and with it whatever it has begun.
        let mut open =
            self.open.take().ok_or_else(|| SinkError::Unavailable("it has to be opened first".to_owned()))?;
        let mended = open.mend(fetch).await?;
        self.open = Some(open);
        Ok(mended)
    }
}
