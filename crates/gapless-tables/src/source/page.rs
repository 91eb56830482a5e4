//! Reads a page.

use std::time::{Duration, SystemTime};

use deadpool_postgres::Object;
use futures_util::TryStreamExt as _;
use gapless_core::{Place, StepEnd, TableCursor, TableStep};
use tokio_postgres::{Client, Row};

use super::changes::key_digest;
use super::encoding::{Encoder, Form};
use super::marks::Moment;
use super::raw::Raw;
use super::statements::{self, LEADING, Reading, Statement};
use super::{Source, SourceError, behind};
use crate::wire::PageHead;

/// A page ends behind the row that reaches so many bytes.
pub(super) const PAGE_BYTES_MAX: usize = 8 << 20;
/// The longest key that a cursor names. An index takes longer ones only if they can be compressed.
const KEY_BYTES_MAX: usize = 4 << 10;
/// The most rows of a page.
pub const PAGE_ROWS_MAX: u32 = 10_000;
/// Seconds from the Unix epoch to 2000-01-01, from which PostgreSQL counts.
const POSTGRES_EPOCH_SECONDS: u64 = 946_684_800;

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

/// A page that is being filled.
pub(super) struct Filling<'a> {
    pub(super) encoder: Encoder<'a>,
    /// The most rows.
    limit: usize,
    /// It ends behind the row that reaches so many bytes.
    pub(super) bytes_max: usize,
    /// The moment of the pass that begins, if one does; left out, it is the present one.
    pub(super) up_to: Option<Moment>,
    /// Whether a pass has begun.
    pub(super) has_begun: bool,
    records: usize,
    /// The cursor column of the last row, whatever order the rows came in.
    last_at: Option<i64>,
    /// The rows one by one, for those who want that.
    pub(super) trail: Option<Vec<Passed>>,
}

/// A row of a page.
pub(super) struct Passed {
    /// Where it ends.
    pub(super) end: usize,
    /// A digest of its key.
    pub(super) key: [u8; 32],
    /// Where the reader is behind it.
    pub(super) reader: TableCursor,
}

impl<'a> Filling<'a> {
    pub(super) fn new(source: &'a Source, form: Form, limit: usize) -> Self {
        Self {
            encoder: Encoder::new(form, &source.table.found.columns, &source.table.found.key),
            limit,
            bytes_max: PAGE_BYTES_MAX,
            up_to: None,
            has_begun: false,
            records: 0,
            last_at: None,
            trail: None,
        }
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
        let mut filling = Filling::new(self, request.form, request.limit as usize);
        self.fill(client, &mut cursor, &mut filling).await?;
        let Filling { records, last_at, encoder, .. } = filling;
        let head = PageHead {
            records,
            has_more: cursor.has_more(),
            next_cursor: self.keys.seal(&self.table.subject, &cursor),
            consistency: self.table.config.consistency,
            lag_ms: if cursor.has_more() { self.lag_ms(last_at) } else { 0 },
            held_by: self.delay().map(|delay| format!("rows are read {} ms late", delay.as_millis())),
            schema_version: self.table.description.schema_version.clone(),
        };
        Ok(Page { head, rows: encoder.bytes })
    }

