//! A server that lets everyone in.

use std::future::pending;
use std::net::Ipv4Addr;

use gapless_server::{AuthConfig, Beside, Config, RunError};
use gapless_store::StoreUrl;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;

use super::api::{Api, Caller, seqs};
use crate::client::within;

#[tokio::test]
async fn an_open_server_believes_who_one_says_one_is() {
    let server = Api::start_open().await;
    named(&server, "alice").post("/v1/conversations", &json!({"conv": "c", "members": ["bob"]})).await.done();
    server.anonymous().get("/v1/conversations/c?user=bob&device=phone").await.done();
    assert_eq!(named(&server, "alice").say("c", "hello").await, 3);

    let message = server.anonymous().get("/v1/conversations").await.refused(401, "UNAUTHENTICATED");
    assert!(message.starts_with("no user was named") && message.contains("?user=NAME"), "{message}");
    let message = server.with_token("T.O.K").get("/v1/conversations").await.refused(401, "UNAUTHENTICATED");
    assert!(message.contains("takes no tokens") && message.contains("?user=NAME"), "{message}");
    named(&server, "a b").get("/v1/conversations").await.refused(400, "BAD_REQUEST");
}

#[tokio::test]
async fn whom_one_says_one_is_sees_only_their_part_and_may_administer() {
    let server = Api::start_open().await;
    named(&server, "alice").post("/v1/conversations", &json!({"conv": "c"})).await.done();
    named(&server, "alice").say("c", "k").await;

    named(&server, "bob").get("/v1/conversations/c/entries").await.refused(404, "NOT_FOUND");
    let page = named(&server, "alice").get("/v1/conversations/c/entries").await.done();
    assert_eq!(seqs(&page), [1, 2]);
    named(&server, "bob").post("/v1/admin/epoch", &Value::Null).await.done();
    let tokens = named(&server, "bob").post("/v1/admin/tokens", &json!({"user": "bob"})).await;
    assert!(tokens.refused(400, "BAD_REQUEST").contains("takes no tokens"));
}

#[tokio::test]
async fn a_web_page_of_elsewhere_does_not_reach_an_open_server() {
    let server = Api::start_open().await;
    let alice = named(&server, "alice");
    for (header, value, is_let_in) in [
        ("origin", "http://localhost:5173", true),
        ("origin", "https://evil.example", false),
        ("origin", "null", false),
        ("host", "localhost:7700", true),
        ("host", "evil.example:7700", false),
    ] {
        let answer = alice.clone().with_header(header, value).get("/v1/conversations").await;
        if is_let_in {
            answer.done();
        } else {
            answer.refused(403, "FORBIDDEN");
        }
    }
    let page = alice.clone().with_header("origin", "https://evil.example");
    let upgrade = page.with_header("connection", "upgrade").with_header("upgrade", "websocket");
    upgrade.get("/v1/ws").await.refused(403, "FORBIDDEN");

    let with_tokens = Api::start().await;
    with_tokens
        .user("alice")
        .with_header("origin", "https://app.example")
        .get("/v1/conversations")
        .await
        .done();
}

// Behaviour 20
#[tokio::test]
async fn an_open_gateway_does_not_run_beyond_loopback_whoever_starts_it() {
    let folder = TempDir::new().unwrap();
    let url = StoreUrl::Sqlite(folder.path().join("gapless.db"));
    let (store, news) = gapless_store::open(&url).await.unwrap();
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.unwrap();
    let config = Config { auth: AuthConfig::Open, ..Config::default() };
    let ended =
        within(gapless_server::run(listener, config, store, news, Beside::default(), pending())).await;
    assert!(matches!(ended, Err(RunError::OpenToTheWorld)), "{ended:?}");
}

fn named(server: &Api, user: &'static str) -> Caller {
    server.anonymous().with_header("x-gapless-user", user)
}
