//! A table of orders while many transactions write it, for whoever must read it without missing a row.

mod dice;
mod schema;
mod transaction;
mod truth;
mod writer;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_postgres::NoTls;

use self::dice::Dice;
use self::transaction::Habits;
pub use self::truth::TrueRow;
use self::writer::Writer;

/// A table of a PostgreSQL database, made for being written by many at once.
///
/// It is named [`BusyTable::NAME`] and has the columns `id bigint` (the primary key), `status text`, `amount numeric(18,4)`,
/// `note text`, `version bigint` and `updated_at timestamptz`, with an index on `(updated_at, id)`. A trigger sets
/// `updated_at` to `now()`, which is when the transaction began, and `version` to a number that no other write has, at each insert and
/// update.
///
/// Half of the transactions stay open for up to 200 ms before they write, each twentieth for up to 2 s; each tenth rolls back.
/// They insert rows, advance old ones from `pending` to `paid` to `completed`, delete some and insert deleted ids again. Some use a
/// savepoint, and some of these roll back to it. What a writer does follows from the seed; how the writers interleave does not.
#[derive(Debug)]
pub struct BusyTable {
    url: String,
    config: BusyTableConfig,
    /// The highest id that was committed; transactions choose their old rows up to it.
    last_id: Arc<AtomicI64>,
}

/// How busy a table is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BusyTableConfig {
    /// Where the dice of all writers come from.
    pub seed: u64,
    /// How many transactions are open at the same time.
    pub writers: u32,
    /// How many rows get the very same `updated_at` when the first writer inserts many at once: in its third transaction, and in each
    /// fortieth from there on. 0: never.
    pub tie_rows: u32,
}

impl Default for BusyTableConfig {
    fn default() -> Self {
        Self { seed: 1, writers: 16, tie_rows: 500 }
    }
}

impl BusyTable {
    /// What the table is called.
    pub const NAME: &str = "orders";

    /// Makes the table in the database that `url` names, empty; nobody writes yet.
    pub async fn create(url: &str, config: BusyTableConfig) -> anyhow::Result<Self> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.context("connecting")?;
        writer::while_connected(connection, async move {
            client.batch_execute(schema::CREATE).await.context("making the busy table")
        })
        .await?;
        Ok(Self { url: url.to_owned(), config, last_id: Arc::default() })
    }

    /// Starts the writers. None begins another transaction after `time`.
    pub fn start(&self, time: Duration) -> Writers {
        let stopped = watch::Sender::new(false);
        let mut tasks = JoinSet::new();
        for number in 0..self.config.writers {
            let habits = Habits { tie_rows: if number == 0 { self.config.tie_rows } else { 0 } };
            let dice = Dice::new(self.config.seed, number.into());
            let writer = Writer::new(dice, habits, Arc::clone(&self.last_id));
            let until = Instant::now() + time;
            tasks.spawn(writer.write(self.url.clone(), until, stopped.subscribe()));
        }
        Writers { tasks, stopped }
    }

    /// All rows that are visible now, by id. It stays true only while nobody writes.
    pub async fn truth(&self) -> anyhow::Result<BTreeMap<i64, TrueRow>> {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.context("connecting")?;
        writer::while_connected(connection, async move { truth::read(&client).await }).await
    }
}

/// The writers of a table at work. Dropped, they break off, and the database rolls back what was open.
#[derive(Debug)]
pub struct Writers {
    tasks: JoinSet<anyhow::Result<Work>>,
    stopped: watch::Sender<bool>,
}

impl Writers {
    /// Waits until the time is over and the last transaction has ended; fails with the first writer that failed.
    pub async fn join(mut self) -> anyhow::Result<Work> {
        let mut all = Work::default();
        while let Some(one) = self.tasks.join_next().await {
            all.include(one??);
        }
        Ok(all)
    }

    /// Ends them before their time: each brings its transaction to an end, which takes up to 2 s.
    pub async fn stop(self) -> anyhow::Result<Work> {
        self.stopped.send_replace(true);
        self.join().await
    }
}

/// What writers did.
#[derive(Debug, Default)]
pub struct Work {
    /// How many transactions committed.
    pub committed: u64,
    /// How many were rolled back; a rollback to a savepoint doesn't count.
    pub rolled_back: u64,
    /// When each write was committed, by its version: the moment at which the writer asked for it. Also of those that were rolled back to
    /// a savepoint, which nobody else ever sees.
    pub committed_at: BTreeMap<i64, Instant>,
}

impl Work {
    fn include(&mut self, other: Self) {
        self.committed += other.committed;
        self.rolled_back += other.rolled_back;
        self.committed_at.extend(other.committed_at);
    }
}

#[cfg(test)]
mod tests;
