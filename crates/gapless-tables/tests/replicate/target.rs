//! Targets of both kinds, and what is in them.

use std::collections::BTreeMap;

use gapless_tables::replicate::{PostgresCopy, PostgresSink, Sink, SqliteCopy, SqliteFile, SqliteSink};
use gapless_tables::verify::CheckedCopy;
use gapless_testkit::SharedPostgres;
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};

/// A place for copies.
pub(crate) enum Target {
    Postgres { url: String, sql: Client },
    Sqlite { folder: TempDir },
}

impl Target {
    /// One of each kind.
    pub(crate) async fn all() -> [Self; 2] {
        [Self::postgres().await, Self::Sqlite { folder: TempDir::new().unwrap() }]
    }

    pub(crate) async fn postgres() -> Self {
        let url = SharedPostgres::from_environment().fresh_database();
        let (sql, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        Self::Postgres { url, sql }
    }

    /// A sink as of a new process; the one before must be gone.
    pub(crate) fn sink(&self) -> Box<dyn Sink> {
        match self {
            Self::Postgres { url, .. } => Box::new(PostgresSink::new(url, None, "http://source").unwrap()),
            Self::Sqlite { folder } => {
                let file = SqliteFile::take(&folder.path().join("copy.db")).unwrap();
                Box::new(SqliteSink::new(file, None, "http://source"))
            }
        }
    }

    /// The copy as it is compared and mended.
    pub(crate) fn copy(&self) -> Box<dyn CheckedCopy> {
        match self {
            Self::Postgres { url, .. } => Box::new(PostgresCopy::new(url, None).unwrap()),
            Self::Sqlite { folder } => Box::new(SqliteCopy::new(folder.path().join("copy.db"), None)),
        }
    }

    pub(crate) async fn execute(&self, statements: &str) {
        match self {
            Self::Postgres { sql, .. } => sql.batch_execute(statements).await.unwrap(),
            Self::Sqlite { folder } => {
                let connection = rusqlite::Connection::open(folder.path().join("copy.db")).unwrap();
                connection.execute_batch(statements).unwrap();
            }
        }
    }

    /// The notes by their ids.
    pub(crate) async fn amounts(&self) -> BTreeMap<i64, Option<String>> {
        const ALL: &str = "SELECT id, note FROM amounts";
        match self {
            Self::Postgres { sql, .. } => {
                sql.query(ALL, &[]).await.unwrap().iter().map(|row| (row.get(0), row.get(1))).collect()
            }
            Self::Sqlite { folder } => {
                let connection = rusqlite::Connection::open(folder.path().join("copy.db")).unwrap();
                let mut statement = connection.prepare(ALL).unwrap();
                let rows = statement.query_map((), |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
                rows.collect::<Result<_, _>>().unwrap()
            }
        }
    }
}

/// What should be there.
pub(crate) fn notes(notes: &[(i64, &str)]) -> BTreeMap<i64, Option<String>> {
    notes.iter().map(|(id, note)| (*id, Some((*note).to_owned()))).collect()
}
