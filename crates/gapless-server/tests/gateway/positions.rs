//! A position that can't be served gets a named answer.

use std::time::Duration;

use gapless_proto::{Epoch, ErrorCode, ServerMessage};

use crate::test_server::{TestServer, seq};

on_both_stores!(
    a_cursor_ahead_of_the_log_or_of_another_epoch_is_named,
    the_first_page_of_a_trimmed_log_says_so_and_has_what_is_kept,
    after_all_is_trimmed_and_a_restart_the_next_entry_follows_the_head,
);

// Behaviour 8
async fn a_cursor_ahead_of_the_log_or_of_another_epoch_is_named(server: TestServer) {
    let conv = server.conversation("c", &["alice"]).await;
    let mut alice = server.connect("alice").await;
    let epoch = alice.sync(&conv, 0).await.epoch;

    let rid = alice.begin_sync(&conv, 2, None, Some(epoch)).await;
    assert_eq!(alice.expect_error_code(rid).await, ErrorCode::CursorAhead);

    let other = Epoch::new(epoch.get() + 1).unwrap();
    let rid = alice.begin_sync(&conv, 1, None, Some(other)).await;
    assert_eq!(alice.expect_error_code(rid).await, ErrorCode::EpochChanged);

    let rid = alice.begin_sync(&conv, 0, None, None).await;
    assert_eq!(alice.expect_page(rid).await.head, seq(1));
    server.stopped().await;
}

// Behaviour 8
#[tokio::test]
async fn a_log_that_was_restored_and_has_overtaken_the_client_is_still_another_log() {
    let server = TestServer::start_with(|config| {
        config.upkeep.heads_interval = Duration::from_millis(20);
    })
    .await;
    let conv = server.conversation("c", &["alice"]).await;
    let mut alice = server.connect("alice").await;
    let epoch = alice.send(&conv, "k").await.epoch;

    server.store().raise_epoch(Some(&conv)).await.unwrap();
    for number in 0..10 {
        server.say(&conv, "alice", &format!("later-{number}")).await;
    }

    let rid = alice.begin_sync(&conv, 2, None, Some(epoch)).await;
    assert_eq!(alice.expect_error_code(rid).await, ErrorCode::EpochChanged);
    server.stopped().await;
}

// Behaviour 8
#[tokio::test]
async fn a_connected_client_learns_of_a_raised_epoch() {
    let server = TestServer::start_with(|config| {
        config.upkeep.heads_interval = Duration::from_millis(20);
        config.upkeep.sweep_interval = Duration::from_millis(20);
        config.hub.lag_max = Duration::from_millis(50);
    })
    .await;
    let conv = server.conversation("c", &["alice"]).await;
    let mut alice = server.connect("alice").await;
    let before = alice.send(&conv, "k").await.epoch;
    alice.ack(&conv, 2).await;

    server.store().raise_epoch(None).await.unwrap();

    let hinted = alice
        .expect(|message| match message {
            ServerMessage::Hint { epoch, .. } if epoch > before => Some(epoch),
            _ => None,
        })
        .await;
    assert_eq!(alice.sync(&conv, 0).await.epoch, hinted);
    server.stopped().await;
}

// Behaviour 9
async fn the_first_page_of_a_trimmed_log_says_so_and_has_what_is_kept(server: TestServer) {
    let conv = server.conversation("c", &["alice"]).await;
    for number in 0..9 {
        server.say(&conv, "alice", &format!("m{number}")).await;
    }
    server.store().trim(&conv, seq(6)).await.unwrap();
    let mut alice = server.connect("alice").await;

    let page = alice.sync(&conv, 0).await;

    assert_eq!((page.trimmed, page.min_seq, page.head), (true, seq(6), seq(10)));
    let seqs: Vec<_> = page.events.iter().map(|entry| entry.seq.get()).collect();
    assert_eq!(seqs, [6, 7, 8, 9, 10]);
    server.stopped().await;
}

// Behaviour 9
async fn after_all_is_trimmed_and_a_restart_the_next_entry_follows_the_head(mut server: TestServer) {
    let conv = server.conversation("c", &["alice"]).await;
    for number in 0..9 {
        server.say(&conv, "alice", &format!("m{number}")).await;
    }
    server.store().trim(&conv, seq(100)).await.unwrap();

    server.restart().await;

    let mut alice = server.connect("alice").await;
    let page = alice.sync(&conv, 3).await;
    assert_eq!((page.head, page.min_seq, page.next_after, page.events.len()), (seq(10), seq(11), seq(10), 0));
    assert_eq!(alice.send(&conv, "k").await.seq, seq(11));
    server.stopped().await;
}

#[tokio::test]
async fn a_limit_is_clamped_to_what_a_page_may_have() {
    let server = TestServer::start().await;
    let conv = server.conversation("c", &["alice"]).await;
    for number in 0..299 {
        server.say(&conv, "alice", &format!("m{number}")).await;
    }
    let mut alice = server.connect("alice").await;
    for (limit, given) in [(Some(0), 1), (Some(1), 1), (None, 50), (Some(200), 200), (Some(u32::MAX), 200)] {
        let rid = alice.begin_sync(&conv, 0, limit, None).await;
        let page = alice.expect_page(rid).await;
        assert_eq!((page.events.len(), page.has_more), (given, true), "with limit {limit:?}");
    }
    server.stopped().await;
}
