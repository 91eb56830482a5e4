//! The events of a chain in pages, for those who ask again and again.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use gapless_proto::Cursor;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::chains::chain_id;
use super::query::Query;
use super::request::InPath;
use super::topics::TopicsQuery;
use crate::auth::Identity;
use crate::chains::{Begin, ChainPage, TopicName};
use crate::gateway::Gateway;
use crate::refusal::{ErrorBody, Refusal};

/// How many entries a page has when nobody says.
const ENTRIES_DEFAULT: u32 = 200;

/// What comes after a cursor.
#[derive(Serialize, ToSchema)]
pub(crate) struct ChainPageAnswer {
    /// The chain. A text, since JavaScript can't keep such numbers exact.
    chain: String,
    /// The cursor to go on with, also when there are no events.
    #[schema(value_type = String)]
    cursor: Cursor,
    /// Whether there is more at once.
    has_more: bool,
    /// The `event`s and `revoke`s as they are told to a subscriber, without `sub`.
    #[schema(value_type = Vec<serde_json::Value>)]
    events: Vec<Box<RawValue>>,
}

/// Reads one page of what a subscriber would be told. Who pages from cursor to cursor is told the same as who stays.
#[utoipa::path(
    get, path = "/v1/chains/{chain}/events", tag = "chains", operation_id = "chain_events",
    params(
        ("chain" = String, Path, description = "the chain id"),
        ("topics" = String, Query, description = "the topics, with commas between, as in `chain:1:transfers`"),
        ("cursor" = Option<String>, Query, description = "the position that is held; without it, nothing but the newest position is told"),
        ("mode" = Option<String>, Query, description = "`instant` (when left out), or `confirmed`"),
        ("limit" = Option<u32>, Query, description = "how many entries at most; 200 when left out, at most 1,000"),
    ),
    responses((status = 200, body = ChainPageAnswer), (status = "default", body = ErrorBody)),
)]
pub(crate) async fn read(
    State(gateway): State<Arc<Gateway>>,
    identity: Identity,
    InPath(chain): InPath<String>,
    RawQuery(query): RawQuery,
) -> Result<axum::Json<ChainPageAnswer>, Refusal> {
    let mut query = Query::parse(query.as_deref())?;
    let TopicsQuery { topics, cursor, mode } = TopicsQuery::take(&mut query, &identity)?;
    let limit = query.take_limit()?.unwrap_or(ENTRIES_DEFAULT);
    query.finish(&["topics", "cursor", "mode", "limit"])?;
    let (of_topics, topics) = TopicName::parse_all(&topics)?;
    if chain_id(&chain)? != of_topics {
        let message =
            format!("the topics are of the chain {of_topics}; ask for /v1/chains/{of_topics}/events");
        return Err(Refusal::bad_request(message));
    }
    let mode = mode.unwrap_or_default();
    let begin = Begin { chain: of_topics, topics, cursor, mode, snapshot: false };
    let ChainPage { cursor, has_more, events } = begin.page(gateway.chains(), limit).await?;
    Ok(axum::Json(ChainPageAnswer { chain: of_topics.to_string(), cursor, has_more, events }))
}
