//! What surrounds every request: its id in the log, its time limit, its count.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures_util::FutureExt as _;
use tokio::time::{self, Instant};
use tracing::Instrument as _;

use super::query;
use crate::gateway::Gateway;
use crate::refusal::Refusal;

/// Names a request in the log; in every answer, so that the two can be found together.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What operators do may go over all there is, and take its time.
const ADMINISTRATION: &str = "/v1/admin/";
const ADMINISTRATION_MAX: Duration = Duration::from_secs(3600);

/// Carries out a request within its limits, and counts it. Its query is never logged: a token may stand there.
pub(super) async fn watch(State(gateway): State<Arc<Gateway>>, request: Request, next: Next) -> Response {
    let id = format!("{:016x}", rand::random::<u64>());
    let method = known(request.method());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map_or("none", MatchedPath::as_str);
    let span = tracing::info_span!("request", id, method, route);
    let started = Instant::now();

    let mut response = match query::check_path(request.uri().path()) {
        Ok(()) => {
            let limit = if route.starts_with(ADMINISTRATION) {
                ADMINISTRATION_MAX
            } else {
                gateway.config().http.request_max
            };
            carry_out(next.run(request), limit).instrument(span.clone()).await
        }
        Err(error) => Refusal::from(error).into_response(),
    };

    count(method, route, response.status(), started.elapsed());
    span.in_scope(|| tracing::debug!(status = response.status().as_u16(), "answered"));
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, HeaderValue::from_str(&id).expect("hex digits fit into a header"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Waits for the answer; gives up after `limit`, and survives a panic.
async fn carry_out(answer: impl Future<Output = Response>, limit: Duration) -> Response {
    match time::timeout(limit, AssertUnwindSafe(answer).catch_unwind()).await {
        Ok(Ok(response)) => response,
        Ok(Err(_panic)) => {
            tracing::error!("a request panicked; the panic's own message is above");
            Refusal::fault().into_response()
        }
        Err(_elapsed) => Refusal::timed_out().into_response(),
    }
}

fn count(method: &'static str, route: &str, status: StatusCode, took: Duration) {
    let route = route.to_owned();
    let status = status.as_u16().to_string();
    metrics::counter!("gapless_http_requests_total", "method" => method, "route" => route.clone(), "status" => status)
        .increment(1);
    metrics::histogram!("gapless_http_request_seconds", "method" => method, "route" => route).record(took);
}

/// A method by name; those that no route takes under one name, so that nobody can make up metrics.
fn known(method: &Method) -> &'static str {
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS]
        .iter()
        .zip(["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"])
        .find_map(|(known, name)| (known == method).then_some(name))
        .unwrap_or("other")
}

/// Tells Prometheus what is counted here.
pub(super) fn describe() {
    metrics::describe_counter!(
        "gapless_http_requests_total",
        "HTTP requests, by what they were answered with"
    );
    metrics::describe_histogram!(
        "gapless_http_request_seconds",
        metrics::Unit::Seconds,
        "from the headers of an HTTP request to its answer"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn a_request_that_takes_too_long_is_given_up() {
        let answer = carry_out(std::future::pending(), LIMIT).await;
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(answer.headers().contains_key(header::RETRY_AFTER));
    }

    #[tokio::test]
    async fn a_request_that_panics_is_a_fault_of_ours() {
        let answer = carry_out(async { panic!("on purpose") }, LIMIT).await;
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    }
}
