//! Reads a table, page by page.

use std::fmt;
use std::time::{Duration, SystemTime};

use deadpool_postgres::{Object, PoolError};
use futures_util::TryStreamExt as _;
use gapless_core::{Mark, Place, Snapshot, TableCursor, TableStep};
use gapless_postgres::UrlError;
use tokio_postgres::{Client, Row};

use self::cursor_kind::CursorKind;
use self::declaration::DELAY_MS_DEFAULT;
use self::encoding::Encoder;
use self::pool::SourcePool;
use self::raw::Raw;
use self::statements::{LEADING, Reading, Statement, Values};
use self::table::SourceTable;
use crate::quoting::identifier;
use crate::wire::{Consistency, PageHead, TableDescription};

mod catalog;
mod compare;
mod cursor_kind;
mod declaration;
mod encoding;
pub(crate) mod install;
mod marks;
pub(crate) mod pool;
mod raw;
mod statements;
mod table;
mod token;

pub use catalog::SetupError;
pub use declaration::TableConfig;
pub use encoding::Form;
pub(crate) use table::STAMP;
pub use token::{CursorError, CursorKeys};

/// How many open transactions a cursor lists.
pub(crate) const OPEN_LISTED_MAX: usize = 512;
/// A page ends behind the row that reaches so many bytes.
const PAGE_BYTES_MAX: usize = 8 << 20;
/// The most rows of a page.
pub const PAGE_ROWS_MAX: u32 = 10_000;
const NAMED_TABLE: &str = "SELECT to_regclass($1)::oid";
/// Seconds from the Unix epoch to 2000-01-01, from which PostgreSQL counts.
const POSTGRES_EPOCH_SECONDS: u64 = 946_684_800;

/// A table that can be read.
pub struct Source {
    table: SourceTable,
    pool: SourcePool,
    keys: CursorKeys,
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// The cursor of the page before; none at the beginning.
    pub cursor: Option<String>,
    /// Without a cursor: begin with rows whose cursor column has this value or a later one, as PostgreSQL reads it.
    pub since: Option<String>,
    /// The most rows, from 1 to [`PAGE_ROWS_MAX`].
    pub limit: u32,
    /// How they are written.
    pub form: Form,
}

/// A page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// What is said about it.
    pub head: PageHead,
    /// Its rows, in the form that was asked for.
    pub rows: Vec<u8>,
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

