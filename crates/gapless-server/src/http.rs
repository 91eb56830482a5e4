//! REST over the store, and what operators ask.

use std::sync::Arc;

use axum::routing::MethodRouter;
use axum::{Router, middleware};
use utoipa::OpenApi as _;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::exposition;
use crate::gateway::Gateway;
use crate::refusal::Refusal;

mod admin;
mod answers;
mod chain_events;
mod chains;
mod conversations;
mod cors;
mod digests;
mod entries;
mod events;
pub(crate) mod health;
mod loopback;
mod members;
mod openapi;
pub(crate) mod query;
mod request;
mod tables;
mod topics;
mod watch;

pub(crate) use query::QueryError;

/// All that a gateway serves, given what makes WebSockets.
pub(crate) fn service(gateway: &Arc<Gateway>, websocket: MethodRouter<Arc<Gateway>>) -> Router {
    exposition::install();
    watch::describe();
    let (routes, description) = OpenApiRouter::with_openapi(openapi::Description::openapi())
        .routes(routes!(conversations::create, conversations::list))
        .routes(routes!(conversations::show))
        .routes(routes!(members::list))
        .routes(routes!(members::add, members::remove))
        .routes(routes!(entries::send, entries::read))
        .routes(routes!(chains::ingest))
        .routes(routes!(chains::show))
        .routes(routes!(chain_events::read))
        .routes(routes!(chains::trim))
        .routes(routes!(chains::restart))
        .routes(routes!(events::stream))
        .routes(routes!(tables::show))
        .routes(routes!(tables::sync))
        .routes(routes!(tables::sync_named))
        .routes(routes!(digests::digest))
        .routes(routes!(digests::rows))
        .routes(routes!(admin::trim))
        .routes(routes!(admin::raise_epoch))
        .routes(routes!(admin::raise_all_epochs))
        .routes(routes!(admin::kick))
        .routes(routes!(admin::mint))
        .routes(routes!(health::live))
        .routes(routes!(health::ready))
        .routes(routes!(health::metrics))
        .split_for_parts();
    let config = gateway.config();
    let cors = cors::layer(&config.http.origins, gateway.authenticator().is_open());
    routes
        .route("/v1/ws", websocket)
        .route("/v1/openapi.json", openapi::serving(&description))
        .fallback(async || Refusal::no_route())
        .method_not_allowed_fallback(async || Refusal::wrong_method())
        .layer(cors)
        .layer(middleware::from_fn_with_state(Arc::clone(gateway), loopback::guard))
        .layer(middleware::from_fn_with_state(Arc::clone(gateway), watch::watch))
        .with_state(Arc::clone(gateway))
}
