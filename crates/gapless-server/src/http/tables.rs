//! Rows of tables, page by page.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use gapless_tables::{BINARY_ROWS, Form, NDJSON, Page, PageHead, PageRequest, Served, TEXT_ROWS};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep_until};
use utoipa::ToSchema;

use super::request::{InPath, Json};
use crate::auth::Identity;
use crate::gateway::Gateway;
use crate::live_tables::Attached;
use crate::refusal::{ErrorBody, Refusal};

/// How many rows a page has when nobody says.
const ROWS_DEFAULT: u32 = 100;
/// How long a page may be waited for.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// What is asked for.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SyncRequest {
    /// The table; only where the path doesn't say it.
    table: Option<String>,
    /// The `next_cursor` of the page before; without it, the page is the first.
    cursor: Option<String>,
    /// The most rows, from 1 to 10,000; 100 when left out.
    limit: Option<u32>,
    /// Without a cursor: begin with rows that were changed at this time or later, as in `2026-01-31T12:00:00Z`.
    since: Option<String>,
    /// How long to wait while there is nothing, in milliseconds; at most 20,000.
    wait_ms: Option<u64>,
}

/// A page.
#[derive(Serialize, ToSchema)]
#[allow(dead_code, reason = "it describes what is written piece by piece")]
pub(crate) struct SyncAnswer {
    /// The rows, `{op: "upsert", row: {…}}` or `{op: "delete", key: {…}}`, to be applied in this order.
    records: Vec<serde_json::Value>,
    /// Whether there is more at once.
    has_more: bool,
    /// Where to go on, also when there are no records; keep it together with them.
    next_cursor: String,
    /// `strict`, `watched` or `best_effort`.
    consistency: String,
    /// How far the last record is behind while there is more, in milliseconds.
    lag_ms: u64,
    /// What keeps rows from being delivered, if something does.
    held_by: Option<String>,
    /// Changes when the columns do.
    schema_version: String,
}

/// What a copy of a table needs to be.
#[utoipa::path(
    get, path = "/v1/tables/{table}", tag = "tables", operation_id = "show_table",
    params(("table" = String, Path, description = "the table")),
    responses((status = 200, body = serde_json::Value), (status = "default", body = ErrorBody)),
)]
pub(crate) async fn show(
    State(gateway): State<Arc<Gateway>>,
    identity: Identity,
    InPath(name): InPath<String>,
) -> Result<Response, Refusal> {
    let source = served(&gateway, &identity, &name)?.source().await?;
    Ok(axum::Json(source.description()).into_response())
}

/// Reads a page of a table. Applied in their order, the records lead to what the table holds. With `Accept: application/x-ndjson` each
/// record is a line; PROTOCOL.md tells of the binary form.
#[utoipa::path(
    post, path = "/v1/tables/{table}/sync", tag = "tables", operation_id = "sync_table",
    params(("table" = String, Path, description = "the table")),
    request_body = SyncRequest,
    responses((status = 200, body = SyncAnswer), (status = "default", body = ErrorBody)),
)]
pub(crate) async fn sync(
    State(gateway): State<Arc<Gateway>>,
    identity: Identity,
    InPath(name): InPath<String>,
    headers: HeaderMap,
    Json(request): Json<SyncRequest>,
) -> Result<Response, Refusal> {
    if request.table.as_ref().is_some_and(|table| *table != name) {
        return Err(Refusal::bad_request("`table` isn't the table of the path; leave it out"));
    }
    let table = served(&gateway, &identity, &name)?;
    answer(&gateway, table, &headers, request).await
}

/// The same, with the table in the request.
#[utoipa::path(
    post, path = "/sync", tag = "tables", operation_id = "sync",
    request_body = SyncRequest,
    responses((status = 200, body = SyncAnswer), (status = "default", body = ErrorBody)),
)]
pub(crate) async fn sync_named(
    State(gateway): State<Arc<Gateway>>,
    identity: Identity,
    headers: HeaderMap,
    Json(request): Json<SyncRequest>,
) -> Result<Response, Refusal> {
    let name = request.table.clone().ok_or_else(|| {
        Refusal::bad_request("`table` is missing; name it, or ask for /v1/tables/TABLE/sync")
    })?;
    let table = served(&gateway, &identity, &name)?;
    answer(&gateway, table, &headers, request).await
}