/// What a step of a page has read.
struct Read {
    last: Option<Place>,
    rows: usize,
    is_through: bool,
    /// Whether the connection still has rows that nobody wants.
    is_cut: bool,
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
        let source = Self { table, pool, keys };
        source.settle(&client).await?;
        source.try_statement(&client).await?;
        Ok(source)
    }

    /// Sets a connection to compare keys as their types do, where that isn't a matter of PostgreSQL itself.
    async fn settle(&self, client: &Client) -> Result<(), SourceError> {
        let schemas: Vec<String> =
            self.table.found.operator_schemas.iter().map(|schema| identifier(schema)).collect();
        if !schemas.is_empty() {
            client.batch_execute(&format!("SET search_path = pg_catalog, {}", schemas.join(", "))).await?;
        }
        Ok(())
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
        self.settle(&client).await?;
        Ok(client)
    }

    /// What a copy of the table needs to be.
    pub fn description(&self) -> &TableDescription {
        &self.table.description
    }

    /// Reads a page.
    pub async fn page(&self, request: &PageRequest) -> Result<Page, SourceError> {
        if !(1..=PAGE_ROWS_MAX).contains(&request.limit) {
            return Err(SourceError::Request(format!("`limit` must be from 1 to {PAGE_ROWS_MAX}")));
        }
        let client = self.connection().await?;
        let mut cursor = match (&request.cursor, &request.since) {
            (Some(_), Some(_)) => {
                let problem =
                    "`since` is for the first page; later ones have a cursor, so leave one of them out";
                return Err(SourceError::Request(problem.to_owned()));
            }
            (Some(token), None) => self.keys.open(token, &self.table.subject)?,
            (None, Some(since)) => TableCursor::since(self.parse(&client, since).await?),
            (None, None) => TableCursor::new(),
        };
        let mut encoder = Encoder::new(request.form, &self.table.found.columns, &self.table.found.key);
        let (records, last) = self.fill(client, &mut cursor, request, &mut encoder).await?;
        let head = PageHead {
            records,
            has_more: cursor.has_more(),
            next_cursor: self.keys.seal(&self.table.subject, &cursor),
            consistency: self.table.config.consistency,
            lag_ms: if cursor.has_more() { self.lag_ms(last.as_ref()) } else { 0 },
            held_by: self.delay().map(|delay| format!("rows are read {} ms late", delay.as_millis())),
            schema_version: self.table.description.schema_version.clone(),
        };
        Ok(Page { head, rows: encoder.bytes })
    }

    /// Reads step after step until the page is full or the pass is through.
    async fn fill(
        &self,
        client: Object,
        cursor: &mut TableCursor,
        request: &PageRequest,
        encoder: &mut Encoder<'_>,
    ) -> Result<(usize, Option<Place>), SourceError> {
        let (mut records, mut last) = (0, None);
        let mut before = None;
        if matches!(cursor.step(), TableStep::Begin) || self.delay().is_some() {
            let begun = self.mark(&client, cursor.base()).await?;
            before = begun.before;
            if self.table.is_stamped()
                && cursor.base().is_some_and(|base| base.snapshot == begun.mark.snapshot)
            {
                return Ok((0, None));
            }
            if matches!(cursor.step(), TableStep::Begin) {
                cursor.begin(begun.mark);
            }
        }
        loop {
            let room = request.limit as usize - records;
            let reading = Reading {
                table: &self.table,
                values: request.form.values(),
                limit: i64::try_from(room + 1).unwrap_or(i64::MAX),
                before,
                fence: self.fence(&client, cursor.step(), before).await?,
            };
            let is_late = matches!(cursor.step(), TableStep::Late { .. });
            let Some(statement) = reading.statement(cursor.step()) else {
                cursor.handle_rows(None, true);
                continue;
            };
            // The name is asked for behind the rows: whatever it means then, it meant while they were read.
            let page = client.prepare_cached(&statement.sql).await.map_err(|error| self.refused(error))?;
            let name = client.prepare_cached(NAMED_TABLE).await?;
            let (read, same) = tokio::join!(
                biased;
                self.read(&client, &page, &statement, room, is_late, encoder),
                self.is_same(&client, &name),
            );
            let read = match same.and(read) {
                Ok(read) => read,
                Err(error) => {
                    // What it has prepared may not fit the table any more.
                    drop(Object::take(client));
                    return Err(error);
                }
            };
            records += read.rows;
            last = read.last.clone().or(last);
            match (read.is_through, reading.fence) {
                // Nothing more up to the fence; another page goes on behind it.
                (true, Some(fence)) => {
                    cursor.handle_rows(Some(fence), false);
                    return Ok((records, last));
                }
                (is_through, _) => cursor.handle_rows(read.last, is_through),
            }
            if read.is_cut {
                // The rest would have to be received before the connection could do anything else.
                drop(Object::take(client));
                return Ok((records, last));
            }
            if !read.is_through || !cursor.has_more() {
                return Ok((records, last));
            }
        }
    }

    /// Where a step ends for now, if it may look at many rows to find a few.
    async fn fence(
        &self,
        client: &Object,
        step: TableStep<'_>,
        before: Option<i64>,
    ) -> Result<Option<Place>, SourceError> {
        let Some(statement) = statements::fence(&self.table, step, before) else { return Ok(None) };
        let prepared = client.prepare_cached(&statement.sql).await?;
        let row = client.query_opt(&prepared, &statement.borrowed()).await?;
        row.map(|row| self.place(&row, false)).transpose()
    }

    async fn read(
        &self,
        client: &Object,
        prepared: &tokio_postgres::Statement,
        statement: &Statement,
        room: usize,
        is_late: bool,
        encoder: &mut Encoder<'_>,
    ) -> Result<Read, SourceError> {
        let rows = client.query_raw(prepared, statement.borrowed()).await;
        let rows = rows.map_err(|error| self.refused(error))?;
        let mut rows = std::pin::pin!(rows);
        let mut read = Read { last: None, rows: 0, is_through: true, is_cut: false };
        while let Some(row) = rows.try_next().await.map_err(|error| self.refused(error))? {
            let is_full = encoder.bytes.len() >= PAGE_BYTES_MAX;
            if read.rows == room || is_full {
                return Ok(Read { is_through: false, is_cut: is_full && read.rows < room, ..read });
            }
            let is_delete = row.try_get::<_, i16>(0)? == 1;
            encoder.write(&row, is_delete)?;
            read.rows += 1;
            read.last = Some(self.place(&row, is_late)?);
        }
        Ok(read)
    }

    /// Makes sure that the table's name still means the table that was found.
    async fn is_same(
        &self,
        client: &Object,
        prepared: &tokio_postgres::Statement,
    ) -> Result<(), SourceError> {
        let row = client.query_one(prepared, &[&self.table.relation]).await?;
        self.check_oid(row.try_get(0)?)
    }

    fn check_oid(&self, oid: Option<u32>) -> Result<(), SourceError> {
        match oid {
            Some(oid) if oid == self.table.found.oid => Ok(()),
            Some(_) => Err(SourceError::Changed("another table goes by its name now".to_owned())),
            None => Err(SourceError::Changed("it isn't there any more".to_owned())),
        }
    }

    /// Where a row is in the order of its step.
    fn place(&self, row: &Row, is_late: bool) -> Result<Place, SourceError> {
        let Raw(at) = row.try_get(1)?;
        let Raw(stamp) = row.try_get(2)?;
        let unreadable = || SourceError::Unavailable("a row has no place in the order".to_owned());
        let at = if is_late && self.table.is_stamped() {
            i64::from_be_bytes(stamp.and_then(|stamp| stamp.try_into().ok()).ok_or_else(unreadable)?)
        } else {
            at.and_then(|at| self.table.found.cursor_kind.number(at)).ok_or_else(unreadable)?
        };
        let key = (0..self.table.found.key.len()).map(|index| {
            let Raw(value) = row.try_get(LEADING + index)?;
            value.map(<[u8]>::to_vec).ok_or_else(unreadable)
        });
        Ok(Place { at, key: Some(key.collect::<Result<_, SourceError>>()?) })
    }

    fn delay(&self) -> Option<Duration> {
        (self.table.config.consistency == Consistency::BestEffort)
            .then(|| Duration::from_millis(self.table.config.delay_ms.unwrap_or(DELAY_MS_DEFAULT)))
    }

    /// How far a place is behind this machine's clock.
    fn lag_ms(&self, last: Option<&Place>) -> u64 {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = now.saturating_sub(Duration::from_secs(POSTGRES_EPOCH_SECONDS));
        let last = last.and_then(|place| self.table.found.cursor_kind.micros(place.at));
        let (Some(last), Ok(now)) = (last, i64::try_from(now.as_micros())) else { return 0 };
        u64::try_from(now.saturating_sub(last) / 1_000).unwrap_or(0)
    }

    async fn parse(&self, client: &Client, since: &str) -> Result<i64, SourceError> {
        let kind = match self.table.found.cursor_kind {
            CursorKind::Timestamptz => "timestamptz",
            CursorKind::Timestamp => "timestamp",
            CursorKind::Date => "date",
        };
        let parsed = client.query_one(&format!("SELECT $1::text::{kind}"), &[&since]).await;
        let row = parsed.map_err(|error| match error.as_db_error() {
            Some(_) => SourceError::Request(format!(
                "`since` can't be read as a {kind}; write it as in 2026-01-31T12:00:00Z"
            )),
            None => error.into(),
        })?;
        let Raw(value) = row.try_get(0)?;
        let number = value.and_then(|value| self.table.found.cursor_kind.number(value));
        number.ok_or_else(|| SourceError::Unavailable("`since` was read as nothing".to_owned()))
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
