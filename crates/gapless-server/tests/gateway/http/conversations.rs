//! Making conversations, and which there are.

use serde_json::{Value, json};

use super::api::Api;

#[tokio::test]
async fn a_user_makes_a_conversation_under_an_id_that_nobody_guesses() {
    let server = Api::start().await;
    let alice = server.user("alice");

    let made = alice.post("/v1/conversations", &json!({"members": ["bob", "alice", "bob"]})).await;
    assert_eq!(made.status.as_u16(), 201);
    let made = made.done();
    let conv = made["conv"].as_str().unwrap();
    assert!(conv.len() == 32 && conv.bytes().all(|byte| byte.is_ascii_hexdigit()), "{conv}");
    assert_eq!(made["head"], 2, "one join entry for each member");

    let shown = server.user("bob").get(&format!("/v1/conversations/{conv}")).await.done();
    assert_eq!(shown["history"], "from_join");
    assert_eq!((&shown["is_member"], &shown["member_count"]), (&json!(true), &json!(2)));
}

#[tokio::test]
async fn only_a_backend_chooses_id_and_creator() {
    let server = Api::start().await;
    for request in [json!({"conv": "mine"}), json!({"creator": "bob"})] {
        server.user("alice").post("/v1/conversations", &request).await.refused(403, "FORBIDDEN");
        server.admin().post("/v1/conversations", &request).await.refused(403, "FORBIDDEN");
    }
    server.user("alice").post("/v1/conversations", &json!({"creator": "alice"})).await.done();

    let request = json!({"conv": "mine", "creator": "alice", "history": "all"});
    server.service().post("/v1/conversations", &request).await.done();
    let shown = server.user("alice").get("/v1/conversations/mine").await.done();
    assert_eq!((&shown["history"], &shown["head"]), (&json!("all"), &json!(1)));
    let again = server.service().post("/v1/conversations", &request).await.refused(409, "KEY_CONFLICT");
    assert!(again.contains("GET /v1/conversations/{id}"), "{again}");
}

#[tokio::test]
async fn a_conversation_that_can_not_be_made_is_refused_with_the_reason() {
    let server = Api::start().await;
    let crowd: Vec<String> = (0..1001).map(|number| format!("u{number}")).collect();
    for (request, said) in [
        (json!({"history": "some"}), "`history` must be \"from_join\" or \"all\""),
        (json!({"members": ["a b"]}), "white space"),
        (json!({"members": "bob"}), "expected a sequence"),
        (json!({"members": crowd}), "more than 1000"),
        (json!({"member": ["bob"]}), "unknown field `member`"),
        (json!([]), "can't be read"),
    ] {
        let message =
            server.user("alice").post("/v1/conversations", &request).await.refused(400, "BAD_REQUEST");
        assert!(message.contains(said), "{message}");
    }
}

#[tokio::test]
async fn ones_conversations_are_listed_page_by_page_with_the_head_one_may_see() {
    let server = Api::start().await;
    for conv in ["c1", "c2", "c3"] {
        server.conversation(conv, &["alice", "bob"]).await;
    }
    let (alice, bob) = (server.user("alice"), server.user("bob"));
    bob.delete("/v1/conversations/c2/members/bob").await.done();
    alice.say("c2", "unseen").await;

    let first = bob.get("/v1/conversations?limit=2").await.done();
    assert_eq!(listed(&first), [("c1", 2, true), ("c2", 3, false)]);
    assert_eq!(first["next_after"], "c2");
    let second = bob.get("/v1/conversations?limit=2&after=c2").await.done();
    assert_eq!(listed(&second), [("c3", 2, true)]);
    assert_eq!(second["next_after"], Value::Null);
    assert!(listed(&server.user("carol").get("/v1/conversations").await.done()).is_empty());
}

// Behaviour 14
#[tokio::test]
async fn who_left_is_told_how_it_was_when_they_did() {
    let server = Api::start().await;
    server.conversation("c", &["alice", "bob"]).await;
    server.user("bob").delete("/v1/conversations/c/members/bob").await.done();
    server.user("alice").say("c", "later").await;

    let shown = server.user("bob").get("/v1/conversations/c").await.done();
    assert_eq!((&shown["head"], &shown["is_member"]), (&json!(3), &json!(false)));
    assert_eq!(shown["member_count"], Value::Null);
    let whole = server.service().get("/v1/conversations/c").await.done();
    assert_eq!((&whole["head"], &whole["member_count"]), (&json!(4), &json!(1)));
}

fn listed(answer: &Value) -> Vec<(&str, u64, bool)> {
    let items = answer["conversations"].as_array().unwrap().iter();
    let item = |item: &'_ Value| -> (u64, bool) {
        (item["head"].as_u64().unwrap(), item["is_member"].as_bool().unwrap())
    };
    items
        .map(|conversation| {
            let (head, is_member) = item(conversation);
            (conversation["conv"].as_str().unwrap(), head, is_member)
        })
        .collect()
}
