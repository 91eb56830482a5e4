//! A server that lets everyone in.

use serde_json::{Value, json};

use super::api::{Api, Caller, seqs};

#[tokio::test]
async fn an_open_server_believes_who_one_says_one_is() {
    let server = Api::start_open().await;
    named(&server, "alice").post("/v1/conversations", &json!({"conv": "c", "members": ["bob"]})).await.done();
    server.anonymous().get("/v1/conversations/c?user=bob&device=phone").await.done();
    assert_eq!(named(&server, "alice").say("c", "hello").await, 3);

    let message = server.anonymous().get("/v1/conversations").await.refused(401, "UNAUTHENTICATED");
    assert!(message.contains("?user=NAME"), "{message}");
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

fn named(server: &Api, user: &'static str) -> Caller {
    server.anonymous().with_header("x-gapless-user", user)
}
