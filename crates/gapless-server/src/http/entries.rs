//! The log of a conversation: sending and reading.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use gapless_core::{Append, Operation};
use gapless_proto::{Body, ConvId, Epoch, Key, Seq, UserId};
use gapless_store::{PAGE_ENTRIES_DEFAULT, PageRequest, Reader};
use serde::Deserialize;
use tokio::time::Instant;
use utoipa::ToSchema;

use super::answers::{AppendAnswer, PageAnswer};
use super::query::{Query, QueryError};
use super::request::{InPath, Json};
use crate::auth::Identity;
use crate::gateway::Gateway;
use crate::page_size::shortened;
use crate::refusal::{ErrorBody, Refusal};

/// A message to be sent.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SendRequest {
    /// The sender's name for it. Repeat the request with the same key until it is answered: it is stored once.
    #[schema(value_type = String)]
    key: Key,
    /// Its content: any JSON, stored and passed on byte for byte.
    #[schema(value_type = serde_json::Value)]
    body: Body,
    /// Whose it is, if not the caller's; only for the scope `service`.
    #[schema(value_type = Option<String>)]
    sender: Option<UserId>,
}

/// Sends a message. The answer means that it is on disk.
#[utoipa::path(
    post, path = "/v1/conversations/{conv}/entries", tag = "entries", operation_id = "send",
    params(("conv" = String, Path, description = "the conversation")),
    request_body = SendRequest,
    responses((status = 200, body = AppendAnswer), (status = "default", body = ErrorBody)),
)]
pub(crate) async fn send(
    State(gateway): State<Arc<Gateway>>,
    identity: Identity,
    InPath(conv): InPath<ConvId>,
    Json(request): Json<SendRequest>,
) -> Result<axum::Json<AppendAnswer>, Refusal> {
    let SendRequest { key, body, sender } = request;
    let bytes_max = gateway.config().session.body_bytes_max;
    if body.as_str().len() > bytes_max {
        return Err(Refusal::too_large(bytes_max));
    }
    let operation = Operation::Message { sender: identity.acting_for(sender)?, key, body };
    let append = Append { conv: conv.clone(), authority: identity.authority(), operation };
    let began = Instant::now();
    let outcome = gateway.store().append(append, None).await;
    gateway.meters().count_send(&outcome, began.elapsed());
    Ok(axum::Json(AppendAnswer::new(conv, outcome?)))
}

/// What comes after a cursor, as far as the caller may see it.
#[utoipa::path(
    get, path = "/v1/conversations/{conv}/entries", tag = "entries", operation_id = "read",
    params(
        ("conv" = String, Path, description = "the conversation"),
        ("after" = Option<u64>, Query, description = "the cursor: 0 when left out, then `next_after` of the last page"),
        ("epoch" = Option<u64>, Query, description = "the life of the log that the cursor is from"),
        ("limit" = Option<u32>, Query, description = "how many at most, 1 or more: 50 when left out, never more than 200"),
    ),
    responses((status = 200, body = PageAnswer), (status = "default", body = ErrorBody)),
)]
pub(crate) async fn read(
    State(gateway): State<Arc<Gateway>>,
    identity: Identity,
    InPath(conv): InPath<ConvId>,
    RawQuery(query): RawQuery,
) -> Result<axum::Json<PageAnswer>, Refusal> {
    let request = page_request(conv.clone(), identity.reader(), query.as_deref())?;
    let began = Instant::now();
    let outcome = gateway.store().page(request).await.map(shortened);
    gateway.meters().count_page(&outcome, began.elapsed());
    Ok(axum::Json(PageAnswer::new(conv, outcome?)))
}

fn page_request(conv: ConvId, reader: Reader, query: Option<&str>) -> Result<PageRequest, QueryError> {
    let mut query = Query::parse(query)?;
    let after: Option<Seq> = query.take("after")?;
    let epoch: Option<Epoch> = query.take("epoch")?;
    let limit = query.take_limit()?;
    query.finish(&["after", "epoch", "limit"])?;
    Ok(PageRequest {
        conv,
        reader,
        after: after.unwrap_or_default(),
        epoch,
        limit: limit.unwrap_or(PAGE_ENTRIES_DEFAULT),
    })
}
