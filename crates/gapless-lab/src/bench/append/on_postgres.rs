//! The same rows into the same tables of PostgreSQL, without gapless.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio_postgres::{Client, Statement};

use super::{FLOOR_ROWS, Load};
use crate::bench::plain_sender::PlainSender;
use crate::bench::rows;
use crate::database::Database;

/// How many connections the baseline has at most, as servers of PostgreSQL are usually set up. Further senders would wait for a
/// connection.
const CONNECTIONS_MAX: usize = 128;

/// A transaction a message.
pub(super) struct Baseline {
    connections: Vec<Arc<PlainSender>>,
}

impl Baseline {
    /// Connects as many times as there are senders, up to a bound.
    pub(super) async fn connect(database: &Database, load: Load) -> anyhow::Result<Self> {
        let mut connections = Vec::new();
        for _ in 0..load.senders.min(CONNECTIONS_MAX) {
            connections.push(Arc::new(PlainSender::connect(database).await?));
        }
        Ok(Self { connections })
    }

    /// Lock, insert, move the head, commit: how it is usually written.
    pub(super) async fn statement_by_statement(&self, load: Load) -> anyhow::Result<f64> {
        self.rate(load, false).await
    }

    /// All of it in one statement, so in one round trip.
    pub(super) async fn one_statement(&self, load: Load) -> anyhow::Result<f64> {
        self.rate(load, true).await
    }

    async fn rate(&self, load: Load, is_single: bool) -> anyhow::Result<f64> {
        let start = Instant::now();
        let mut senders = JoinSet::new();
        for (number, connection) in self.connections.iter().enumerate() {
            let connection = Arc::clone(connection);
            let deadline = start + load.round;
            let step = self.connections.len();
            senders.spawn(async move {
                let mut conversation = number % load.conversations;
                let mut committed = 0_u64;
                while Instant::now() < deadline {
                    let (feed, sender) = (rows::conversation(conversation), rows::sender(number));
                    if is_single {
                        connection.append_in_one_statement(&feed, &sender).await?;
                    } else {
                        connection.append(&feed, &sender).await?;
                    }
                    committed += 1;
                    conversation = (conversation + step) % load.conversations;
                }
                anyhow::Ok(committed)
            });
        }
        let mut committed = 0;
        while let Some(sent) = senders.join_next().await {
            committed += sent??;
        }
        Ok(committed as f64 / start.elapsed().as_secs_f64())
    }
}

/// Many rows a transaction, one transaction after the other: as fast as the tables take them from one connection.
pub(super) struct Floor {
    client: Client,
    lock: Statement,
    insert: Statement,
    move_heads: Statement,
    load: Load,
}

const LOCK_ALL: &str = "SELECT feed, head FROM feed WHERE feed = ANY($1::text[]) ORDER BY feed FOR UPDATE";
const INSERT_ALL: &str = "INSERT INTO entry (feed, seq, kind, sender, key, ts, body) \
    SELECT feed, seq, 'message', sender, key, $5, $6 \
    FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[]) AS n (feed, seq, sender, key)";
const MOVE_HEADS: &str = "UPDATE feed f SET head = n.head \
    FROM unnest($1::text[], $2::bigint[]) AS n (feed, head) WHERE f.feed = n.feed";

impl Floor {
    /// Connects.
    pub(super) async fn connect(database: &Database, load: Load) -> anyhow::Result<Self> {
        let client = database.postgres().await?;
        let lock = client.prepare(LOCK_ALL).await?;
        let insert = client.prepare(INSERT_ALL).await?;
        let move_heads = client.prepare(MOVE_HEADS).await?;
        Ok(Self { client, lock, insert, move_heads, load })
    }

    /// Inserts for one round. Returns how many rows were committed a second.
    pub(super) async fn rate(&self, round: Duration) -> anyhow::Result<f64> {
        let start = Instant::now();
        let mut committed = 0;
        while start.elapsed() < round {
            self.insert_rows(committed).await?;
            committed += FLOOR_ROWS;
        }
        Ok(committed as f64 / start.elapsed().as_secs_f64())
    }

    async fn insert_rows(&self, first: usize) -> anyhow::Result<()> {
        let conversations: Vec<_> =
            (first..first + FLOOR_ROWS).map(|row| row % self.load.conversations).collect();
        let mut distinct: Vec<_> = conversations.iter().copied().map(rows::conversation).collect();
        distinct.sort_unstable();
        distinct.dedup();

        self.client.batch_execute("BEGIN").await?;
        let mut heads: std::collections::HashMap<String, i64> = self
            .client
            .query(&self.lock, &[&distinct])
            .await?
            .iter()
            .map(|row| (row.get(0), row.get(1)))
            .collect();
        let (mut feeds, mut seqs) = (Vec::new(), Vec::new());
        for conversation in conversations {
            let feed = rows::conversation(conversation);
            let head = heads.get_mut(&feed).ok_or_else(|| anyhow::anyhow!("{feed} is missing"))?;
            *head += 1;
            seqs.push(*head);
            feeds.push(feed);
        }
        let senders: Vec<_> = (0..FLOOR_ROWS).map(|row| rows::sender(row % self.load.senders)).collect();
        let keys: Vec<_> = (0..FLOOR_ROWS).map(|_| rows::fresh_key()).collect();
        self.client
            .execute(&self.insert, &[&feeds, &seqs, &senders, &keys, &rows::now_ms(), &rows::BODY])
            .await?;
        let (moved, heads): (Vec<_>, Vec<_>) = heads.into_iter().unzip();
        self.client.execute(&self.move_heads, &[&moved, &heads]).await?;
        self.client.batch_execute("COMMIT").await?;
        Ok(())
    }
}
