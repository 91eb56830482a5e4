//! The store for many gateways: a PostgreSQL database.
//!
//! Writes go through a few lanes ([`lane`]), each with its own connection and group commit ([`commit`]); a pool of connections
//! reads ([`readers`]). Any number of gateways may share the database: who appends holds the lock on the feed's row until the
//! commit, so seqs are contiguous and visible in order whoever assigns them.
//!
//! Statements are prepared by name on connections that stay. So a pooler between here and the database must pool sessions,
//! not transactions.

mod chain;
mod columns;
mod commit;
mod connection;
mod creation;
#[cfg(test)]
mod explained;
mod fault;
mod lane;
mod link;
mod locked;
mod page;
mod readers;
mod reading;
mod rows;
mod schema;
mod statements;
mod upkeep;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use async_trait::async_trait;
use gapless_core::{Append, Appended};
use gapless_proto::{BlockHash, ChainId, ChainPoint, ConvId, Page, Position, Seq, UserId};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;

pub use self::chain::{LOG as CHAIN_LOG, LOG_SEQ as CHAIN_LOG_SEQ};
use self::connection::Connector;
use self::lane::Lane;
use self::readers::Readers;
use self::upkeep::EPOCH_STEP_FEEDS;
use crate::news::NewsSender;
use crate::{
    AppendError, ChainInfo, ChainLogRequest, ChainSlice, ChainStore, ChainValues, ChainValuesRequest,
    CreateError, Creation, FeedHead, FeedInfo, Generation, IngestError, Ingested, Ingestion, KeptBlock,
    LogSlice, Membership, Migrated, NewsReceiver, OpenError, PageError, PageRequest, Store, StoreError,
    TrimmedTo,
};

/// How many commits can be under way at once.
const LANES: usize = 2;

