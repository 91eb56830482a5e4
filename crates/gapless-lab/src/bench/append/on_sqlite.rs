//! The same rows into the same tables of SQLite, without gapless.

use std::time::{Duration, Instant};

use rusqlite::{Connection, params};

use super::Load;
use crate::bench::rows;
use crate::database::Database;

/// One connection, flushing every commit.
pub(super) struct Plain {
    connection: Connection,
    load: Load,
}

impl Plain {
    /// Opens a file that nobody else has open, as the store opens its own. Its log is copied as seldom as the store's.
    pub(super) fn open(database: &Database, load: Load) -> anyhow::Result<Self> {
        let connection = database.sqlite()?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -65536; \
             PRAGMA wal_autocheckpoint = 8000;",
        )?;
        Ok(Self { connection, load })
    }

    /// Inserts `rows_each` rows a transaction for one round. Returns how many were committed a second.
    pub(super) fn rate(&self, rows_each: usize, round: Duration) -> anyhow::Result<f64> {
        let start = Instant::now();
        let mut committed = 0;
        while start.elapsed() < round {
            self.insert_rows(committed, rows_each)?;
            committed += rows_each;
        }
        Ok(committed as f64 / start.elapsed().as_secs_f64())
    }

    fn insert_rows(&self, first: usize, count: usize) -> rusqlite::Result<()> {
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        let mut read_head = self.connection.prepare_cached("SELECT head FROM feed WHERE feed = ?1")?;
        let mut insert = self.connection.prepare_cached(
            "INSERT INTO entry (feed, seq, kind, sender, key, ts, body) \
             VALUES (?1, ?2, 'message', ?3, ?4, ?5, ?6)",
        )?;
        let mut move_head = self.connection.prepare_cached("UPDATE feed SET head = ?2 WHERE feed = ?1")?;
        let now = rows::now_ms();
        // Row by row through the conversations, so that each head is read and moved once.
        let conversations = self.load.conversations;
        for nth in 0..conversations.min(count) {
            let conversation = (first + nth) % conversations;
            let feed = rows::conversation(conversation);
            let mut head: i64 = read_head.query_row([&feed], |row| row.get(0))?;
            for row in (nth..count).step_by(conversations) {
                head += 1;
                let sender = rows::sender(row % self.load.senders);
                insert.execute(params![feed, head, sender, rows::fresh_key(), now, rows::BODY])?;
            }
            move_head.execute(params![feed, head])?;
        }
        self.connection.execute_batch("COMMIT")
    }
}
