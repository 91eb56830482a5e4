//! A table that can be read: how it is looked up, and why it may not be.

use std::fmt;
use std::time::Duration;

use deadpool_postgres::{Object, PoolError};
use gapless_core::{Mark, Snapshot, TableCursor};
use gapless_postgres::UrlError;
use tokio_postgres::Client;

use self::declaration::DELAY_MS_DEFAULT;
use self::pool::SourcePool;
use self::statements::{Reading, Values};
use self::table::SourceTable;
use crate::wire::{Consistency, TableDescription};

mod behind;
mod catalog;
mod changes;
mod compare;
mod cursor_kind;
mod declaration;
mod encoding;
pub(crate) mod install;
mod marks;
mod page;
pub(crate) mod pool;
pub(crate) mod purge;
mod raw;
mod rows;
mod statements;
mod table;
mod texts;
mod token;

pub use catalog::SetupError;
pub use changes::{Change, Changes};
pub use declaration::TableConfig;
pub use encoding::Form;
pub use marks::Moment;
pub use page::{PAGE_ROWS_MAX, Page, PageRequest};
pub use rows::KeyedRows;
pub(crate) use table::STAMP;
pub use token::{CursorError, CursorKeys};

/// How many open transactions a cursor lists.
pub(crate) const OPEN_LISTED_MAX: usize = 512;

/// A table that can be read.
pub struct Source {
    table: SourceTable,
    pool: SourcePool,
    keys: CursorKeys,
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The cursor can't be used.
    #[error(transparent)]
    Cursor(#[from] CursorError),
    /// What was asked for makes no sense.
    #[error("{0}")]
    Request(String),
    /// The table isn't as it was found.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The table was changed since it was looked up, so that it has to be looked up again.
    #[error("the table was changed: {0}")]
    Changed(String),
    /// All connections to the source are in use.
    #[error("all connections to the source are in use; ask again later")]
    Crowded,
    /// The source can't be reached, or doesn't answer as it should.
    #[error("the source can't be asked at the moment: {0}")]
    Unavailable(String),
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("table", &self.table.config.name).finish_non_exhaustive()
    }
}

impl Source {
    /// Looks a table up, and makes sure that it can be read as it is declared.
    pub async fn open(
        url: &str,
        connections: usize,
        config: TableConfig,
        keys: CursorKeys,
    ) -> Result<Self, OpenError> {
        Ok(Self::find(SourcePool::new(url, connections)?, config, keys).await?)
    }

    pub(crate) async fn find(
        pool: SourcePool,
        config: TableConfig,
        keys: CursorKeys,
    ) -> Result<Self, SourceError> {
        let client = pool.get().await?;
        let found = catalog::find(&client, &config).await?;
        let table = SourceTable::new(config, found);
        install::check(&client, &table).await?;
        let pool = pool.comparing(&table.found.operator_schemas);
        // Whoever has one waits for no other.
        drop(client);
        let source = Self { table, pool, keys };
        source.try_statement(&*source.pool.get().await?).await?;
        Ok(source)
    }

    /// Reads nothing, to learn whether the filter makes sense and the role may read.
    async fn try_statement(&self, client: &Client) -> Result<(), SourceError> {
        let reading =
            Reading { table: &self.table, values: Values::Text, limit: 0, before: None, fence: None };
        let mut cursor = TableCursor::since(0);
        cursor.begin(Mark { snapshot: Snapshot::default(), oldest_start: None });
        let Some(statement) = reading.statement(cursor.step()) else { return Ok(()) };
        match client.query(&statement.sql, &statement.borrowed()).await {
            Ok(_) => Ok(()),
            Err(error) => {
                let refused = self.refused(error);
                let SourceError::Changed(reason) = refused else { return Err(refused) };
                Err(self.unreadable(&reason))
            }
        }
    }

    /// What it means that the database doesn't read rows.
    fn refused(&self, error: tokio_postgres::Error) -> SourceError {
        let Some(refusal) = error.as_db_error() else { return error.into() };
        match refusal.code().code().get(..2) {
            // A value that the filter stumbles over.
            Some("22") => self.unreadable(refusal.message()),
            // A column, right or operator that isn't there, or not any more.
            Some("42" | "0A" | "3F") => SourceError::Changed(refusal.message().to_owned()),
            _ => error.into(),
        }
    }

    fn unreadable(&self, reason: &str) -> SourceError {
        let problem = format!("its rows can't be read: {reason}; mend that");
        SetupError::Wrong { table: self.table.config.name.clone(), problem }.into()
    }

    /// A connection, if it still leads to where the table was found.
    async fn connection(&self) -> Result<Object, SourceError> {
        let client = self.pool.get().await?;
        if self.pool.cluster() != Some(self.table.found.cluster) {
            return Err(SourceError::Changed("the database was replaced by another".to_owned()));
        }
        Ok(client)
    }

    /// What a copy of the table needs to be.
    pub fn description(&self) -> &TableDescription {
        &self.table.description
    }

    fn check_oid(&self, oid: Option<u32>) -> Result<(), SourceError> {
        match oid {
            Some(oid) if oid == self.table.found.oid => Ok(()),
            Some(_) => Err(SourceError::Changed("another table goes by its name now".to_owned())),
            None => Err(SourceError::Changed("it isn't there any more".to_owned())),
        }
    }

    fn delay(&self) -> Option<Duration> {
        (self.table.config.consistency == Consistency::BestEffort)
            .then(|| Duration::from_millis(self.table.config.delay_ms.unwrap_or(DELAY_MS_DEFAULT)))
    }
}

/// Why a table can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL can't be used.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The table can't be read.
    #[error(transparent)]
    Source(#[from] SourceError),
}

impl From<PoolError> for SourceError {
    fn from(error: PoolError) -> Self {
        if pool::is_crowded(&error) { Self::Crowded } else { Self::Unavailable(error.to_string()) }
    }
}

impl From<tokio_postgres::Error> for SourceError {
    fn from(error: tokio_postgres::Error) -> Self {
        let text = error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned());
        Self::Unavailable(text)
    }
}
