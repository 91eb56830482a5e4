//! An acknowledged send is there exactly once, and sends of one connection keep their order.

use futures_util::future::join_all;
use gapless_proto::{ErrorCode, ServerMessage};

use crate::faulty_store::AppendFault;
use crate::test_server::{TestServer, keys};

on_both_stores!(
    ten_equal_sends_at_the_same_time_make_one_entry,
    a_send_that_comes_again_after_a_restart_finds_its_entry,
    a_key_with_another_body_is_refused_and_the_connection_goes_on,
    pipelined_sends_keep_their_order,
    a_send_that_races_the_senders_removal_is_before_the_leave_entry_or_refused,
);

// Behaviour 10
#[tokio::test]
async fn a_send_whose_reply_was_lost_is_stored_once_however_often_it_comes_again() {
    let (server, store) = TestServer::start_faulty().await;
    let conv = server.conversation("c", &["alice"]).await;
    let mut first = server.connect("alice").await;

    store.fail_next_append(AppendFault::AnswerLost);
    let rid = first.begin_send(&conv, "k", "hello").await;
    assert_eq!(first.expect_error_code(rid).await, ErrorCode::Unavailable);

    let again = (0..10).map(async |_| {
        let mut client = server.connect("alice").await;
        let rid = client.begin_send(&conv, "k", "hello").await;
        client.expect_sent(rid).await
    });
    for sent in join_all(again).await {
        assert_eq!((sent.seq.get(), sent.duplicate), (2, true));
    }
    assert_eq!(server.messages(&conv).await, ["k"]);
    server.stopped().await;
}

// Behaviour 10
async fn ten_equal_sends_at_the_same_time_make_one_entry(server: TestServer) {
    let conv = server.conversation("c", &["alice"]).await;
    let clients = join_all((0..10).map(|_| server.connect("alice"))).await;

    let sending = clients.into_iter().map(|mut client| {
        let conv = &conv;
        async move {
            let rid = client.begin_send(conv, "k", "hello").await;
            client.expect_sent(rid).await
        }
    });
    let sent = join_all(sending).await;

    assert!(sent.iter().all(|sent| sent.seq.get() == 2));
    assert_eq!(sent.iter().filter(|sent| !sent.duplicate).count(), 1);
    assert_eq!(server.messages(&conv).await, ["k"]);
    server.stopped().await;
}

// Behaviour 10
async fn a_send_that_comes_again_after_a_restart_finds_its_entry(mut server: TestServer) {
    let conv = server.conversation("c", &["alice"]).await;
    let first = server.connect("alice").await.send(&conv, "k").await;

    server.restart().await;

    let again = server.connect("alice").await.send(&conv, "k").await;
    assert_eq!((again.seq, again.ts, again.duplicate), (first.seq, first.ts, true));
    server.stopped().await;
}

// Behaviour 10
async fn a_key_with_another_body_is_refused_and_the_connection_goes_on(server: TestServer) {
    let conv = server.conversation("c", &["alice"]).await;
    let mut alice = server.connect("alice").await;
    alice.send(&conv, "k").await;

    let rid = alice.begin_send(&conv, "k", "something else").await;

    assert_eq!(alice.expect_error_code(rid).await, ErrorCode::KeyConflict);
    assert!(!alice.send(&conv, "other").await.duplicate);
    assert_eq!(server.messages(&conv).await, ["k", "other"]);
    server.stopped().await;
}

// Behaviour 12
async fn pipelined_sends_keep_their_order(server: TestServer) {
    let conv = server.conversation("c", &["alice", "bob"]).await;
    let mut alice = server.connect("alice").await;
    let mut bob = server.connect("bob").await;

    let mut rids = Vec::new();
    for number in 0..500 {
        rids.push(alice.begin_send(&conv, &format!("a{number}"), "hello").await);
        bob.begin_send(&conv, &format!("b{number}"), "hello").await;
    }
    let mut unanswered = rids.len();
    while unanswered > 0 {
        if let ServerMessage::Sent(_) = alice.next().await {
            unanswered -= 1;
        }
    }

    let log = server.messages(&conv).await;
    let of_alice: Vec<_> = log.into_iter().filter(|key| key.starts_with('a')).collect();
    assert_eq!(of_alice, keys("a", 500));
    server.stopped().await;
}

// Behaviour 13
async fn a_send_that_races_the_senders_removal_is_before_the_leave_entry_or_refused(server: TestServer) {
    for round in 0..20 {
        let conv = server.conversation(&format!("c{round}"), &["alice", "bob"]).await;
        let mut bob = server.connect("bob").await;
        let mut rids = Vec::new();
        for number in 0..10 {
            rids.push(bob.begin_send(&conv, &format!("k{number}"), "hello").await);
        }

        let left = server.leave(&conv, "bob", "alice").await;

        let mut taken = Vec::new();
        let mut refused = 0;
        while taken.len() + refused < rids.len() {
            match bob.next().await {
                ServerMessage::Sent(sent) => taken.push(sent.seq),
                ServerMessage::Error(error) => {
                    assert_eq!(error.code, ErrorCode::Forbidden);
                    refused += 1;
                }
                _ => {}
            }
        }
        assert!(taken.iter().all(|seq| *seq < left), "{taken:?} were taken after the leave at {left}");
    }
    server.stopped().await;
}