    /// Reads step after step until the page is full or the pass is through.
    pub(super) async fn fill(
        &self,
        client: Object,
        cursor: &mut TableCursor,
        filling: &mut Filling<'_>,
    ) -> Result<(), SourceError> {
        let mut before = None;
        if matches!(cursor.step(), TableStep::Begin) || self.delay().is_some() {
            let moment = match &filling.up_to {
                Some(moment) => moment.clone(),
                None => self.moment(&client, cursor.base()).await?,
            };
            before = moment.before;
            if matches!(cursor.step(), TableStep::Begin) {
                filling.has_begun = true;
                if self.table.is_stamped() && cursor.is_through_at(&moment.mark) {
                    filling.up_to = Some(moment);
                    return Ok(());
                }
                cursor.begin(moment.mark.clone());
            }
            filling.up_to = Some(moment);
        }
        loop {
            let room = filling.limit - filling.records;
            let reading = Reading {
                table: &self.table,
                values: filling.encoder.form().values(),
                limit: i64::try_from(room + 1).unwrap_or(i64::MAX),
                before,
                fence: self.fence(&client, cursor.step(), before).await?,
            };
            let Some(statement) = reading.statement(cursor.step()) else {
                if cursor.handle_rows(None, StepEnd::Through) {
                    return Ok(());
                }
                continue;
            };
            // Asked behind the rows, so that whatever it tells held while they were read.
            let page = client.prepare_cached(&statement.sql).await.map_err(|error| self.refused(error))?;
            let behind = client.prepare_cached(&behind::statement(&self.table)).await;
            let behind = behind.map_err(|error| self.refused(error))?;
            let (read, checked) = tokio::join!(
                biased;
                self.read(&client, &page, &statement, room, cursor, filling),
                self.check_behind(&client, &behind, cursor),
            );
            let read = match checked.and(read) {
                Ok(read) => read,
                Err(error) => {
                    // What it has prepared may not fit the table any more.
                    drop(Object::take(client));
                    return Err(error);
                }
            };
            filling.records += read.rows;
            let end = match (read.is_through, reading.fence) {
                (false, _) => StepEnd::Full,
                (true, Some(fence)) => StepEnd::Fence(fence),
                (true, None) => StepEnd::Through,
            };
            let is_page_done = cursor.handle_rows(read.last, end);
            if read.is_cut {
                // The rest would have to be received before the connection could do anything else.
                drop(Object::take(client));
                return Ok(());
            }
            if is_page_done {
                return Ok(());
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
        cursor: &TableCursor,
        filling: &mut Filling<'_>,
    ) -> Result<Read, SourceError> {
        let is_late = matches!(cursor.step(), TableStep::Late { .. });
        let rows = client.query_raw(prepared, statement.borrowed()).await;
        let rows = rows.map_err(|error| self.refused(error))?;
        let mut rows = std::pin::pin!(rows);
        let mut read = Read { last: None, rows: 0, is_through: true, is_cut: false };
        let mut last = None;
        while let Some(row) = rows.try_next().await.map_err(|error| self.refused(error))? {
            let is_full = filling.encoder.bytes.len() >= filling.bytes_max;
            if read.rows == room || is_full {
                read.is_through = false;
                read.is_cut = is_full && read.rows < room;
                break;
            }
            let is_delete = row.try_get::<_, i16>(0)? == 1;
            filling.encoder.write(&row, is_delete)?;
            read.rows += 1;
            if let Some(trail) = &mut filling.trail {
                let place = self.place(&row, is_late)?;
                let mut reader = cursor.clone();
                reader.handle_rows(Some(place.clone()), StepEnd::Full);
                let key = key_digest(place.key.as_deref().unwrap_or_default());
                trail.push(Passed { end: filling.encoder.bytes.len(), key, reader });
            }
            last = Some(row);
        }
        if let Some(row) = last {
            filling.last_at = Some(self.at(&row)?);
            read.last = Some(self.place(&row, is_late)?);
        }
        Ok(read)
    }

    /// The cursor column of a row.
    fn at(&self, row: &Row) -> Result<i64, SourceError> {
        let Raw(at) = row.try_get(1)?;
        at.and_then(|at| self.table.found.cursor_kind.number(at)).ok_or_else(unreadable)
    }

    /// Where a row is in the order of its step.
    fn place(&self, row: &Row, is_late: bool) -> Result<Place, SourceError> {
        let Raw(stamp) = row.try_get(2)?;
        let at = if is_late && self.table.is_stamped() {
            i64::from_be_bytes(stamp.and_then(|stamp| stamp.try_into().ok()).ok_or_else(unreadable)?)
        } else {
            self.at(row)?
        };
        let key = (0..self.table.found.key.len()).map(|index| {
            let Raw(value) = row.try_get(LEADING + index)?;
            value.map(<[u8]>::to_vec).ok_or_else(unreadable)
        });
        let key: Vec<Vec<u8>> = key.collect::<Result<_, SourceError>>()?;
        let bytes: usize = key.iter().map(Vec::len).sum();
        if bytes > KEY_BYTES_MAX {
            let problem =
                format!("a row's key has {bytes} bytes, and cursors name keys of at most {KEY_BYTES_MAX}");
            return Err(SourceError::Unavailable(problem));
        }
        Ok(Place { at, key: Some(key) })
    }

    /// How far a value of the cursor column is behind this machine's clock.
    fn lag_ms(&self, last_at: Option<i64>) -> u64 {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = now.saturating_sub(Duration::from_secs(POSTGRES_EPOCH_SECONDS));
        let last = last_at.and_then(|at| self.table.found.cursor_kind.micros(at));
        let (Some(last), Ok(now)) = (last, i64::try_from(now.as_micros())) else { return 0 };
        u64::try_from(now.saturating_sub(last) / 1_000).unwrap_or(0)
    }

    async fn parse(&self, client: &Client, since: &str) -> Result<i64, SourceError> {
        let kind = self.table.found.cursor_kind.name();
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

fn unreadable() -> SourceError {
    SourceError::Unavailable("a row has no place in the order".to_owned())
}
