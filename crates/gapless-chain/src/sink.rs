//! Where blocks go.

use std::sync::Arc;

use async_trait::async_trait;
use gapless_proto::{BlockHash, ChainId};
use gapless_store::{ChainInfo, ChainStore, IngestError, Ingested, Ingestion, KeptBlock, StoreError};

/// What the follower needs of a store; see [`ChainStore`] for what each promises.
#[async_trait]
pub trait Sink: Send + Sync {
    /// Takes blocks, oldest first; all of them or none.
    async fn ingest(&self, chain: ChainId, ingestion: Ingestion) -> Result<Ingested, IngestError>;

    /// Where the feed of a chain is; `None` when there is none.
    async fn chain(&self, chain: ChainId) -> Result<Option<ChainInfo>, StoreError>;

    /// The blocks that are kept, canonical or not, of these hashes.
    async fn chain_blocks(&self, chain: ChainId, hashes: &[BlockHash]) -> Result<Vec<KeptBlock>, StoreError>;
}

#[async_trait]
impl<S: ChainStore + ?Sized> Sink for Arc<S> {
    async fn ingest(&self, chain: ChainId, ingestion: Ingestion) -> Result<Ingested, IngestError> {
        (**self).ingest(chain, ingestion).await
    }

    async fn chain(&self, chain: ChainId) -> Result<Option<ChainInfo>, StoreError> {
        (**self).chain(chain).await
    }

    async fn chain_blocks(&self, chain: ChainId, hashes: &[BlockHash]) -> Result<Vec<KeptBlock>, StoreError> {
        (**self).chain_blocks(chain, hashes).await
    }
}
