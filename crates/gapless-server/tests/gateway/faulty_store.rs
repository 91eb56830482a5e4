//! A real store that fails on demand.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use gapless_core::{Append, Appended};
use gapless_proto::{BlockHash, ChainId, ChainPoint, ConvId, Page, Position, Seq, UserId};
use gapless_store::{
    AppendError, ChainInfo, ChainLogRequest, ChainSlice, ChainStore, ChainValues, ChainValuesRequest,
    CreateError, Creation, FeedHead, FeedInfo, Generation, IngestError, Ingested, Ingestion, KeptBlock,
    LogSlice, Membership, PageError, PageRequest, Store, StoreError, TrimmedTo,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::client::within;

/// Passes everything on to a store, but for the faults that were ordered.
pub(crate) struct FaultyStore {
    inner: Arc<dyn Store>,
    faults: Mutex<VecDeque<AppendFault>>,
    /// Appends pass one by one in the order in which they came; who holds the permit holds the appends.
    gate: Arc<Semaphore>,
    closed_by: Mutex<Option<OwnedSemaphorePermit>>,
    held: watch::Sender<usize>,
    reads_failing: watch::Sender<bool>,
    chain_reads: AtomicUsize,
}

/// What goes wrong with one append.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AppendFault {
    /// It isn't carried out.
    Rejected,
    /// It is carried out, but that isn't known.
    AnswerLost,
}

impl FaultyStore {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            faults: Mutex::new(VecDeque::new()),
            gate: Arc::new(Semaphore::new(1)),
            closed_by: Mutex::new(None),
            held: watch::Sender::new(0),
            reads_failing: watch::Sender::new(false),
            chain_reads: AtomicUsize::new(0),
        })
    }

    /// The next append that comes goes wrong.
    pub(crate) fn fail_next_append(&self, fault: AppendFault) {
        self.faults.lock().unwrap().push_back(fault);
    }

    /// Appends wait, until they no longer shall.
    pub(crate) fn hold_appends(&self, held: bool) {
        *self.closed_by.lock().unwrap() = held.then(|| Arc::clone(&self.gate).try_acquire_owned().unwrap());
    }

    /// Waits until so many appends wait.
    pub(crate) async fn appends_are_held(&self, appends: usize) {
        within(self.held.subscribe().wait_for(|held| *held == appends)).await.unwrap();
    }

    /// What a gateway reads for itself fails, until it no longer shall.
    pub(crate) fn fail_reads(&self, failing: bool) {
        self.reads_failing.send_replace(failing);
    }

    /// How often it was asked where a chain's feed is, or for what is in one.
    pub(crate) fn chain_reads(&self) -> usize {
        self.chain_reads.load(Ordering::Relaxed)
    }

    fn read_chain(&self) -> Result<(), StoreError> {
        self.chain_reads.fetch_add(1, Ordering::Relaxed);
        self.read()
    }

    fn read(&self) -> Result<(), StoreError> {
        if *self.reads_failing.borrow() {
            return Err(StoreError::Unreachable("on purpose".into()));
        }
        Ok(())
    }
}

#[async_trait]
impl Store for FaultyStore {
    async fn create(&self, creation: Creation) -> Result<Position, CreateError> {
        self.inner.create(creation).await
    }

    async fn append(&self, append: Append, generation: Option<Generation>) -> Result<Appended, AppendError> {
        let fault = self.faults.lock().unwrap().pop_front();
        if self.closed_by.lock().unwrap().is_some() {
            self.held.send_modify(|held| *held += 1);
            drop(self.gate.acquire().await.unwrap());
            self.held.send_modify(|held| *held -= 1);
        }
        let unreachable = || AppendError::Store(StoreError::Unreachable("on purpose".into()));
        match fault {
            None => self.inner.append(append, generation).await,
            Some(AppendFault::Rejected) => Err(unreachable()),
            Some(AppendFault::AnswerLost) => {
                self.inner.append(append, generation).await?;
                Err(unreachable())
            }
        }
    }

    fn generation(&self, conv: &ConvId) -> Generation {
        self.inner.generation(conv)
    }

    async fn page(&self, request: PageRequest) -> Result<Page, PageError> {
        self.inner.page(request).await
    }

    async fn log(&self, conv: &ConvId, after: Seq, limit: u32) -> Result<Option<LogSlice>, StoreError> {
        self.read()?;
        self.inner.log(conv, after, limit).await
    }

    async fn memberships(
        &self,
        user: &UserId,
        after: Option<&ConvId>,
        limit: u32,
    ) -> Result<Vec<Membership>, StoreError> {
        self.read()?;
        self.inner.memberships(user, after, limit).await
    }

    async fn membership(&self, conv: &ConvId, user: &UserId) -> Result<Option<Membership>, StoreError> {
        self.read()?;
        self.inner.membership(conv, user).await
    }

    async fn members(
        &self,
        conv: &ConvId,
        after: Option<&UserId>,
        limit: u32,
    ) -> Result<Vec<UserId>, StoreError> {
        self.inner.members(conv, after, limit).await
    }

    async fn heads(&self, convs: &[ConvId]) -> Result<Vec<(ConvId, FeedHead)>, StoreError> {
        self.read()?;
        self.inner.heads(convs).await
    }

    async fn info(&self, conv: &ConvId) -> Result<Option<FeedInfo>, StoreError> {
        self.inner.info(conv).await
    }

    async fn trim(&self, conv: &ConvId, below: Seq) -> Result<Option<TrimmedTo>, StoreError> {
        self.inner.trim(conv, below).await
    }

    async fn raise_epoch(&self, conv: Option<&ConvId>) -> Result<u64, StoreError> {
        self.inner.raise_epoch(conv).await
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.inner.check().await
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}

#[async_trait]
impl ChainStore for FaultyStore {
    async fn ingest(&self, chain: ChainId, ingestion: Ingestion) -> Result<Ingested, IngestError> {
        self.inner.ingest(chain, ingestion).await
    }

    async fn chain(&self, chain: ChainId) -> Result<Option<ChainInfo>, StoreError> {
        self.read_chain()?;
        self.inner.chain(chain).await
    }

    async fn chain_blocks(&self, chain: ChainId, hashes: &[BlockHash]) -> Result<Vec<KeptBlock>, StoreError> {
        self.inner.chain_blocks(chain, hashes).await
    }

    async fn chain_log(&self, request: ChainLogRequest) -> Result<Option<ChainSlice>, StoreError> {
        self.read_chain()?;
        self.inner.chain_log(request).await
    }

    async fn chain_seq_at(&self, chain: ChainId, point: ChainPoint) -> Result<Option<Seq>, StoreError> {
        self.inner.chain_seq_at(chain, point).await
    }

    async fn chain_values(&self, request: ChainValuesRequest) -> Result<Option<ChainValues>, StoreError> {
        self.read_chain()?;
        self.inner.chain_values(request).await
    }

    async fn chains(&self, after: Option<ChainId>, limit: u32) -> Result<Vec<ChainId>, StoreError> {
        self.inner.chains(after, limit).await
    }

    async fn trim_chain(&self, chain: ChainId, below: Seq) -> Result<Option<Seq>, StoreError> {
        self.inner.trim_chain(chain, below).await
    }

    async fn raise_chain_epochs(&self) -> Result<u64, StoreError> {
        self.inner.raise_chain_epochs().await
    }

    async fn restart_chain(&self, chain: ChainId) -> Result<Option<ChainInfo>, StoreError> {
        self.inner.restart_chain(chain).await
    }
}
