//! Subscriptions as server-sent events, for whoever has no WebSocket.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, header};
use axum::response::sse::{Event, KeepAlive};
use axum::response::{IntoResponse as _, Response, Sse};
use futures_util::stream::{StreamExt as _, once};
use tokio::time::timeout;

use super::query::Query;
use super::topics::{TopicsQuery, read_cursor};
use crate::auth::{Identity, unix_now};
use crate::gateway::Gateway;
use crate::refusal::{ErrorBody, Refusal};
use crate::subscription::{Begun, Wanted};
use crate::told::{ReaderPosition, Told};

/// After how much silence a comment is sent, so that proxies keep the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The soonest that a client comes back.
const RETRY_MIN: Duration = Duration::from_millis(500);

/// Follows topics. Each event has the cursor as its id, so that an `EventSource` that comes back goes on where it was.
#[utoipa::path(
    get, path = "/v1/events", tag = "events", operation_id = "events",
    params(
        ("topics" = String, Query, description = "the topics, with commas between, as in `chain:1:transfers`; or a table, as in `table:orders`"),
        ("cursor" = Option<String>, Query, description = "the position that is held; the header `Last-Event-ID` counts more"),
        ("mode" = Option<String>, Query, description = "`instant` (when left out), or `confirmed`"),
        ("snapshot" = Option<bool>, Query, description = "whether the values of the topics, or all rows of the table, are wanted first"),
        ("Last-Event-ID" = Option<String>, Header, description = "the position that is held"),
    ),
    responses((status = 200, content_type = "text/event-stream", body = String), (status = "default", body = ErrorBody)),
)]
pub(crate) async fn stream(
    State(gateway): State<Arc<Gateway>>,
    identity: Identity,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let wanted = wanted(&identity, &headers, query.as_deref())?;
    let retry = retry(gateway.config().drain.reconnect_spread);
    let Begun { subscription, cursor } = match wanted.begin(&gateway).await {
        Ok(begun) => begun,
        // An `EventSource` gives up at any status but 200, and comes back after a stream that ends.
        Err(refusal) if refusal.retry_after.is_some() && is_event_source(&headers) => {
            refusal.log();
            return Ok(Sse::new(once(async move { Ok::<_, Infallible>(retry) })).into_response());
        }
        Err(refusal) => return Err(refusal),
    };
    // Tells the client where it begins, should nothing happen before it has to come back.
    let first = retry.event("subscribed").id(cursor.as_str()).data("{}");
    let events = once(async { first }).chain(subscription.map(|told| event(&told)));
    let counted = gateway.meters().count_event_stream();
    let expiry = identity
        .expires_at
        .map(|expires_at| Duration::from_millis(expires_at.get().saturating_sub(unix_now().get())));
    let ends = async move {
        let drained = gateway.drained();
        match expiry {
            Some(life) => drop(timeout(life, drained).await),
            None => drained.await,
        }
        drop(counted);
    };
    let events = events.take_until(Box::pin(ends)).map(Ok::<_, Infallible>);
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response())
}

/// Says when to come back after the connection ends: not all at the same time.
fn retry(spread: Duration) -> Event {
    Event::default().retry(rand::random_range(RETRY_MIN..=RETRY_MIN.max(spread)))
}

fn is_event_source(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).into_iter().filter_map(|accept| accept.to_str().ok());
    accepted.flat_map(|accept| accept.split(',')).any(|kind| kind.trim().starts_with("text/event-stream"))
}

fn wanted(identity: &Identity, headers: &HeaderMap, query: Option<&str>) -> Result<Wanted, Refusal> {
    let mut query = Query::parse(query)?;
    let TopicsQuery { topics, cursor, mode } = TopicsQuery::take(&mut query, identity)?;
    let snapshot: Option<bool> = query.take("snapshot")?;
    query.finish(&["topics", "cursor", "mode", "snapshot"])?;
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let last = last.filter(|last| !last.is_empty()).map(read_cursor).transpose()?;
    Wanted::new(&topics, last.or(cursor), mode, snapshot.unwrap_or_default())
}

fn event(told: &Told) -> Event {
    let event = Event::default().event(told.name()).data(told.data());
    match told.position() {
        ReaderPosition::At(cursor) => event.id(cursor.as_str()),
        ReaderPosition::Kept => event,
        // It comes back with no position, since the one that it holds would only be refused again.
        ReaderPosition::Lost => event.id(""),
    }
}
