//! Lets web pages of other origins use the server, as its operator has chosen.

use std::time::Duration;

use axum::http::{HeaderName, Method, header};
use tower_http::cors::{AllowOrigin, Any, CorsLayer};

use super::loopback;
use crate::config::Origins;

/// How long a browser may remember what it was allowed.
const REMEMBERED: Duration = Duration::from_secs(600);

/// Answers what browsers ask before a request of a page, and tells them whose pages may read the answer. Tokens are never sent
/// by a browser on its own, so any origin may be allowed without lending its visitors' rights to a page.
pub(super) fn layer(origins: &Origins, is_open: bool) -> CorsLayer {
    let layer = CorsLayer::new()
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::DELETE])
        .allow_headers([
            header::AUTHORIZATION,
            header::CONTENT_TYPE,
            HeaderName::from_static("last-event-id"),
        ])
        .expose_headers([HeaderName::from_static("x-request-id"), header::RETRY_AFTER])
        .max_age(REMEMBERED);
    match origins {
        Origins::Any => layer.allow_origin(Any),
        Origins::These(origins) => {
            let origins = origins.clone();
            layer.allow_origin(AllowOrigin::predicate(move |origin, _| {
                let is_own = || origin.to_str().is_ok_and(loopback::is_loopback_origin);
                origins.contains(origin) || is_open && is_own()
            }))
        }
    }
}
