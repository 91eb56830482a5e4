//! A copy in SQLite.

use async_trait::async_trait;
use rusqlite::Connection;

pub use self::copy::SqliteCopy;
pub use self::file::SqliteFile;
use self::statements::Statements;
use super::page::{Page, Values};
use super::position::Position;
use super::sink::{Sink, SinkError};
use crate::wire::TableDescription;

mod catalog;
mod copy;
mod file;
mod state;
mod statements;
mod storage;
mod texts;
mod writing;

/// A copy in SQLite: a table whose values are exact, and its position in the table `gapless_replica` of the same file.
pub struct SqliteSink {
    file: SqliteFile,
    /// Where rows come from, for people.
    origin: String,
    into: Option<String>,
    open: Option<Open>,
}

/// An open file, and the table in it.
struct Open {
    connection: Connection,
    statements: Statements,
}

impl SqliteSink {
    /// Prepares to write into a file; nothing is done yet. Without `into`, the table is called as at the source.
    pub fn new(file: SqliteFile, into: Option<String>, origin: &str) -> Self {
        Self { file, origin: origin.to_owned(), into, open: None }
    }

    /// Does something with the open file where it disturbs nobody. If it fails, the file has to be prepared again.
    async fn with_open<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Open) -> Result<T, SinkError> + Send + 'static,
    ) -> Result<T, SinkError> {
        let mut open = self.open.take().ok_or_else(unprepared)?;
        let (open, done) = blocking(move || {
            let done = work(&mut open);
            Ok((open, done))
        })
        .await?;
        if done.is_ok() {
            self.open = Some(open);
        }
        done
    }
}

#[async_trait]
impl Sink for SqliteSink {
    fn values(&self) -> Values {
        Values::Text
    }

    async fn prepare(&mut self, description: &TableDescription) -> Result<Position, SinkError> {
        let (file, origin, description) = (self.file.clone(), self.origin.clone(), description.clone());
        let table = self.into.clone().unwrap_or_else(|| description.source.table.clone());
        // A file that is open already would wait for itself.
        self.open = None;
        let (open, position) = blocking(move || {
            let mut connection = file.open()?;
            let position = writing::arrange(&mut connection, &table, &origin, &description)?;
            Ok((Open { connection, statements: Statements::new(&table, &description) }, position))
        })
        .await?;
        self.open = Some(open);
        Ok(position)
    }

    async fn note(&mut self, from: &Position, to: &Position) -> Result<(), SinkError> {
        let (from, to) = (from.clone(), to.clone());
        self.with_open(move |open| writing::write(&mut open.connection, &open.statements, None, &from, &to))
            .await
    }

    async fn apply(&mut self, page: &Page, from: &Position, to: &Position) -> Result<(), SinkError> {
        let (page, from, to) = (page.clone(), from.clone(), to.clone());
        self.with_open(move |open| {
            writing::write(&mut open.connection, &open.statements, Some(&page), &from, &to)
        })
        .await
    }

    async fn clear(&mut self) -> Result<(), SinkError> {
        self.with_open(|open| writing::clear(&mut open.connection, &open.statements)).await
    }
}

/// Runs what blocks beside the runtime.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SinkError> + Send + 'static,
) -> Result<T, SinkError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| SinkError::Failed("writing was aborted".to_owned()))?
}

fn unprepared() -> SinkError {
    SinkError::Unavailable("it has to be prepared first".to_owned())
}
