//! What a client sees of a store that fails, and that order survives it.

use std::time::Duration;

use gapless_proto::{CloseCode, ConvId, ErrorCode, ServerMessage};

use crate::client::Client;
use crate::faulty_store::AppendFault;
use crate::test_server::{TestServer, keys};

// Behaviour 12
#[tokio::test]
async fn after_a_send_that_failed_no_later_one_is_taken_and_the_connection_is_closed() {
    // What came after a send that was carried out may have been carried out as well.
    let possible =
        [(AppendFault::Rejected, vec![vec![]]), (AppendFault::AnswerLost, vec![vec!["a"], vec!["a", "b"]])];
    for (fault, possible) in possible {
        let (server, store) = TestServer::start_faulty().await;
        let conv = server.conversation("c", &["alice"]).await;
        let mut alice = server.connect("alice").await;

        store.fail_next_append(fault);
        let first = alice.begin_send(&conv, "a", "a").await;
        alice.begin_send(&conv, "b", "b").await;

        let error = alice.expect_error(first).await;
        assert_eq!(error.code, ErrorCode::Unavailable);
        assert!(error.retry_after_ms.is_some());
        alice.expect_close_with(CloseCode::Unavailable).await;
        let log = server.messages(&conv).await;
        assert!(possible.iter().any(|possible| *possible == log), "after {fault:?}: {log:?}");

        let mut alice = server.connect("alice").await;
        alice.send(&conv, "a").await;
        alice.send(&conv, "b").await;
        assert_eq!(server.messages(&conv).await, ["a", "b"]);
        server.stopped().await;
    }
}

// Behaviour 12
#[tokio::test]
async fn order_and_uniqueness_survive_commits_that_fail_at_any_moment() {
    let server = TestServer::start().await;
    let conv = server.conversation("c", &["alice"]).await;
    let expected = keys("k", 400);
    let database = server.database();
    database.busy_timeout(Duration::from_secs(10)).unwrap();

    let mut unanswered = expected.clone();
    for round in 0.. {
        // Alternately the store refuses whatever comes, refuses some message in the middle, and is well.
        let condition = match round % 3 {
            0 => Some("1".to_owned()),
            1 => Some(format!("new.key = 'k{}'", 400 - unanswered.len() / 2)),
            _ => None,
        };
        database.execute_batch(&breaking(condition.as_deref())).unwrap();
        let mut alice = server.connect("alice").await;
        unanswered = send_all(&mut alice, &conv, unanswered).await;
        if unanswered.is_empty() {
            break;
        }
    }

    assert_eq!(server.messages(&conv).await, expected);
    server.stopped().await;
}

/// Sends everything at once, as a client does with its outbox. Returns what is still unanswered when the connection ends.
async fn send_all(client: &mut Client, conv: &ConvId, outbox: Vec<String>) -> Vec<String> {
    let mut rids = Vec::new();
    for key in &outbox {
        if let Ok(rid) = client.try_begin_send(conv, key).await {
            rids.push(rid);
        }
    }
    let mut unanswered = outbox;
    while let Some(frame) = client.try_next().await {
        match frame {
            ServerMessage::Sent(sent) => {
                // Answers come in any order; the log is what has one.
                let number = rids.iter().position(|rid| *rid == sent.rid).unwrap();
                rids.remove(number);
                unanswered.remove(number);
            }
            ServerMessage::Error(error) => assert!(error.code.is_retryable(), "{error:?}"),
            _ => {}
        }
        if unanswered.is_empty() {
            break;
        }
    }
    unanswered
}

fn breaking(condition: Option<&str>) -> String {
    let drop = "DROP TRIGGER IF EXISTS broken;";
    match condition {
        None => drop.to_owned(),
        Some(condition) => format!(
            "{drop} CREATE TRIGGER broken BEFORE INSERT ON entry WHEN {condition} \
             BEGIN SELECT RAISE(ABORT, 'broken on purpose'); END;"
        ),
    }
}

#[tokio::test]
async fn a_connection_whose_conversations_can_not_be_read_is_told_to_come_back() {
    let (server, store) = TestServer::start_faulty().await;
    server.conversation("c", &["alice"]).await;

    store.fail_reads(true);
    let mut alice = Client::connect(server.address(), &server.token("alice")).await.unwrap();
    alice.expect_close_with(CloseCode::Unavailable).await;

    store.fail_reads(false);
    server.connect("alice").await;
    server.stopped().await;
}

#[tokio::test]
async fn no_more_sends_are_taken_than_may_be_under_way() {
    let (server, store) = TestServer::start_faulty().await;
    let conv = server.conversation("c", &["alice"]).await;
    let mut alice = server.connect("alice").await;
    store.hold_appends(true);

    let mut rids = Vec::new();
    for number in 0..200 {
        rids.push(alice.begin_send(&conv, &format!("k{number}"), "hello").await);
    }
    store.appends_are_held(64).await;
    store.hold_appends(false);

    alice.expect_all_sent(rids).await;
    assert_eq!(server.messages(&conv).await, keys("k", 200));
    server.stopped().await;
}
