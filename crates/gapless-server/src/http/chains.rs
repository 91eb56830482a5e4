//! The feeds of chains, for those who have an indexer of their own.

use std::sync::Arc;

use axum::extract::State;
use gapless_proto::{
    Block, BlockHash, BlockNumber, BlockRef, ChainId, Epoch, ErrorCode, Seq, check_chain_topic,
};
use gapless_store::{ChainInfo, Ingestion};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::admin::Admin;
use super::request::{InPath, Json, LargeJson};
use crate::auth::Identity;
use crate::gateway::Gateway;
use crate::refusal::{ErrorBody, Refusal};

/// Blocks to be taken.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct IngestRequest {
    /// The blocks, oldest first, at most 1,000; each with its events, `{number, hash, parent, time, events: [{log, topic, payload, changes?}]}`.
    #[serde(default)]
    #[schema(value_type = Vec<serde_json::Value>)]
    blocks: Vec<Block>,
    /// The block that is the newest in the end, where that isn't the last of the new ones: so a chain comes back to a branch that it
    /// had left.
    #[schema(value_type = Option<String>)]
    head: Option<BlockHash>,
    /// Up to which height the chain never changes again; at most the newest block counts.
    #[schema(value_type = Option<u64>)]
    finalized: Option<BlockNumber>,
}

/// Where the feed of a chain is.
#[derive(Serialize, ToSchema)]
pub(crate) struct ChainAnswer {
    /// The chain. A text, since JavaScript can't keep such numbers exact.
    chain: String,
    /// The life of the log.
    #[schema(value_type = u64)]
    epoch: Epoch,
    /// The newest seq.
    #[schema(value_type = u64)]
    head: Seq,
    /// The oldest seq that is kept.
    #[schema(value_type = u64)]
    min_seq: Seq,
    /// The newest canonical block, `{number, hash}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    block: Option<BlockRef>,
    /// Up to which height the chain never changes again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    finalized: Option<BlockNumber>,
}

/// What an ingestion came to.
#[derive(Serialize, ToSchema)]
pub(crate) struct IngestAnswer {
    #[serde(flatten)]
    chain: ChainAnswer,
    /// How many of the blocks were new.
    taken: usize,
    /// How many blocks that were canonical aren't any more.
    revoked: usize,
}

impl ChainAnswer {
    fn new(chain: ChainId, info: ChainInfo) -> Self {
        let ChainInfo { epoch, head, min_seq, block, finalized, rewound: _, anew_after: _ } = info;
        Self { chain: chain.to_string(), epoch, head, min_seq, block, finalized }
    }
}

/// Takes blocks of a chain, all of them or none. It may be repeated: what is there already is passed over.
#[utoipa::path(
    post, path = "/v1/chains/{chain}/blocks", tag = "chains", operation_id = "ingest",
    params(("chain" = String, Path, description = "the chain id")),
    request_body = IngestRequest,
    responses((status = 200, body = IngestAnswer), (status = "default", body = ErrorBody)),
)]
pub(crate) async fn ingest(
    State(gateway): State<Arc<Gateway>>,
    identity: Identity,
    InPath(chain): InPath<String>,
    LargeJson(request): LargeJson<IngestRequest>,
) -> Result<axum::Json<IngestAnswer>, Refusal> {
    if !identity.acts_for_others() {
        return Err(Refusal::forbidden(
            "only a backend hands in blocks; make a token for it with `gapless token --user NAME --scope service`",
        ));
    }
    let chain = chain_id(&chain)?;
    let IngestRequest { blocks, head, finalized } = request;
    for event in blocks.iter().flat_map(|block| &block.events) {
        check_chain_topic(chain, &event.topic).map_err(|error| Refusal::bad_request(error.to_string()))?;
    }
    let window = gateway.config().chains.reorg_blocks_max;
    let ingested = gateway.store().ingest(chain, Ingestion { blocks, head, finalized, window }).await?;
    if ingested.revoked > 0 {
        tracing::info!(%chain, blocks = ingested.revoked, "a reorg");
    }
    Ok(axum::Json(IngestAnswer {
        chain: ChainAnswer::new(chain, ingested.chain),
        taken: ingested.taken,
        revoked: ingested.revoked,
    }))
}

/// Where the feed of a chain is.
#[utoipa::path(
    get, path = "/v1/chains/{chain}", tag = "chains", operation_id = "show_chain",
    params(("chain" = String, Path, description = "the chain id")),
    responses((status = 200, body = ChainAnswer), (status = "default", body = ErrorBody)),
)]
pub(crate) async fn show(
    State(gateway): State<Arc<Gateway>>,
    _identity: Identity,
    InPath(chain): InPath<String>,
) -> Result<axum::Json<ChainAnswer>, Refusal> {
    let chain = chain_id(&chain)?;
    let info = gateway.store().chain(chain).await?.ok_or_else(|| no_feed(chain))?;
    Ok(axum::Json(ChainAnswer::new(chain, info)))
}

/// Up to where to trim.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TrimChainRequest {
    /// Entries with a smaller seq go.
    #[schema(value_type = u64)]
    below: Seq,
}

/// Deletes the oldest entries of a chain's log; its head stays, and so do the newest values, and what a reorg may still take back.
#[utoipa::path(
    post, path = "/v1/admin/chains/{chain}/trim", tag = "admin", operation_id = "trim_chain",
    params(("chain" = String, Path, description = "the chain id")),
    request_body = TrimChainRequest,
    responses((status = 200, body = ChainAnswer), (status = "default", body = ErrorBody)),
)]
pub(crate) async fn trim(
    State(gateway): State<Arc<Gateway>>,
    Admin(identity): Admin,
    InPath(chain): InPath<String>,
    Json(TrimChainRequest { below }): Json<TrimChainRequest>,
) -> Result<axum::Json<ChainAnswer>, Refusal> {
    let chain = chain_id(&chain)?;
    let min_seq = gateway.store().trim_chain(chain, below).await?.ok_or_else(|| no_feed(chain))?;
    tracing::info!(%chain, %min_seq, by = %identity.user, "trimmed");
    let info = gateway.store().chain(chain).await?.ok_or_else(|| no_feed(chain))?;
    Ok(axum::Json(ChainAnswer::new(chain, info)))
}

/// Begins the feed of a chain anew, after a reorg deeper than what can be taken back. All readers start over.
#[utoipa::path(
    post, path = "/v1/admin/chains/{chain}/restart", tag = "admin", operation_id = "restart_chain",
    params(("chain" = String, Path, description = "the chain id")),
    responses((status = 200, body = ChainAnswer), (status = "default", body = ErrorBody)),
)]
pub(crate) async fn restart(
    State(gateway): State<Arc<Gateway>>,
    Admin(identity): Admin,
    InPath(chain): InPath<String>,
) -> Result<axum::Json<ChainAnswer>, Refusal> {
    let chain = chain_id(&chain)?;
    let info = gateway.store().restart_chain(chain).await?.ok_or_else(|| no_feed(chain))?;
    tracing::warn!(%chain, by = %identity.user, "the feed of a chain begins anew");
    Ok(axum::Json(ChainAnswer::new(chain, info)))
}

pub(super) fn chain_id(text: &str) -> Result<ChainId, Refusal> {
    text.parse().map_err(|error| Refusal::bad_request(format!("{error}")))
}

fn no_feed(chain: ChainId) -> Refusal {
    let message = format!("there is no feed of the chain {chain}; its blocks have to come first");
    Refusal::new(ErrorCode::NotFound, message)
}
