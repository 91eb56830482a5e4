//! What copies of tables are compared with.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use gapless_tables::{KeyRange, KeyedRows, RangeDigest, RowDigest};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::request::{InPath, Json};
use super::tables::{form, served, written};
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
    /// The sum of so many rows only, from 1 to 1,000,000; `up_to` in the answer is the key of the last of them.
    limit: Option<u32>,
    /// The hash of each row that has one of these keys, at most 1,000, instead of a range.
    keys: Option<Vec<Vec<String>>>,
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
    let table = served(&gateway, &identity, &name)?;
    let DigestRequest { after, up_to, rows, limit, keys } = request;
    let (range, keys) = (&KeyRange { after, up_to }, keys.as_deref());
    match (keys, rows, limit) {
        (None, None, _) | (None, Some(_), None) => {}
        (Some(_), None, None) if *range == KeyRange::default() => {}
        (None, Some(_), Some(_)) => {
            return Err(Refusal::bad_request("`rows` has a limit already; leave `limit` out"));
        }
        (Some(_), _, _) => {
            return Err(Refusal::bad_request("`keys` stands alone; leave the range and its limits out"));
        }
    }
    let answer = table.ask(|source| async move {
        Ok(match (keys, rows) {
            (Some(keys), _) => DigestAnswer::Rows { rows: source.key_digests(keys).await? },
            (None, Some(rows)) => DigestAnswer::Rows { rows: source.row_digests(range, rows).await? },
            (None, None) => DigestAnswer::Sum(source.digest(range, limit).await?),
        })
    });
    Ok(axum::Json(answer.await?))
}

/// Which rows.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RowsRequest {
    /// Their keys, each the texts of its columns; from 1 to 1,000.
    keys: Vec<Vec<String>>,
}

/// Rows by their keys, as they are now: a record for each key, in the order of the keys, an upsert or, if there is no such row, a delete. A
/// copy is mended with them. Fewer come if they would have more than 8 MiB; ask again for the rest.
#[utoipa::path(
    post, path = "/v1/tables/{table}/rows", tag = "tables", operation_id = "read_table_rows",
    params(("table" = String, Path, description = "the table")),
    request_body = RowsRequest,
    responses((status = 200, body = serde_json::Value), (status = "default", body = ErrorBody)),
)]
pub(crate) async fn rows(
    State(gateway): State<Arc<Gateway>>,
    identity: Identity,
    InPath(name): InPath<String>,
    headers: HeaderMap,
    Json(request): Json<RowsRequest>,
) -> Result<Response, Refusal> {
    let form = form(&headers)?;
    let (table, keys) = (served(&gateway, &identity, &name)?, request.keys.as_slice());
    let KeyedRows { head, rows } = table.ask(|source| async move { source.rows(keys, form).await }).await?;
    let tail = RowsTail { schema_version: &head.schema_version };
    Ok(written(form, &tail, &head, &rows))
}

/// What is said about rows without their count, as it stands behind the records.
#[derive(Serialize)]
struct RowsTail<'a> {
    schema_version: &'a str,
}
