//! Whether the server is well.

use std::time::{Duration, Instant};

use gapless_proto::{BlockNumber, ChainId};
use gapless_server::AuthConfig;
use gapless_testkit::Postgres;
use serde_json::json;
use tempfile::TempDir;

use super::api::Api;
use crate::client::within;
use crate::test_server::TestServer;

#[tokio::test]
async fn a_server_with_its_store_is_live_and_ready() {
    let server = Api::start().await;
    assert_eq!(server.anonymous().get("/live").await.done(), json!({"status": "live"}));
    assert_eq!(server.anonymous().get("/ready").await.done(), json!({"status": "ready"}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_store_a_server_is_live_and_says_later_in_its_own_words() {
    let mut postgres = Postgres::start().unwrap();
    let server = on(&postgres).await;
    let alice = server.anonymous().with_header("x-gapless-user", "alice");
    alice.post("/v1/conversations", &json!({"conv": "c"})).await.done();

    postgres.kill_9().unwrap();
    let ready = server.anonymous().get("/ready").await;
    assert_eq!((ready.status.as_u16(), ready.body.as_str()), (503, r#"{"status":"store_unavailable"}"#));
    server.anonymous().get("/live").await.done();
    let send = json!({"key": "k", "body": 1});
    let refused = alice.post("/v1/conversations/c/entries", &send).await;
    let message = refused.refused(503, "UNAVAILABLE");
    assert_eq!(message, "the server can't serve this at the moment; try again, a send with the same key");
    assert!(
        refused.headers.contains_key("retry-after") && refused.body.contains("retry_after_ms"),
        "{refused}"
    );

    postgres.restart().unwrap();
    let taken = within(async {
        loop {
            let answer = alice.post("/v1/conversations/c/entries", &send).await;
            if answer.status.is_success() {
                return answer.done();
            }
            answer.refused(503, "UNAVAILABLE");
        }
    });
    assert_eq!(taken.await["seq"], 2);
    server.anonymous().get("/ready").await.done();
}

#[tokio::test]
async fn a_server_whose_chain_stands_still_while_its_node_has_more_is_not_ready() {
    let stall_max = Duration::from_millis(50);
    let server = Api::start_with(|config| config.chains.stall_max = stall_max).await;
    let number = |number| BlockNumber::new(number).unwrap();
    let chain = ChainId::new(u64::MAX);
    let begun = Instant::now();
    let answer = within(async {
        loop {
            server.tips().handle_heads(chain, number(20), Some(number(9)));
            let answer = server.anonymous().get("/ready").await;
            if !answer.status.is_success() {
                break answer;
            }
        }
    });
    let answer = answer.await;
    assert!(begun.elapsed() >= stall_max, "it was given no time");
    assert_eq!(answer.status.as_u16(), 503);
    assert_eq!(answer.body, r#"{"status":"chain_stalled","chains":["18446744073709551615"]}"#);
    server.anonymous().get("/live").await.done();
    server.tips().handle_heads(chain, number(20), Some(number(10)));
    assert_eq!(server.anonymous().get("/ready").await.done(), json!({"status": "ready"}));
}

async fn on(postgres: &Postgres) -> Api {
    let (store, news) = gapless_store::open(&postgres.url().parse().unwrap()).await.unwrap();
    let configure = |config: &mut gapless_server::Config| config.auth = AuthConfig::Open;
    Api::of(TestServer::start_on(store, news, TempDir::new().unwrap(), configure).await).await
}

#[tokio::test]
async fn metrics_count_requests_by_route_and_never_by_what_a_caller_makes_up() {
    let server = Api::start().await;
    server.user("alice").get("/v1/conversations/one-conversation").await.refused(404, "NOT_FOUND");
    server.user("alice").get("/v1/made-up").await.refused(404, "NOT_FOUND");
    server.anonymous().call("MADEUP".parse().unwrap(), "/live", None).await.refused(405, "BAD_REQUEST");

    let metrics = server.anonymous().get("/metrics").await;
    assert_eq!(metrics.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    for line in [
        "# HELP gapless_http_requests_total ",
        "gapless_http_requests_total{method=\"GET\",route=\"/v1/conversations/{conv}\",status=\"404\"}",
        "gapless_http_requests_total{method=\"GET\",route=\"none\",status=\"404\"}",
        "gapless_http_requests_total{method=\"other\",route=\"/live\",status=\"405\"}",
        "gapless_http_request_seconds_bucket{method=\"GET\",route=\"/v1/conversations/{conv}\",le=\"10\"}",
    ] {
        assert!(metrics.body.contains(line), "{line} isn't in\n{}", metrics.body);
    }
    assert!(!metrics.body.contains("made-up") && !metrics.body.contains("one-conversation"));
}
