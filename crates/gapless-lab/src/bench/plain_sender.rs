//! A message a transaction on PostgreSQL, as it is usually written without gapless.

use tokio_postgres::{Client, Statement};

use super::rows;
use crate::database::Database;

/// One connection with its prepared statements.
pub(super) struct PlainSender {
    client: Client,
    lock: Statement,
    insert: Statement,
    move_head: Statement,
    single: Statement,
}

const LOCK: &str = "SELECT head FROM feed WHERE feed = $1 FOR UPDATE";
const INSERT: &str = "INSERT INTO entry (feed, seq, kind, sender, key, ts, body) \
    VALUES ($1, $2, 'message', $3, $4, $5, $6)";
const MOVE_HEAD: &str = "UPDATE feed SET head = $2 WHERE feed = $1";
const SINGLE: &str = "WITH moved AS (UPDATE feed SET head = head + 1 WHERE feed = $1 RETURNING head) \
    INSERT INTO entry (feed, seq, kind, sender, key, ts, body) \
    SELECT $1, head, 'message', $2, $3, $4, $5 FROM moved";

impl PlainSender {
    /// Connects.
    pub(super) async fn connect(database: &Database) -> anyhow::Result<Self> {
        let client = database.postgres().await?;
        let lock = client.prepare(LOCK).await?;
        let insert = client.prepare(INSERT).await?;
        let move_head = client.prepare(MOVE_HEAD).await?;
        let single = client.prepare(SINGLE).await?;
        Ok(Self { client, lock, insert, move_head, single })
    }

    /// Locks, inserts, moves the head and commits: a round trip each.
    pub(super) async fn append(&self, feed: &str, sender: &str) -> anyhow::Result<()> {
        self.client.batch_execute("BEGIN").await?;
        let head: i64 = self.client.query_one(&self.lock, &[&feed]).await?.get(0);
        let (seq, key, now) = (head + 1, rows::fresh_key(), rows::now_ms());
        self.client.execute(&self.insert, &[&feed, &seq, &sender, &key, &now, &rows::BODY]).await?;
        self.client.execute(&self.move_head, &[&feed, &seq]).await?;
        self.client.batch_execute("COMMIT").await?;
        Ok(())
    }

    /// All of it in one statement, so in one round trip.
    pub(super) async fn append_in_one_statement(&self, feed: &str, sender: &str) -> anyhow::Result<()> {
        let (key, now) = (rows::fresh_key(), rows::now_ms());
        self.client.execute(&self.single, &[&feed, &sender, &key, &now, &rows::BODY]).await?;
        Ok(())
    }
}