/// Keeps the logs in a PostgreSQL database, which it may share with other gateways.
///
/// Whatever happens to the database or to connections to it, the store works again as soon as the database does;
/// until then everything is answered as [`StoreError::Unreachable`] within seconds.
#[derive(Debug)]
pub struct PostgresStore {
    lanes: Vec<Lane>,
    /// Chains have one of their own, so that a backfill keeps nobody from sending.
    chain_lane: Lane,
    readers: Readers,
    closing: watch::Sender<bool>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl PostgresStore {
    /// Connects to the database and brings its schema up to date.
    ///
    /// With `sslmode=require` in the URL connections are encrypted and the server's certificate must be one that the
    /// system trusts, or that is in the file which `SSL_CERT_FILE` names; else they are plain.
    pub async fn connect(url: &str) -> Result<(Self, NewsReceiver), OpenError> {
        let connector = Connector::new(url)?;
        schema::migrate(&connector).await?;
        let readers = Readers::new(connector.clone())?;
        let (news, receiver) = NewsSender::channel();
        let (closing, closed) = watch::channel(false);
        let start = |_| Lane::start(connector.clone(), news.clone(), closed.clone());
        let (chain_lane, chain_task) = start(LANES);
        let (lanes, mut tasks): (_, Vec<_>) = (0..LANES).map(start).unzip();
        tasks.push(chain_task);
        let store = Self { lanes, chain_lane, readers, closing, tasks: Mutex::new(tasks) };
        Ok((store, receiver))
    }

    /// Brings the database's schema up to date without opening a store on it.
    pub async fn migrate(url: &str) -> Result<Migrated, OpenError> {
        schema::migrate(&Connector::new(url)?).await
    }

    fn lane_of(&self, conv: &ConvId) -> &Lane {
        &self.lanes[self.lane_index(conv)]
    }

    fn lane_index(&self, conv: &ConvId) -> usize {
        let mut hasher = DefaultHasher::new();
        conv.hash(&mut hasher);
        (hasher.finish() % self.lanes.len() as u64) as usize
    }

    async fn raise_all_epochs(&self) -> Result<u64, StoreError> {
        let mut count = 0;
        let mut after = None;
        loop {
            let convs = reading::feeds(&self.readers, after.as_ref(), EPOCH_STEP_FEEDS).await?;
            let Some(last) = convs.last().cloned() else {
                return Ok(count);
            };
            after = Some(last);
            let mut of_lanes: BTreeMap<usize, Vec<ConvId>> = BTreeMap::new();
            for conv in convs {
                of_lanes.entry(self.lane_index(&conv)).or_default().push(conv);
            }
            for (lane, convs) in of_lanes {
                count += self.lanes[lane].raise_epochs(convs).await?;
            }
        }
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn create(&self, creation: Creation) -> Result<Position, CreateError> {
        self.lane_of(&creation.conv).create(creation).await?.ok_or(CreateError::Exists)
    }

    async fn append(&self, append: Append, generation: Option<Generation>) -> Result<Appended, AppendError> {
        self.lane_of(&append.conv).append(append, generation).await
    }

    fn generation(&self, conv: &ConvId) -> Generation {
        self.lane_of(conv).generation()
    }

    async fn page(&self, request: PageRequest) -> Result<Page, PageError> {
        page::page(&self.readers, &request).await
    }

    async fn log(&self, conv: &ConvId, after: Seq, limit: u32) -> Result<Option<LogSlice>, StoreError> {
        reading::log(&self.readers, conv, after, limit).await
    }

    async fn memberships(
        &self,
        user: &UserId,
        after: Option<&ConvId>,
        limit: u32,
    ) -> Result<Vec<Membership>, StoreError> {
        reading::memberships(&self.readers, user, after, limit).await
    }

    async fn membership(&self, conv: &ConvId, user: &UserId) -> Result<Option<Membership>, StoreError> {
        reading::membership(&self.readers, conv, user).await
    }

    async fn members(
        &self,
        conv: &ConvId,
        after: Option<&UserId>,
        limit: u32,
    ) -> Result<Vec<UserId>, StoreError> {
        reading::members(&self.readers, conv, after, limit).await
    }

    async fn heads(&self, convs: &[ConvId]) -> Result<Vec<(ConvId, FeedHead)>, StoreError> {
        reading::heads(&self.readers, convs).await
    }

    async fn info(&self, conv: &ConvId) -> Result<Option<FeedInfo>, StoreError> {
        reading::info(&self.readers, conv).await
    }

    async fn trim(&self, conv: &ConvId, below: Seq) -> Result<Option<TrimmedTo>, StoreError> {
        let mut deleted = 0;
        loop {
            let Some(step) = self.lane_of(conv).trim_step(conv, below).await? else {
                return Ok(None);
            };
            deleted += step.deleted;
            if step.is_last {
                return Ok(Some(TrimmedTo { min_seq: step.min_seq, deleted }));
            }
        }
    }

    async fn raise_epoch(&self, conv: Option<&ConvId>) -> Result<u64, StoreError> {
        match conv {
            Some(conv) => self.lane_of(conv).raise_epochs(vec![conv.clone()]).await,
            None => self.raise_all_epochs().await,
        }
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.readers.query("SELECT 1", &[]).await?;
        for lane in &self.lanes {
            lane.check().await?;
        }
        Ok(())
    }

    async fn close(&self) {
        self.closing.send_replace(true);
        for task in self.tasks.lock().await.drain(..) {
            if let Err(error) = task.await {
                tracing::error!(%error, "a lane of the store panicked");
            }
        }
        self.readers.close();
    }
}

#[async_trait]
impl ChainStore for PostgresStore {
    async fn ingest(&self, chain: ChainId, ingestion: Ingestion) -> Result<Ingested, IngestError> {
        self.chain_lane.ingest(chain, ingestion).await
    }

    async fn chain(&self, chain: ChainId) -> Result<Option<ChainInfo>, StoreError> {
        chain::reading::info(&self.readers, chain).await
    }

    async fn chain_blocks(&self, chain: ChainId, hashes: &[BlockHash]) -> Result<Vec<KeptBlock>, StoreError> {
        chain::reading::blocks(&self.readers, chain, hashes).await
    }

    async fn chain_log(&self, request: ChainLogRequest) -> Result<Option<ChainSlice>, StoreError> {
        chain::reading::log(&self.readers, &request).await
    }

    async fn chain_seq_at(&self, chain: ChainId, point: ChainPoint) -> Result<Option<Seq>, StoreError> {
        chain::reading::seq_at(&self.readers, chain, point).await
    }

    async fn chain_values(&self, request: ChainValuesRequest) -> Result<Option<ChainValues>, StoreError> {
        chain::reading::values(&self.readers, &request).await
    }

    async fn chains(&self, after: Option<ChainId>, limit: u32) -> Result<Vec<ChainId>, StoreError> {
        chain::reading::chains(&self.readers, after, limit).await
    }

    async fn trim_chain(&self, chain: ChainId, below: Seq) -> Result<Option<Seq>, StoreError> {
        loop {
            match self.chain_lane.trim_chain(chain, below).await? {
                Some((_, false)) => {}
                Some((min_seq, true)) => return Ok(Some(min_seq)),
                None => return Ok(None),
            }
        }
    }

    async fn raise_chain_epochs(&self) -> Result<u64, StoreError> {
        self.chain_lane.raise_chain_epochs().await
    }

    async fn restart_chain(&self, chain: ChainId) -> Result<Option<ChainInfo>, StoreError> {
        let info = self.chain_lane.restart_chain(chain).await?;
        while !self.chain_lane.clear_chain(chain).await? {}
        Ok(info)
    }
}

#[cfg(test)]
mod tests;
