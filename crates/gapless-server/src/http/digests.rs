//! What copies of tables are compared with.

use std::sync::Arc;

use axum::extract::State;
use gapless_tables::{KeyRange, RangeDigest, RowDigest};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::request::{InPath, Json};
use super::tables::served;
use crate::auth::Identity;
use crate::gateway::Gateway;
use crate::refusal::{ErrorBody, Refusal};

/// Which rows.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DigestRequest {
    /// The key before the first row, as the texts of its columns; left out, from the first row on.
    after: Option<Vec<String>>,
    /// The last key; left out, up to the last row.
    up_to: Option<Vec<String>>,
    /// The hash of each row instead of their sum: of so many rows, from 1 to 10,000.
    rows: Option<u32>,
}

/// What the rows come to.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum DigestAnswer {
    /// All of them.
    #[schema(value_type = Object)]
    Sum(RangeDigest),
    /// Each of them.
    Rows {
        /// `{key, digest}` in the order of the keys.
        #[schema(value_type = Vec<serde_json::Value>)]
        rows: Vec<RowDigest>,
    },
}

/// What says whether a copy holds the same rows: `{rows, digest}` of a range, or `{key, digest}` of each row. docs/tables.md tells how
/// it is computed.
#[utoipa::path(
    post, path = "/v1/tables/{table}/digest", tag = "tables", operation_id = "digest_table",
    params(("table" = String, Path, description = "the table")),
    request_body = DigestRequest,
    responses((status = 200, body = DigestAnswer), (status = "default", body = ErrorBody)),
)]
pub(crate) async fn digest(
    State(gateway): State<Arc<Gateway>>,
    identity: Identity,
    InPath(name): InPath<String>,
    Json(request): Json<DigestRequest>,
) -> Result<axum::Json<DigestAnswer>, Refusal> {
    let source = served(&gateway, &identity, &name)?.source().await?;
    let DigestRequest { after, up_to, rows } = request;
    let range = KeyRange { after, up_to };
    Ok(axum::Json(match rows {
        None => DigestAnswer::Sum(source.digest(&range).await?),
        Some(limit) => DigestAnswer::Rows { rows: source.row_digests(&range, limit).await? },
    }))
}
