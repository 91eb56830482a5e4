//! SQLite as a database of the suite: a file in a folder of its own.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use gapless_store::{NewsReceiver, SqliteStore, Store};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::world::Database;

pub(crate) struct SqliteFile {
    folder: TempDir,
}

impl SqliteFile {
    pub(crate) fn fresh() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self { folder }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("gapless.db")
    }

    /// Runs statements on the file, past any store that is open on it.
    pub(crate) fn execute(&self, statements: &str) {
        let connection = Connection::open(self.path()).unwrap();
        connection.execute_batch(statements).unwrap();
    }
}

#[async_trait]
impl Database for SqliteFile {
    async fn open(&self) -> (Arc<dyn Store>, NewsReceiver) {
        let (store, news) = SqliteStore::open(&self.path()).expect("the file can be opened");
        (Arc::new(store), news)
    }

    async fn break_inserts(&self) {
        self.execute(
            "CREATE TRIGGER broken BEFORE INSERT ON entry BEGIN SELECT RAISE(ABORT, 'broken on purpose'); END; \
             CREATE TRIGGER broken_chain BEFORE INSERT ON chain_entry \
             BEGIN SELECT RAISE(ABORT, 'broken on purpose'); END",
        );
    }

    async fn mend(&self) {
        self.execute("DROP TRIGGER broken; DROP TRIGGER broken_chain");
    }
}
