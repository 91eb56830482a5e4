//! A peer that is gone without a word is noticed, and one that is there is left alone.

use std::time::Duration;

use gapless_proto::{ClientMessage, CloseCode, ServerMessage};
use gapless_testkit::FaultyProxy;

use crate::test_server::{TestServer, seq};

async fn server_with_quick_heart() -> TestServer {
    TestServer::start_with(|config| {
        config.session.heartbeat.ping_after = Duration::from_millis(100);
        config.session.heartbeat.give_up_after = Duration::from_millis(200);
    })
    .await
}

// Behaviour 16
#[tokio::test]
async fn a_silent_peer_is_asked_and_then_given_up() {
    let server = server_with_quick_heart().await;
    let mut silent = server.connect("alice").await;
    assert_eq!(silent.next().await, ServerMessage::Ping);
    silent.expect_close_with(CloseCode::HeartbeatTimeout).await;
    server.stopped().await;
}

// Behaviour 16
#[tokio::test]
async fn a_peer_that_answers_pings_stays() {
    let server = server_with_quick_heart().await;
    let conv = server.conversation("c", &["alice"]).await;
    let mut alice = server.connect("alice").await;
    for _ in 0..10 {
        assert_eq!(alice.next().await, ServerMessage::Ping);
        alice.tell(&ClientMessage::Pong).await;
    }
    alice.send(&conv, "still-here").await;
    server.stopped().await;
}

#[tokio::test]
async fn pings_of_both_layers_are_answered() {
    use tokio_tungstenite::tungstenite::{Bytes, Message};
    let server = TestServer::start().await;
    let mut alice = server.connect("alice").await;
    alice.tell(&ClientMessage::Ping).await;
    assert_eq!(alice.next().await, ServerMessage::Pong);
    alice.tell_raw(Message::Ping(Bytes::from_static(b"?"))).await;
    assert_eq!(alice.next_raw().await, Message::Pong(Bytes::from_static(b"?")));
    server.stopped().await;
}

// Behaviour 16
#[tokio::test]
async fn a_network_that_dies_without_a_word_is_noticed_and_nothing_is_lost() {
    let server = server_with_quick_heart().await;
    let conv = server.conversation("c", &["alice", "bob"]).await;
    let proxy = FaultyProxy::start(server.address()).unwrap();
    let mut lost = server.connect_through(proxy.address(), "bob").await;
    server.say(&conv, "alice", "before").await;
    assert_eq!(lost.expect_event().await.entry.seq, seq(3));

    proxy.blackhole(true);
    server.say(&conv, "alice", "meanwhile").await;
    server.until_connections(0).await;

    let mut bob = server.connect("bob").await;
    assert_eq!(bob.sync(&conv, 3).await.events.len(), 1);
    server.stopped().await;
}

// Behaviour 16
#[tokio::test]
async fn a_half_open_connection_does_not_disturb_its_successor() {
    let server = TestServer::start().await;
    let conv = server.conversation("c", &["alice", "bob"]).await;
    let proxy = FaultyProxy::start(server.address()).unwrap();
    let _half_open = server.connect_through(proxy.address(), "bob").await;
    proxy.blackhole(true);

    let mut bob = server.connect("bob").await;
    for number in 0..50 {
        server.say(&conv, "alice", &format!("m{number}")).await;
    }
    for expected in 3..=52 {
        assert_eq!(bob.expect_event().await.entry.seq, seq(expected));
    }
    assert_eq!(bob.send(&conv, "k").await.seq, seq(53));
    drop(proxy);
    server.stopped().await;
}

// Behaviour 16
#[tokio::test]
async fn five_reconnects_in_a_row_converge() {
    let server = TestServer::start().await;
    let conv = server.conversation("c", &["alice", "bob"]).await;
    let proxy = FaultyProxy::start(server.address()).unwrap();
    let mut cursor = 0;
    let mut held = Vec::new();
    for number in 0..5 {
        let mut bob = server.connect_through(proxy.address(), "bob").await;
        server.say(&conv, "alice", &format!("m{number}")).await;
        let page = bob.sync(&conv, cursor).await;
        held.extend(page.events.iter().map(|entry| entry.seq.get()));
        cursor = page.next_after.get();
        proxy.cut();
    }
    assert_eq!(held, (2..=7).collect::<Vec<_>>());
    server.until_connections(0).await;
    server.stopped().await;
}
