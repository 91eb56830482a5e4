//! The embedded store: one SQLite file.
//!
//! One thread owns the only connection that writes and commits in groups ([`writer`]); a few connections read ([`readers`]). The
//! file is in WAL mode, so neither waits for the other, and every commit is flushed (`synchronous=FULL`).

mod batch;
mod chain;
mod checkpoints;
mod columns;
mod create;
mod epoch;
mod file;
mod readers;
mod reading;
mod trim;
mod writer;

use std::path::Path;
use std::thread::JoinHandle;

use async_trait::async_trait;
use gapless_core::{Append, Appended};
use gapless_proto::{BlockHash, ChainId, ChainPoint, ConvId, Page, Position, Seq, UserId};
use tokio::sync::{Mutex, mpsc, oneshot};

use self::checkpoints::Checkpoints;
use self::readers::Readers;
use self::writer::{Job, Writer};
use crate::commit_queue::CommitQueue;
use crate::news::NewsSender;
use crate::{
    AppendError, ChainInfo, ChainLogRequest, ChainSlice, ChainStore, ChainValues, ChainValuesRequest,
    CreateError, Creation, FeedHead, FeedInfo, Generation, IngestError, Ingested, Ingestion, KeptBlock,
    LogSlice, Membership, Migrated, NewsReceiver, OpenError, PageError, PageRequest, Store, StoreError,
    TrimmedTo,
};

/// How many creations, trims and the like may wait for the writer; further callers wait for room.
const JOBS_WAITING_MAX: usize = 1_024;