/// The table of a name, for those who may read it.
pub(super) fn served<'a>(
    gateway: &'a Gateway,
    identity: &Identity,
    name: &str,
) -> Result<&'a Arc<Served>, Refusal> {
    identity.check_reads_table(name)?;
    gateway.table(name)
}

async fn answer(
    gateway: &Arc<Gateway>,
    table: &Arc<Served>,
    headers: &HeaderMap,
    request: SyncRequest,
) -> Result<Response, Refusal> {
    let SyncRequest { table: _, mut cursor, limit, mut since, wait_ms } = request;
    let form = form(headers)?;
    let wait = Duration::from_millis(wait_ms.unwrap_or(0));
    if wait > WAIT_MAX {
        return Err(Refusal::bad_request("`wait_ms` may be 20000 at most; ask again after that"));
    }
    let until = Instant::now() + wait;
    let attached = (!wait.is_zero()).then(|| gateway.live_tables().get(table).attach(gateway));
    let mut grown = attached.as_ref().map(Attached::grown);
    let mut was_woken = false;
    loop {
        let request = PageRequest { cursor, since, limit: limit.unwrap_or(ROWS_DEFAULT), form };
        let turn = match &attached {
            Some(attached) if was_woken => Some(attached.turn().await),
            Some(_) | None => None,
        };
        let page = table.page(&request).await?;
        drop(turn);
        let is_waiting = page.head.records == 0 && !page.head.has_more && !gateway.is_draining();
        let Some(grown) = grown.as_mut().filter(|_| is_waiting && Instant::now() < until) else {
            return Ok(response(page, form));
        };
        (cursor, since) = (Some(page.head.next_cursor), None);
        was_woken = true;
        tokio::select! {
            _ = grown.changed() => {}
            () = sleep_until(until) => {}
            () = gateway.drained() => {}
        }
    }
}

pub(super) fn form(headers: &HeaderMap) -> Result<Form, Refusal> {
    let Some(accept) = headers.get(header::ACCEPT) else { return Ok(Form::Json) };
    let accept = accept.to_str().unwrap_or_default();
    let is_listed = |name: &str| accept.split(',').any(|kind| kind.trim() == name);
    if is_listed(TEXT_ROWS) {
        Ok(Form::Text)
    } else if is_listed(BINARY_ROWS) {
        Ok(Form::Binary)
    } else if is_listed(NDJSON) {
        Ok(Form::Lines)
    } else if accept.contains("json") || accept.contains("*/*") || accept.is_empty() {
        Ok(Form::Json)
    } else {
        let message = "pages are had as application/json, application/x-ndjson, or application/vnd.gapless.rows; name one of them in `Accept`";
        Err(Refusal::bad_request(message))
    }
}

/// A page without its count, as it stands behind the records.
#[derive(Serialize)]
struct Tail<'a> {
    has_more: bool,
    next_cursor: &'a str,
    consistency: gapless_tables::Consistency,
    lag_ms: u64,
    held_by: Option<&'a str>,
    schema_version: &'a str,
}

impl<'a> Tail<'a> {
    fn new(head: &'a PageHead) -> Self {
        Self {
            has_more: head.has_more,
            next_cursor: &head.next_cursor,
            consistency: head.consistency,
            lag_ms: head.lag_ms,
            held_by: head.held_by.as_deref(),
            schema_version: &head.schema_version,
        }
    }
}

fn response(page: Page, form: Form) -> Response {
    let Page { head, rows } = page;
    written(form, &Tail::new(&head), &head, &rows)
}

/// Records with what is said about them: `tail` stands behind those of JSON, `head` before the others.
pub(super) fn written(form: Form, tail: &impl Serialize, head: &impl Serialize, rows: &[u8]) -> Response {
    let (kind, body) = match form {
        Form::Json => {
            let tail = json(tail);
            ("application/json", [br#"{"records":["#.as_slice(), rows, b"],", &tail[1..]].concat())
        }
        Form::Lines => (NDJSON, [rows, br#"{"page":"#.as_slice(), &json(tail), b"}\n"].concat()),
        Form::Binary | Form::Text => {
            let head = json(head);
            let length = u32::try_from(head.len()).expect("a head is short").to_be_bytes();
            let kind = if form == Form::Text { TEXT_ROWS } else { BINARY_ROWS };
            (kind, [&length, head.as_slice(), rows].concat())
        }
    };
    ([(header::CONTENT_TYPE, HeaderValue::from_static(kind))], body).into_response()
}

fn json(said: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(said).expect("it holds only texts and numbers")
}
