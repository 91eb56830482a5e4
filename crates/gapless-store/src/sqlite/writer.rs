//! The one thread that writes.
//!
//! All that changes the file comes through here, one transaction after the other: groups of appends, and jobs. An answer is
//! given when its transaction is on disk, the news of it after that.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

use gapless_core::{Append, AppendBatch, AppendOutcome, BlockTree};
use gapless_proto::{ChainId, ConvId, Position, Seq, Timestamp};
use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};

use super::chain::ingest::{self, Refused, Taken};
use super::chain::maintenance;
use super::checkpoints::Checkpoints;
use super::columns::for_each;
use super::epoch::Feeds;
use super::file::{self, FileLock};
use super::trim::{Step, Trim};
use super::{batch, create, epoch};
use crate::commit_queue::{Committer, Waiting};
use crate::news::NewsSender;
use crate::{
    ChainInfo, Creation, INGESTION_BLOCKS_MAX, IngestError, Ingested, Ingestion, News, OpenError, StoreError,
    TrimmedTo,
};

/// Where an answer goes to.
pub(super) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// What the writer does besides appending.
#[derive(Debug)]
pub(super) enum Job {
    /// Creates a conversation; `None` when there is one of that name.
    Create { creation: Creation, reply: Reply<Option<Position>> },
    /// Deletes the entries below a seq.
    Trim { conv: ConvId, below: Seq, reply: Reply<Option<TrimmedTo>> },
    /// Raises the epoch of one conversation or of all.
    RaiseEpoch { conv: Option<ConvId>, reply: Reply<u64> },
    /// Takes blocks of a chain.
    Ingest { chain: ChainId, ingestion: Ingestion, reply: oneshot::Sender<Result<Ingested, IngestError>> },
    /// Takes one step of a trim of a chain's feed; answers with the oldest seq kept, and whether that was the last step.
    TrimChain { chain: ChainId, below: Seq, reply: Reply<Option<(Seq, bool)>> },
    /// Raises the epochs of all chains.
    RaiseChainEpochs { reply: Reply<u64> },
    /// Begins the feed of a chain anew.
    RestartChain { chain: ChainId, reply: Reply<Option<ChainInfo>> },
    /// Takes one step of deleting what a chain's feed that was given up has left; answers whether nothing is left.
    ClearChain { chain: ChainId, reply: Reply<bool> },
    /// Writes something that changes nothing.
    Check { reply: Reply<()> },
    /// Finishes what waits and ends the thread.
    Close,
}

/// What wakes the writer.
enum Input {
    Appends(Vec<Waiting>),
    Job(Job),
    /// It is a trim's turn.
    Trim,
    /// The store was dropped.
    HangUp,
}

/// Owns the connection that writes.
pub(super) struct Writer {
    connection: Connection,
    checkpoints: Checkpoints,
    committer: Committer,
    jobs: mpsc::Receiver<Job>,
    /// Trims that are under way; they take turns.
    trims: VecDeque<Trim>,
    news: NewsSender,
    /// The blocks that are kept of each chain, as they are in the file.
    trees: HashMap<ChainId, BlockTree>,
    _lock: FileLock,
}

impl Writer {
    pub(super) fn new(
        connection: Connection,
        checkpoints: Checkpoints,
        lock: FileLock,
        committer: Committer,
        jobs: mpsc::Receiver<Job>,
        news: NewsSender,
    ) -> Self {
        Self {
            connection,
            checkpoints,
            committer,
            jobs,
            trims: VecDeque::new(),
            news,
            trees: HashMap::new(),
            _lock: lock,
        }
    }

