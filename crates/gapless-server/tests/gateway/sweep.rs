//! What is lost on the way to a client, or on the way to the gateway, is repaired.

use std::time::Duration;

use gapless_server::Config;
use gapless_testkit::FaultyProxy;

use crate::test_server::{TestServer, seq};

/// A sweep that is a hundred times as quick as the default.
fn quickly(config: &mut Config) {
    config.hub.lag_max = Duration::from_millis(30);
    config.upkeep.sweep_interval = Duration::from_millis(10);
    config.upkeep.heads_interval = Duration::from_millis(30);
}

/// The same, but without hints to those who don't acknowledge.
fn only_by_heads(config: &mut Config) {
    quickly(config);
    config.hub.lag_max = Duration::from_secs(3_600);
}

// Behaviour 17
#[tokio::test]
async fn the_lost_push_of_the_very_last_entry_is_repaired_by_a_hint() {
    let server = TestServer::start_with(quickly).await;
    let conv = server.conversation("c", &["alice", "bob"]).await;
    let proxy = FaultyProxy::start(server.address()).unwrap();
    let mut witness = server.connect("bob").await;
    let mut bob = server.connect_through(proxy.address(), "bob").await;
    bob.sync(&conv, 0).await;
    bob.ack(&conv, 2).await;

    proxy.drop_replies(true);
    server.say(&conv, "alice", "the-last-word").await;
    witness.expect_event().await;
    proxy.drop_replies(false);

    while bob.expect_hint(&conv).await != seq(3) {}
    assert_eq!(bob.sync(&conv, 2).await.events.len(), 1);
    server.stopped().await;
}

// Behaviour 17
#[tokio::test]
async fn who_has_acknowledged_everything_is_not_hinted() {
    let server = TestServer::start_with(quickly).await;
    let conv = server.conversation("c", &["alice", "bob"]).await;
    let marker = server.conversation("marker", &["bob"]).await;
    let mut bob = server.connect("bob").await;
    bob.ack(&conv, 2).await;
    bob.ack(&marker, 1).await;
    // A sweep may have begun before the acks came.
    bob.settle().await;

    let mut other = server.connect("alice").await;
    for _ in 0..5 {
        // Alice never acknowledges: each of her hints proves that a sweep has run.
        other.expect_hint(&conv).await;
    }
    server.say(&marker, "bob", "end").await;

    let told = bob.until_event_of(&marker).await;
    assert!(told.is_empty(), "bob was told {told:?}");
    server.stopped().await;
}

// Behaviour 17
#[tokio::test]
async fn a_join_that_the_gateway_never_heard_of_is_found_among_the_memberships() {
    let (server, _) = TestServer::start_deaf_with(quickly).await;
    let mut bob = server.connect("bob").await;
    let conv = server.conversation("c", &["alice", "bob"]).await;
    assert_eq!(bob.expect_hint(&conv).await, seq(2));
    server.stopped().await;
}

#[tokio::test]
async fn news_that_the_gateway_never_got_is_found_in_the_heads() {
    let (server, _) = TestServer::start_deaf_with(only_by_heads).await;
    let conv = server.conversation("c", &["alice", "bob"]).await;
    let mut bob = server.connect("bob").await;

    for number in 0..300 {
        server.say(&conv, "alice", &format!("m{number}")).await;
    }

    for expected in 3..=302 {
        assert_eq!(bob.expect_event().await.entry.seq, seq(expected));
    }
    server.stopped().await;
}

// Behaviour 14
#[tokio::test]
async fn a_member_who_was_removed_without_news_is_pushed_nothing_later() {
    let (server, _) = TestServer::start_deaf_with(only_by_heads).await;
    let conv = server.conversation("c", &["alice", "bob"]).await;
    let marker = server.conversation("marker", &["bob"]).await;
    let mut alice = server.connect("alice").await;
    let mut bob = server.connect("bob").await;

    let left = server.leave(&conv, "bob", "alice").await;
    for number in 0..10 {
        server.say(&conv, "alice", &format!("m{number}")).await;
    }
    for _ in 0..11 {
        alice.expect_event().await;
    }
    assert_eq!(bob.expect_event().await.entry.seq, left);

    server.say(&marker, "bob", "end").await;
    let told = bob.until_event_of(&marker).await;
    assert!(told.is_empty(), "bob was told {told:?}");
    server.stopped().await;
}

#[tokio::test]
async fn a_gateway_that_comes_back_to_a_trimmed_gap_goes_on_from_there() {
    let (server, store) = TestServer::start_deaf_with(quickly).await;
    let conv = server.conversation("c", &["alice", "bob"]).await;
    let mut bob = server.connect("bob").await;

    store.fail_reads(true);
    for number in 0..10 {
        server.say(&conv, "alice", &format!("m{number}")).await;
    }
    server.store().trim(&conv, seq(8)).await.unwrap();
    store.fail_reads(false);

    while bob.expect_hint(&conv).await != seq(12) {}
    server.say(&conv, "alice", "afterwards").await;
    assert_eq!(bob.expect_event().await.entry.seq, seq(13));
    server.stopped().await;
}
