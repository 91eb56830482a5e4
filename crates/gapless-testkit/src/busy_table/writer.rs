//! One writer: a connection that runs one transaction after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_postgres::tls::NoTlsStream;
use tokio_postgres::{Client, Connection, NoTls, Socket, Statement};

use super::dice::Dice;
use super::transaction::{Habits, Savepoint, Transaction, Write};
use super::{Work, schema};

#[derive(Debug)]
pub(super) struct Writer {
    dice: Dice,
    habits: Habits,
    last_id: Arc<AtomicI64>,
    /// The ids that this writer deleted and hasn't inserted again. Nobody else inserts them.
    deleted: Vec<i64>,
    work: Work,
}

impl Writer {
    pub(super) fn new(dice: Dice, habits: Habits, last_id: Arc<AtomicI64>) -> Self {
        Self { dice, habits, last_id, deleted: Vec::new(), work: Work::default() }
    }

    /// Writes until the time is over or it is stopped.
    pub(super) async fn write(
        mut self,
        url: String,
        until: Instant,
        stopped: watch::Receiver<bool>,
    ) -> anyhow::Result<Work> {
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.context("connecting")?;
        while_connected(connection, async move {
            let statements = Statements::prepare(client).await?;
            let mut number = 0;
            while Instant::now() < until && !*stopped.borrow() {
                let transaction = Transaction::roll(&mut self.dice, self.habits, number);
                self.run(&statements, &transaction).await.with_context(|| format!("{transaction:?}"))?;
                number += 1;
            }
            Ok(self.work)
        })
        .await
    }

    async fn run(&mut self, statements: &Statements, transaction: &Transaction) -> anyhow::Result<()> {
        let client = &statements.client;
        client.batch_execute("BEGIN").await?;
        pause(transaction.pause_before_writes).await;
        let last_id = self.last_id.load(Ordering::Relaxed);
        let mut done = Done { deleted: self.deleted.clone(), ..Done::default() };
        let mut before_savepoint = Done::default();
        for (index, write) in transaction.writes.iter().enumerate() {
            let savepoint = transaction.savepoint.as_ref();
            if savepoint.is_some_and(|savepoint| savepoint.around.start == index) {
                client.batch_execute("SAVEPOINT part").await?;
                before_savepoint = done.clone();
            }
            statements.write(*write, last_id, &mut done).await?;
            if let Some(Savepoint { released, .. }) = savepoint.filter(|at| at.around.end == index + 1) {
                if *released {
                    client.batch_execute("RELEASE SAVEPOINT part").await?;
                } else {
                    client.batch_execute("ROLLBACK TO SAVEPOINT part").await?;
                    done = before_savepoint.clone();
                }
            }
        }
        pause(transaction.pause_after_writes).await;
        if transaction.commits {
            let committed_at = Instant::now();
            client.batch_execute("COMMIT").await?;
            self.committed(done, committed_at);
        } else {
            client.batch_execute("ROLLBACK").await?;
            self.work.rolled_back += 1;
        }
        Ok(())
    }

    fn committed(&mut self, done: Done, committed_at: Instant) {
        self.work.committed += 1;
        self.work.committed_at.extend(done.versions.into_iter().map(|version| (version, committed_at)));
        self.deleted = done.deleted;
        self.last_id.fetch_max(done.last_id, Ordering::Relaxed);
    }
}

/// What a transaction has come to so far.
#[derive(Debug, Clone, Default)]
struct Done {
    versions: Vec<i64>,
    /// What [`Writer::deleted`] will be.
    deleted: Vec<i64>,
    last_id: i64,
}

/// A connection with the statements that write.
struct Statements {
    client: Client,
    insert: Statement,
    insert_again: Statement,
    advance: Statement,
    delete: Statement,
}

impl Statements {
    async fn prepare(client: Client) -> anyhow::Result<Self> {
        Ok(Self {
            insert: client.prepare(schema::INSERT).await?,
            insert_again: client.prepare(schema::INSERT_AGAIN).await?,
            advance: client.prepare(schema::ADVANCE).await?,
            delete: client.prepare(schema::DELETE).await?,
            client,
        })
    }

    async fn write(&self, write: Write, last_id: i64, done: &mut Done) -> anyhow::Result<()> {
        let rows = match write {
            Write::Insert(rows) => self.client.query(&self.insert, &[&i32::try_from(rows)?]).await?,
            Write::InsertAgain => match done.deleted.pop() {
                Some(id) => self.client.query(&self.insert_again, &[&id]).await?,
                None => self.client.query(&self.insert, &[&1_i32]).await?,
            },
            Write::Advance(target) => self.client.query(&self.advance, &[&target.id(last_id)]).await?,
            Write::Delete(target) => self.client.query(&self.delete, &[&target.id(last_id)]).await?,
        };
        for row in rows {
            let (id, version) = (row.get(0), row.get(1));
            match write {
                Write::Delete(_) => done.deleted.push(id),
                Write::Insert(_) | Write::InsertAgain | Write::Advance(_) => {
                    done.versions.push(version);
                    done.last_id = done.last_id.max(id);
                }
            }
        }
        Ok(())
    }
}

/// Stays in a transaction for a time; most don't.
async fn pause(time: Duration) {
    if !time.is_zero() {
        sleep(time).await;
    }
}

/// Does `work`, which uses a connection, while driving that connection.
pub(super) async fn while_connected<T>(
    connection: Connection<Socket, NoTlsStream>,
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    tokio::select! {
        biased;
        done = work => done,
        ended = connection => match ended {
            Ok(()) => bail!("the connection to PostgreSQL ended"),
            Err(error) => Err(error).context("the connection to PostgreSQL broke"),
        },
    }
}