    /// Starts the thread; it ends after [`Job::Close`], or when the store was dropped.
    pub(super) fn start(self) -> Result<JoinHandle<()>, OpenError> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(file::unreachable)?;
        thread::Builder::new()
            .name("gapless-sqlite".to_owned())
            .spawn(move || runtime.block_on(self.run()))
            .map_err(file::unreachable)
    }

    async fn run(mut self) {
        loop {
            match self.next_input().await {
                Input::Appends(batch) => self.commit(batch),
                Input::Trim => self.trim_step(),
                Input::Job(Job::Create { creation, reply }) => {
                    let _ = reply.send(self.create(&creation));
                }
                Input::Job(Job::Trim { conv, below, reply }) => {
                    self.trims.push_back(Trim::new(conv, below, reply));
                }
                Input::Job(Job::RaiseEpoch { conv, reply }) => {
                    let _ = reply.send(self.raise_epoch(conv.as_ref()));
                }
                Input::Job(Job::Ingest { chain, ingestion, reply }) => {
                    let _ = reply.send(self.ingest(chain, ingestion));
                }
                Input::Job(Job::TrimChain { chain, below, reply }) => {
                    let step = in_transaction(&mut self.connection, |transaction| {
                        maintenance::trim_step(transaction, chain, below)
                    });
                    let _ = reply.send(step.map_err(StoreError::from));
                }
                Input::Job(Job::RaiseChainEpochs { reply }) => {
                    let _ = reply.send(self.raise_chain_epochs().map_err(StoreError::from));
                }
                Input::Job(Job::RestartChain { chain, reply }) => {
                    let _ = reply.send(self.restart_chain(chain).map_err(StoreError::from));
                }
                Input::Job(Job::ClearChain { chain, reply }) => {
                    let step = in_transaction(&mut self.connection, |transaction| {
                        maintenance::clear_step(transaction, chain)
                    });
                    let _ = reply.send(step.map_err(StoreError::from));
                }
                Input::Job(Job::Check { reply }) => {
                    let _ = reply.send(self.check().map_err(StoreError::from));
                }
                Input::Job(Job::Close) | Input::HangUp => return self.finish().await,
            }
            self.checkpoints.after_commit(&self.connection);
        }
    }

    /// The next thing to do, in no particular order of those that wait, so that none starves the others.
    async fn next_input(&mut self) -> Input {
        tokio::select! {
            batch = self.committer.next_batch() => batch.map_or(Input::HangUp, Input::Appends),
            job = self.jobs.recv() => job.map_or(Input::HangUp, Input::Job),
            () = ready(()), if !self.trims.is_empty() => Input::Trim,
        }
    }

    /// Commits the appends that wait; what else waits is refused.
    async fn finish(mut self) {
        self.committer.close();
        self.jobs.close();
        while let Some(batch) = self.committer.next_batch().await {
            self.commit(batch);
        }
        for trim in self.trims {
            trim.fail(StoreError::Closed);
        }
    }

    fn commit(&mut self, batch: Vec<Waiting>) {
        if batch.is_empty() {
            return;
        }
        let appends = batch.iter().map(|waiting| &waiting.append);
        match commit_appends(&mut self.connection, appends) {
            Ok((outcomes, news)) => {
                for (waiting, outcome) in batch.into_iter().zip(outcomes) {
                    waiting.answer(outcome);
                }
                self.news.publish(news);
            }
            Err(error) => {
                tracing::error!(%error, appends = batch.len(), "a commit failed");
                self.committer.commit_failed();
                let error = Arc::new(error);
                for waiting in batch {
                    waiting.fail(for_each(&error));
                }
            }
        }
    }

    fn create(&mut self, creation: &Creation) -> Result<Option<Position>, StoreError> {
        let now = now();
        let created =
            in_transaction(&mut self.connection, |transaction| create::create(transaction, creation, now))?;
        Ok(created.map(|news| {
            let position = Position { epoch: news.feed.epoch, seq: news.feed.head };
            self.news.publish(vec![news]);
            position
        }))
    }

    fn trim_step(&mut self) {
        let Some(mut trim) = self.trims.pop_front() else {
            return;
        };
        let step = in_transaction(&mut self.connection, |transaction| trim.step(transaction));
        match step {
            Ok(Step::Unfinished) => self.trims.push_back(trim),
            Ok(Step::Finished(min_seq)) => trim.answer(Some(min_seq)),
            Ok(Step::NotFound) => trim.answer(None),
            Err(error) => trim.fail(error.into()),
        }
    }

    fn raise_epoch(&mut self, conv: Option<&ConvId>) -> Result<u64, StoreError> {
        let mut feeds = match conv {
            Some(conv) => Feeds::One(conv.clone()),
            None => Feeds::first(),
        };
        let mut raised = 0;
        loop {
            let now = now();
            let news =
                in_transaction(&mut self.connection, |transaction| epoch::raise(transaction, &feeds, now))?;
            raised += news.len() as u64;
            let next = feeds.after(&news);
            self.news.publish(news);
            match next {
                Some(next) => feeds = next,
                None => return Ok(raised),
            }
        }
    }

    fn ingest(&mut self, chain: ChainId, ingestion: Ingestion) -> Result<Ingested, IngestError> {
        let blocks = ingestion.blocks.len();
        if blocks > INGESTION_BLOCKS_MAX {
            return Err(IngestError::TooMany { blocks });
        }
        let (now, tree) = (now(), self.trees.remove(&chain));
        let taken = wholly_or_not(&mut self.connection, |transaction| {
            ingest::ingest(transaction, chain, ingestion, tree, now)
        });
        match taken.map_err(StoreError::from)? {
            Ok(Taken { ingested, news, tree }) => {
                self.trees.insert(chain, tree);
                self.news.publish_chain(news);
                Ok(ingested)
            }
            Err(Refused::Block(refusal)) => Err(refusal.into()),
            Err(Refused::Event(refusal)) => Err(refusal.into()),
            Err(Refused::Clearing) => {
                let step = in_transaction(&mut self.connection, |transaction| {
                    maintenance::clear_step(transaction, chain)
                });
                step.map_err(StoreError::from)?;
                Err(StoreError::Busy.into())
            }
        }
    }

    fn raise_chain_epochs(&mut self) -> rusqlite::Result<u64> {
        let now = now();
        let news =
            in_transaction(&mut self.connection, |transaction| maintenance::raise_epochs(transaction, now))?;
        let raised = news.len() as u64;
        for news in news {
            self.news.publish_chain(news);
        }
        Ok(raised)
    }

    fn restart_chain(&mut self, chain: ChainId) -> rusqlite::Result<Option<ChainInfo>> {
        let now = now();
        self.trees.remove(&chain);
        let news = in_transaction(&mut self.connection, |transaction| {
            maintenance::restart(transaction, chain, now)
        })?;
        Ok(news.map(|news| {
            let info = news.info;
            self.news.publish_chain(news);
            info
        }))
    }

    /// Writes the file's header anew, as it is.
    fn check(&mut self) -> rusqlite::Result<()> {
        in_transaction(&mut self.connection, |transaction| {
            let version: i32 = transaction.query_row("PRAGMA user_version", (), |row| row.get(0))?;
            transaction.pragma_update(None, "user_version", version)
        })
    }
}

