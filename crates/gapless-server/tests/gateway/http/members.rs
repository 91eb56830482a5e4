//! Adding, removing, leaving, coming back.

use serde_json::json;

use super::api::{Api, seqs};

#[tokio::test]
async fn a_member_adds_another_and_is_told_where_the_join_is() {
    let server = Api::start().await;
    server.conversation("c", &["alice"]).await;

    let added = server.user("alice").put("/v1/conversations/c/members/bob").await.done();
    assert_eq!((&added["seq"], &added["duplicate"]), (&json!(2), &json!(false)));
    let again = server.user("alice").put("/v1/conversations/c/members/bob").await.done();
    assert_eq!((&again["seq"], &again["duplicate"]), (&json!(2), &json!(true)));

    let members = server.user("bob").get("/v1/conversations/c/members").await.done();
    assert_eq!(members["members"], json!(["alice", "bob"]));
}

#[tokio::test]
async fn only_the_creator_or_a_backend_removes_others() {
    let server = Api::start().await;
    server.conversation("c", &["alice", "bob", "carol"]).await;

    let carol = "/v1/conversations/c/members/carol";
    server.user("bob").delete(carol).await.refused(403, "FORBIDDEN");
    let removed = server.user("alice").delete(carol).await.done();
    let again = server.user("alice").delete(carol).await.done();
    assert_eq!((&again["seq"], &again["duplicate"]), (&removed["seq"], &json!(true)));

    server.user("carol").put(carol).await.refused(403, "FORBIDDEN");
    server.service().delete("/v1/conversations/c/members/alice").await.done();
}

#[tokio::test]
async fn removing_who_never_was_a_member_is_not_found_and_tells_only_those_who_may_remove() {
    let server = Api::start().await;
    server.conversation("c", &["alice", "bob"]).await;

    let nobody = "/v1/conversations/c/members/nobody";
    for caller in [server.service(), server.user("alice")] {
        let message = caller.delete(nobody).await.refused(404, "NOT_FOUND");
        assert!(message.contains("never a member"), "{message}");
    }
    server.user("bob").delete(nobody).await.refused(403, "FORBIDDEN");
    let stranger = server.user("mallory").delete(nobody).await;
    assert!(!stranger.refused(404, "NOT_FOUND").contains("never a member"));
}

#[tokio::test]
async fn a_backend_acts_for_whom_it_names() {
    let server = Api::start().await;
    server.conversation("c", &["alice"]).await;

    server.service().put("/v1/conversations/c/members/bob?by=alice").await.done();
    server.service().put("/v1/conversations/c/members/carol").await.done();
    let page = server.user("alice").get("/v1/conversations/c/entries").await.done();
    let senders: Vec<_> = page["events"].as_array().unwrap().iter().map(|event| &event["sender"]).collect();
    assert_eq!(senders, ["alice", "alice", "backend"]);

    server.user("bob").put("/v1/conversations/c/members/dave?by=alice").await.refused(403, "FORBIDDEN");
}

// Behaviours 14 and 15
#[tokio::test]
async fn what_a_user_sees_is_the_union_of_their_memberships_from_any_cursor() {
    let server = Api::start().await;
    server.conversation("c", &["alice"]).await;
    let (alice, bob) = (server.user("alice"), server.user("bob"));
    let mut visible = Vec::new();
    for stay in 0..3 {
        alice.say("c", &format!("unseen{stay}")).await;
        let joined = alice.put("/v1/conversations/c/members/bob").await.done();
        visible.push(joined["seq"].as_u64().unwrap());
        visible.push(alice.say("c", &format!("seen{stay}")).await);
        if stay < 2 {
            let left = bob.delete("/v1/conversations/c/members/bob").await.done();
            visible.push(left["seq"].as_u64().unwrap());
        }
    }
    let head = alice.say("c", "last").await;
    visible.push(head);

    for after in 0..=head {
        let page = bob.get(&format!("/v1/conversations/c/entries?after={after}")).await.done();
        let expected: Vec<u64> = visible.iter().copied().filter(|seq| *seq > after).collect();
        assert_eq!(seqs(&page), expected, "after {after}");
        assert_eq!((&page["next_after"], &page["has_more"]), (&json!(head), &json!(false)));
    }
}

#[tokio::test]
async fn members_are_listed_page_by_page_to_members_only() {
    let server = Api::start().await;
    server.conversation("c", &["alice", "bob", "carol"]).await;
    server.user("carol").delete("/v1/conversations/c/members/carol").await.done();

    let first = server.user("alice").get("/v1/conversations/c/members?limit=1").await.done();
    assert_eq!((&first["members"], &first["next_after"]), (&json!(["alice"]), &json!("alice")));
    let second = server.service().get("/v1/conversations/c/members?limit=1&after=alice").await.done();
    assert_eq!(second["members"], json!(["bob"]));
    assert!(second.get("next_after").is_none());
    server.user("carol").get("/v1/conversations/c/members").await.refused(403, "FORBIDDEN");
}
