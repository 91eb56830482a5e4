//! Whether this server is well, for those that watch over it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use gapless_store::StoreError;
use serde::Serialize;
use tokio::time;
use utoipa::ToSchema;

use crate::exposition;
use crate::gateway::Gateway;
use crate::store_trouble;

/// How this server is.
#[derive(Serialize, ToSchema)]
pub(crate) struct HealthAnswer {
    /// `live` or `ready`; if it isn't ready, why: `draining`, `store_unavailable` or `chain_stalled`.
    status: &'static str,
    /// The chains that this server follows and that stand still though their nodes have more.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    chains: Vec<String>,
    /// The tables that can't be read, by their names: `unreadable`. The others are served, so that this alone doesn't make it less ready.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(required = false)]
    tables: BTreeMap<String, &'static str>,
}

/// How long the store may take to say that it is well.
const STORE_CHECK_MAX: Duration = Duration::from_secs(2);

/// Whether the process is up. Restart it if it doesn't answer.
#[utoipa::path(
    get, path = "/live", tag = "health", operation_id = "live", security(()),
    responses((status = 200, body = HealthAnswer)),
)]
pub(crate) async fn live() -> Json<HealthAnswer> {
    Json(HealthAnswer { status: "live", chains: Vec::new(), tables: BTreeMap::new() })
}

/// Whether it can serve. Send it no clients if it can't.
#[utoipa::path(
    get, path = "/ready", tag = "health", operation_id = "ready", security(()),
    responses((status = 200, body = HealthAnswer), (status = 503, body = HealthAnswer)),
)]
pub(crate) async fn ready(State(gateway): State<Arc<Gateway>>) -> (StatusCode, Json<HealthAnswer>) {
    let stalled = gateway.tips().stalled(gateway.config().chains.stall_max);
    let chains: Vec<_> = stalled.iter().map(ToString::to_string).collect();
    let (code, status) = if gateway.is_draining() {
        (StatusCode::SERVICE_UNAVAILABLE, "draining")
    } else if let Err(error) = check_store(&gateway).await {
        store_trouble::tell(&error, "say that it is well");
        (StatusCode::SERVICE_UNAVAILABLE, "store_unavailable")
    } else if !chains.is_empty() {
        (StatusCode::SERVICE_UNAVAILABLE, "chain_stalled")
    } else {
        (StatusCode::OK, "ready")
    };
    let unreadable = gateway.tables().iter().filter(|table| !table.is_readable());
    let tables = unreadable.map(|table| (table.name().to_owned(), "unreadable")).collect();
    (code, Json(HealthAnswer { status, chains, tables }))
}

async fn check_store(gateway: &Gateway) -> Result<(), StoreError> {
    let check = time::timeout(STORE_CHECK_MAX, gateway.store().check()).await;
    check.unwrap_or_else(|elapsed| Err(StoreError::Unreachable(elapsed.into())))
}

/// What this server counts, as Prometheus reads it.
#[utoipa::path(
    get, path = "/metrics", tag = "health", operation_id = "metrics", security(()),
    responses((status = 200, body = String, content_type = "text/plain")),
)]
pub(crate) async fn metrics() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], exposition::render())
}