/// Decides and stores a group of appends. Without an entry to store, nothing is written.
fn commit_appends<'batch>(
    connection: &mut Connection,
    appends: impl Iterator<Item = &'batch Append> + Clone,
) -> rusqlite::Result<(Vec<AppendOutcome>, Vec<News>)> {
    in_transaction(connection, |transaction| {
        let feeds = batch::load(transaction, appends.clone())?;
        let mut batch = AppendBatch::new(now(), feeds);
        let outcomes = appends.map(|append| batch.push(append)).collect();
        batch::write(transaction, &batch)?;
        Ok((outcomes, News::of_batch(&batch)))
    })
}

/// Does something wholly or not at all. When this returns `Ok`, it is on disk.
fn in_transaction<T>(
    connection: &mut Connection,
    work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let done = wholly_or_not(connection, |transaction| Ok(Ok::<_, Infallible>(work(transaction)?)))?;
    Ok(done.unwrap_or_else(|never| match never {}))
}

/// The same for something that may be refused when it is half done.
fn wholly_or_not<T, E>(
    connection: &mut Connection,
    work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<Result<T, E>>,
) -> rusqlite::Result<Result<T, E>> {
    if !connection.is_autocommit() {
        // A rollback failed, as when the machine had no memory left; without this, nothing would ever be written again.
        connection.execute_batch("ROLLBACK")?;
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let done = work(&transaction)?;
    match done {
        Ok(_) => transaction.commit()?,
        Err(_) => transaction.rollback()?,
    }
    Ok(done)
}

fn now() -> Timestamp {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let milliseconds = u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX);
    Timestamp::new(milliseconds).expect("the clock is right to within 285,000 years")
}
