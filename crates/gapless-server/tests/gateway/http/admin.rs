//! What operators do.

use gapless_proto::CloseCode;
use serde_json::{Value, json};

use super::api::{Api, seqs};
use crate::test_server::conv;

// Behaviour 9
#[tokio::test]
async fn a_trim_takes_the_oldest_entries_and_leaves_the_head() {
    let server = Api::start().await;
    server.conversation("c", &["alice"]).await;
    let alice = server.user("alice");
    for key in ["k2", "k3", "k4"] {
        alice.say("c", key).await;
    }
    let trimmed = server.admin().post("/v1/admin/conversations/c/trim", &json!({"below": 3})).await.done();
    assert_eq!((&trimmed["min_seq"], &trimmed["deleted"]), (&json!(3), &json!(2)));

    let page = alice.get("/v1/conversations/c/entries").await.done();
    assert_eq!((seqs(&page), &page["trimmed"], &page["min_seq"]), (vec![3, 4], &json!(true), &json!(3)));

    server.admin().post("/v1/admin/conversations/c/trim", &json!({"below": 1000})).await.done();
    assert_eq!(alice.say("c", "k5").await, 5);
    server
        .admin()
        .post("/v1/admin/conversations/absent/trim", &json!({"below": 1}))
        .await
        .refused(404, "NOT_FOUND");
}

#[tokio::test]
async fn all_epochs_are_raised_at_once() {
    let server = Api::start().await;
    server.conversation("c1", &["alice"]).await;
    server.conversation("c2", &["alice"]).await;
    let epochs = async || {
        let listed = server.user("alice").get("/v1/conversations").await.done();
        let conversations = listed["conversations"].as_array().unwrap().iter();
        conversations.map(|conversation| conversation["epoch"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    let before = epochs().await;
    let raised = server.admin().post("/v1/admin/epoch", &Value::Null).await.done();
    assert_eq!(raised["raised"], 2);
    assert!(before.iter().zip(epochs().await).all(|(before, after)| *before < after));
    server.admin().post("/v1/admin/conversations/absent/epoch", &Value::Null).await.refused(404, "NOT_FOUND");
}

#[tokio::test]
async fn all_connections_of_a_kicked_user_end() {
    let server = Api::start().await;
    let mut connections = [server.connect("alice").await, server.connect("alice").await];
    let mut bob = server.connect("bob").await;

    let kicked = server.admin().post("/v1/admin/users/alice/kick", &Value::Null).await.done();
    assert_eq!(kicked["closed"], 2);
    for connection in &mut connections {
        connection.expect_close_with(CloseCode::Kicked).await;
    }
    bob.settle().await;
    let nobody = server.admin().post("/v1/admin/users/nobody/kick", &Value::Null).await.done();
    assert_eq!(nobody["closed"], 0);
}

// Behaviour 8
#[tokio::test]
async fn a_raised_epoch_is_told_to_those_who_are_connected() {
    let server = Api::start().await;
    server.conversation("c", &["alice"]).await;
    let mut alice = server.connect("alice").await;
    server.admin().post("/v1/admin/conversations/c/epoch", &Value::Null).await.done();
    alice.expect_hint(&conv("c")).await;
}

#[tokio::test]
async fn a_minted_token_lets_its_owner_in() {
    let server = Api::start().await;
    server.conversation("c", &["alice"]).await;
    let minted = server.root().post("/v1/admin/tokens", &json!({"user": "alice", "ttl_s": 60})).await.done();
    let alice = server.with_token(minted["token"].as_str().unwrap());
    alice.get("/v1/conversations/c").await.done();
    alice.post("/v1/admin/epoch", &Value::Null).await.refused(403, "FORBIDDEN");
}

#[tokio::test]
async fn nobody_mints_what_they_may_not_do_themselves() {
    let server = Api::start().await;
    let mint = |request: Value| {
        let root = server.root();
        async move { root.post("/v1/admin/tokens", &request).await }
    };
    mint(json!({"user": "a", "scope": "admin service"})).await.done();
    let message = mint(json!({"user": "a", "scope": "root"})).await.refused(400, "BAD_REQUEST");
    assert!(message.contains("`root`"), "{message}");

    let admin = server.admin();
    let other = admin.post("/v1/admin/tokens", &json!({"user": "alice"})).await.refused(403, "FORBIDDEN");
    assert!(other.contains("--scope service,admin") && !other.contains("leave"), "{other}");
    let itself = json!({"user": "operator", "scope": "service"});
    admin.post("/v1/admin/tokens", &itself).await.refused(403, "FORBIDDEN");
    admin.post("/v1/admin/tokens", &json!({"user": "operator", "scope": "admin"})).await.done();
}

#[tokio::test]
async fn a_token_that_would_have_ended_already_is_not_made() {
    let server = Api::start().await;
    let request = json!({"user": "alice", "ttl_s": 0});
    let said = server.root().post("/v1/admin/tokens", &request).await.refused(400, "BAD_REQUEST");
    assert!(said.contains("1 or more"), "{said}");
}
