//! Sending and reading.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::api::{Answer, Api, Caller, seqs};

const ENTRIES: &str = "/v1/conversations/c/entries";

#[tokio::test]
async fn a_body_comes_back_byte_for_byte() {
    let server = server().await;
    let alice = server.user("alice");
    let body =
        r#"{"b" : 1.0e2,"a":[1,  2], "a":"\u00e9\ud83d\ude00 é", "big":123456789012345678901234567890}"#;
    let sent = send_text(&alice, &format!(r#"{{"key":"k","body":{body}}}"#)).await;
    assert!(sent.status.is_success(), "{sent}");

    let page = alice.get(ENTRIES).await;
    assert!(page.body.contains(body), "{page}");
}

// Behaviour 10
#[tokio::test]
async fn a_send_that_is_repeated_is_stored_once() {
    let server = server().await;
    let request = json!({"key": "k", "body": {"text": "hello"}});

    let alice = server.user("alice");
    let answers = join_all((0..10).map(|_| alice.post(ENTRIES, &request))).await;
    let answers: Vec<Value> = answers.iter().map(Answer::done).collect();
    let new = answers.iter().filter(|answer| answer["duplicate"] == false).count();
    assert_eq!(new, 1, "{answers:?}");
    assert!(
        answers.iter().all(|answer| answer["seq"] == 3 && answer["ts"] == answers[0]["ts"]),
        "{answers:?}"
    );

    let of_backend = json!({"key": "k", "body": {"text": "hello"}, "sender": "alice"});
    let again = server.service().post(ENTRIES, &of_backend).await.done();
    assert_eq!((&again["seq"], &again["duplicate"]), (&json!(3), &json!(true)));
    assert_eq!(seqs(&server.user("bob").get(ENTRIES).await.done()), [2, 3]);
}

// Behaviour 10
#[tokio::test]
async fn a_key_that_was_used_for_another_body_stores_nothing() {
    let server = server().await;
    let alice = server.user("alice");
    alice.post(ENTRIES, &json!({"key": "k", "body": 1})).await.done();
    let message = alice.post(ENTRIES, &json!({"key": "k", "body": 2})).await.refused(409, "KEY_CONFLICT");
    assert!(message.contains("seq 3"), "{message}");
    assert_eq!(server.user("bob").say("c", "k").await, 4, "another sender's key is another key");
}

#[tokio::test]
async fn only_a_backend_sends_for_others() {
    let server = server().await;
    let request = json!({"key": "k", "body": 1, "sender": "bob"});
    server.user("alice").post(ENTRIES, &request).await.refused(403, "FORBIDDEN");

    server.service().post(ENTRIES, &request).await.done();
    server.service().post(ENTRIES, &json!({"key": "k", "body": 1})).await.done();
    let page = server.user("alice").get(&format!("{ENTRIES}?after=2")).await.done();
    assert_eq!(
        (&page["events"][0]["sender"], &page["events"][1]["sender"]),
        (&json!("bob"), &json!("backend"))
    );
}

// Behaviours 2 and 3
#[tokio::test]
async fn a_log_is_read_page_by_page_oldest_first() {
    let server = server().await;
    let alice = server.user("alice");
    for number in 0..20 {
        alice.say("c", &format!("k{number}")).await;
    }
    let (mut read, mut after) = (Vec::new(), 0);
    loop {
        let page = alice.get(&format!("{ENTRIES}?limit=7&after={after}")).await.done();
        assert_eq!(page["head"], 22);
        read.extend(seqs(&page));
        after = page["next_after"].as_u64().unwrap();
        if page["has_more"] == false {
            break;
        }
    }
    assert_eq!(read, (1..=22).collect::<Vec<u64>>());
    assert_eq!(after, 22);
}

#[tokio::test]
async fn a_limit_that_is_too_large_is_the_bound_and_one_of_nothing_is_refused() {
    let server = server().await;
    let alice = server.user("alice");
    for path in [ENTRIES, "/v1/conversations", "/v1/conversations/c/members"] {
        let message = alice.get(&format!("{path}?limit=0")).await.refused(400, "BAD_REQUEST");
        assert!(message.contains("give 1 or more"), "{path}: {message}");
    }
    assert_eq!(seqs(&alice.get(&format!("{ENTRIES}?limit=4000000000")).await.done()), [1, 2]);
}

#[tokio::test]
async fn a_page_of_large_messages_ends_early_and_says_that_there_is_more() {
    let server = server().await;
    let alice = server.user("alice");
    let large = "x".repeat(60_000);
    for number in 0..20 {
        alice.post(ENTRIES, &json!({"key": format!("k{number}"), "body": large})).await.done();
    }
    let page = alice.get(&format!("{ENTRIES}?limit=200")).await.done();
    let read = seqs(&page);
    assert!(read.len() < 22 && page["has_more"] == true, "{read:?}");
    assert_eq!(page["next_after"], *read.last().unwrap());
    let rest = alice.get(&format!("{ENTRIES}?limit=200&after={}", page["next_after"])).await.done();
    assert_eq!([read, seqs(&rest)].concat(), (1..=22).collect::<Vec<u64>>());
}

// Behaviour 8
#[tokio::test]
async fn a_cursor_that_can_not_be_served_is_named() {
    let server = server().await;
    let alice = server.user("alice");
    let epoch = alice.get(ENTRIES).await.done()["epoch"].as_u64().unwrap();
    let read =
        async |after: u64, epoch: u64| alice.get(&format!("{ENTRIES}?after={after}&epoch={epoch}")).await;

    assert!(read(2, epoch).await.status.is_success());
    read(3, epoch).await.refused(409, "CURSOR_AHEAD");
    read(0, epoch + 1).await.refused(409, "EPOCH_CHANGED");

    server.admin().post("/v1/admin/conversations/c/epoch", &Value::Null).await.done();
    alice.say("c", "overtaking").await;
    let message = read(2, epoch).await.refused(409, "EPOCH_CHANGED");
    let new_epoch = alice.get(ENTRIES).await.done()["epoch"].as_u64().unwrap();
    assert!(new_epoch > epoch && message.contains(&new_epoch.to_string()), "{message}");
    assert!(read(2, new_epoch).await.status.is_success());
}

// Behaviour 14
#[tokio::test]
async fn who_was_removed_sends_nothing_and_reads_nothing_later() {
    let server = server().await;
    server.user("alice").delete("/v1/conversations/c/members/bob").await.done();
    server.user("alice").say("c", "later").await;

    let message = server.user("bob").post(ENTRIES, &json!({"key": "k", "body": 1})).await;
    message.refused(403, "FORBIDDEN");
    let page = server.user("bob").get(ENTRIES).await.done();
    assert_eq!(seqs(&page), [2, 3]);
    assert_eq!(page["next_after"], 4, "the cursor passes what its owner may not see");
    assert_eq!(seqs(&server.service().get(ENTRIES).await.done()), [1, 2, 3, 4]);
}

/// A server with a conversation `c` of alice and bob, whose joins are 1 and 2.
async fn server() -> Api {
    let server = Api::start().await;
    server.conversation("c", &["alice", "bob"]).await;
    server
}

async fn send_text(caller: &Caller, text: &str) -> Answer {
    let request = caller.request(reqwest::Method::POST, ENTRIES);
    caller.send(request.header("content-type", "application/json").body(text.to_owned())).await
}