/// Keeps the logs in one SQLite file, for one process at a time.
#[derive(Debug)]
pub struct SqliteStore {
    appends: CommitQueue,
    jobs: mpsc::Sender<Job>,
    readers: Readers,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl SqliteStore {
    /// Opens the file, or makes a new one; brings its schema up to date.
    ///
    /// The file is taken for this process until [`Store::close`] has returned; others are refused as
    /// [`OpenError::InUse`]. Blocks for as long as the migrations take.
    pub fn open(path: &Path) -> Result<(Self, NewsReceiver), OpenError> {
        let lock = file::lock(path)?;
        let mut connection = file::open_for_writing(path)?;
        file::migrate(path, &mut connection)?;
        let checkpoints = Checkpoints::start(path, &connection)?;
        let readers = Readers::open(path, lock.clone())?;
        let (appends, committer) = CommitQueue::new();
        let (jobs, waiting_jobs) = mpsc::channel(JOBS_WAITING_MAX);
        let (news, receiver) = NewsSender::channel();
        let writer = Writer::new(connection, checkpoints, lock, committer, waiting_jobs, news);
        let store = Self { appends, jobs, readers, writer: Mutex::new(Some(writer.start()?)) };
        Ok((store, receiver))
    }

    /// Brings the file's schema up to date without opening a store on it.
    pub fn migrate(path: &Path) -> Result<Migrated, OpenError> {
        let _lock = file::lock(path)?;
        let mut connection = file::open_for_writing(path)?;
        file::migrate(path, &mut connection)
    }

    /// Hands a job to the writer and waits for its answer.
    async fn job<T, E: From<StoreError>>(
        &self,
        job: impl FnOnce(oneshot::Sender<Result<T, E>>) -> Job,
    ) -> Result<T, E> {
        let (reply, answer) = oneshot::channel();
        self.jobs.send(job(reply)).await.map_err(|_| StoreError::Closed)?;
        answer.await.unwrap_or_else(|_| Err(StoreError::Closed.into()))
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn create(&self, creation: Creation) -> Result<Position, CreateError> {
        self.job(|reply| Job::Create { creation, reply }).await?.ok_or(CreateError::Exists)
    }

    async fn append(&self, append: Append, generation: Option<Generation>) -> Result<Appended, AppendError> {
        self.appends.append(append, generation).await
    }

    fn generation(&self, _conv: &ConvId) -> Generation {
        self.appends.generation()
    }

    async fn page(&self, request: PageRequest) -> Result<Page, PageError> {
        self.readers.read(move |connection| Ok(reading::page(connection, &request))).await?
    }

    async fn log(&self, conv: &ConvId, after: Seq, limit: u32) -> Result<Option<LogSlice>, StoreError> {
        let conv = conv.clone();
        self.readers.read(move |connection| reading::log(connection, &conv, after, limit)).await
    }

    async fn memberships(
        &self,
        user: &UserId,
        after: Option<&ConvId>,
        limit: u32,
    ) -> Result<Vec<Membership>, StoreError> {
        let (user, after) = (user.clone(), after.cloned());
        self.readers
            .read(move |connection| reading::memberships(connection, &user, after.as_ref(), limit))
            .await
    }

    async fn membership(&self, conv: &ConvId, user: &UserId) -> Result<Option<Membership>, StoreError> {
        let (conv, user) = (conv.clone(), user.clone());
        self.readers.read(move |connection| reading::membership(connection, &conv, &user)).await
    }

    async fn members(
        &self,
        conv: &ConvId,
        after: Option<&UserId>,
        limit: u32,
    ) -> Result<Vec<UserId>, StoreError> {
        let (conv, after) = (conv.clone(), after.cloned());
        self.readers.read(move |connection| reading::members(connection, &conv, after.as_ref(), limit)).await
    }

    async fn heads(&self, convs: &[ConvId]) -> Result<Vec<(ConvId, FeedHead)>, StoreError> {
        let convs = convs.to_vec();
        self.readers.read(move |connection| reading::heads(connection, &convs)).await
    }

    async fn info(&self, conv: &ConvId) -> Result<Option<FeedInfo>, StoreError> {
        let conv = conv.clone();
        self.readers.read(move |connection| reading::info(connection, &conv)).await
    }

    async fn trim(&self, conv: &ConvId, below: Seq) -> Result<Option<TrimmedTo>, StoreError> {
        let conv = conv.clone();
        self.job(|reply| Job::Trim { conv, below, reply }).await
    }

    async fn raise_epoch(&self, conv: Option<&ConvId>) -> Result<u64, StoreError> {
        let conv = conv.cloned();
        self.job(|reply| Job::RaiseEpoch { conv, reply }).await
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.readers.read(reading::check).await?;
        self.job(|reply| Job::Check { reply }).await
    }

    async fn close(&self) {
        let mut writer = self.writer.lock().await;
        // The writer may be gone already; then there is nothing to finish.
        let _ = self.jobs.send(Job::Close).await;
        if let Some(thread) = writer.take() {
            let ended = tokio::task::spawn_blocking(|| thread.join()).await;
            if !matches!(ended, Ok(Ok(()))) {
                tracing::error!("the store's writer panicked");
            }
        }
        self.readers.close().await;
    }
}

#[async_trait]
impl ChainStore for SqliteStore {
    async fn ingest(&self, chain: ChainId, ingestion: Ingestion) -> Result<Ingested, IngestError> {
        self.job(|reply| Job::Ingest { chain, ingestion, reply }).await
    }

    async fn chain(&self, chain: ChainId) -> Result<Option<ChainInfo>, StoreError> {
        self.readers.read(move |connection| chain::reading::info(connection, chain)).await
    }

    async fn chain_blocks(&self, chain: ChainId, hashes: &[BlockHash]) -> Result<Vec<KeptBlock>, StoreError> {
        let hashes = hashes.to_vec();
        self.readers.read(move |connection| chain::reading::blocks(connection, chain, &hashes)).await
    }

    async fn chain_log(&self, request: ChainLogRequest) -> Result<Option<ChainSlice>, StoreError> {
        self.readers.read(move |connection| chain::reading::log(connection, &request)).await
    }

    async fn chain_seq_at(&self, chain: ChainId, point: ChainPoint) -> Result<Option<Seq>, StoreError> {
        self.readers.read(move |connection| chain::reading::seq_at(connection, chain, point)).await
    }

    async fn chain_values(&self, request: ChainValuesRequest) -> Result<Option<ChainValues>, StoreError> {
        self.readers.read(move |connection| chain::reading::values(connection, &request)).await
    }

    async fn chains(&self, after: Option<ChainId>, limit: u32) -> Result<Vec<ChainId>, StoreError> {
        self.readers.read(move |connection| chain::reading::chains(connection, after, limit)).await
    }

    async fn trim_chain(&self, chain: ChainId, below: Seq) -> Result<Option<Seq>, StoreError> {
        loop {
            match self.job(|reply| Job::TrimChain { chain, below, reply }).await? {
                Some((_, false)) => {}
                Some((min_seq, true)) => return Ok(Some(min_seq)),
                None => return Ok(None),
            }
        }
    }

    async fn raise_chain_epochs(&self) -> Result<u64, StoreError> {
        self.job(|reply| Job::RaiseChainEpochs { reply }).await
    }

    async fn restart_chain(&self, chain: ChainId) -> Result<Option<ChainInfo>, StoreError> {
        let info = self.job(|reply| Job::RestartChain { chain, reply }).await?;
        while !self.job(|reply| Job::ClearChain { chain, reply }).await? {}
        Ok(info)
    }
}
