//! REST over the store, and what operators ask.

use std::sync::Arc;

use axum::Router;
use axum::routing::get;

use crate::gateway::Gateway;

pub(crate) mod query;

pub(crate) use query::QueryError;

/// All routes but the WebSocket.
pub(crate) fn router() -> Router<Arc<Gateway>> {
    Router::new().route("/live", get(|| async { "ok" }))
}
