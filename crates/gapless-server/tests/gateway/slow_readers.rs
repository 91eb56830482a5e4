//! A reader that can't keep up costs bounded memory, delays nobody, and converges.

use std::time::{Duration, Instant};

use gapless_proto::ServerMessage;

use crate::test_server::{TestServer, seq};

// Behaviour 18
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_stops_reading_delays_nobody_and_catches_up_whole() {
    const ENTRIES: u64 = 5_000;
    // Together more than the kernel takes for a reader that doesn't read.
    let text = "x".repeat(4_000);
    let server = TestServer::start_with(|config| {
        config.session.write_stall_max = Duration::from_secs(3_600);
        config.session.heartbeat.ping_after = Duration::from_secs(3_600);
        config.hub.lag_max = Duration::from_secs(3_600);
    })
    .await;
    let conv = server.conversation("c", &["alice", "bob", "carol"]).await;
    let mut alice = server.connect("alice").await;
    let mut stuck = server.connect("bob").await;
    let mut carol = server.connect("carol").await;

    let mut slowest = Duration::ZERO;
    let mut in_flight = 0;
    let mut answered = 0;
    let mut sent = 0;
    let mut seen_by_carol = 3;
    while answered < ENTRIES {
        while in_flight < 60 && sent < ENTRIES {
            alice.begin_send(&conv, &format!("k{sent}"), &text).await;
            sent += 1;
            in_flight += 1;
        }
        match alice.next().await {
            ServerMessage::Sent(_) => {
                in_flight -= 1;
                answered += 1;
            }
            ServerMessage::Event(event) => {
                let began = Instant::now();
                while seen_by_carol < event.entry.seq.get() {
                    let pushed = carol.expect_event().await.entry.seq.get();
                    assert_eq!(pushed, seen_by_carol + 1);
                    seen_by_carol = pushed;
                }
                slowest = slowest.max(began.elapsed());
            }
            _ => {}
        }
    }

    assert!(slowest < Duration::from_secs(2), "another reader waited for {slowest:?}");

    // What the kernel had taken is read first; then there is one hint, and a sync brings the rest.
    let mut last = seq(3);
    let hinted = stuck
        .expect(|message| match message {
            ServerMessage::Event(event) => {
                assert_eq!(event.entry.seq, last.next());
                last = event.entry.seq;
                None
            }
            ServerMessage::Hint { head, .. } => Some(head),
            other => panic!("unexpected {other:?}"),
        })
        .await;
    assert_eq!(hinted, seq(ENTRIES + 3));
    assert_eq!(stuck.read_all(&conv, last.get(), 200).await.len() as u64, ENTRIES + 3 - last.get());
    server.stopped().await;
}

// Behaviour 6, 18
#[tokio::test]
async fn a_reader_that_was_too_slow_gets_one_hint_a_conversation() {
    let server = TestServer::start_with(|config| {
        config.session.delivery.queued_frames_max = 10;
        config.hub.lag_max = Duration::from_secs(3_600);
    })
    .await;
    let convs = [
        server.conversation("c0", &["alice"]).await,
        server.conversation("c1", &["alice"]).await,
        server.conversation("c2", &["alice"]).await,
    ];
    let marker = server.conversation("marker", &["alice"]).await;
    let mut alice = server.connect("alice").await;
    // Enough to fill what the kernel takes for a reader that doesn't read.
    let text = "x".repeat(50_000);
    for number in 0..400 {
        server.say_text(&convs[number % 3], "alice", &format!("k{number}"), &text).await;
    }

    let mut hints = Vec::new();
    server.say(&marker, "alice", "end").await;
    for frame in alice.until_event_of(&marker).await {
        match frame {
            ServerMessage::Hint { conv, head, .. } => hints.push((conv, head.get())),
            ServerMessage::Event(_) => {}
            other => panic!("unexpected {other:?}"),
        }
    }

    hints.sort();
    let newest: Vec<_> = convs.iter().zip([135, 134, 134]).map(|(conv, head)| (conv.clone(), head)).collect();
    assert_eq!(hints, newest);
    server.stopped().await;
}

// Behaviour 5, 6
#[tokio::test]
async fn a_large_conversation_is_hinted_and_hints_coalesce_to_the_newest() {
    let server = TestServer::start_with(|config| config.hub.pushed_members_max = 1).await;
    let conv = server.conversation("c", &["alice", "bob"]).await;
    let mut bob = server.connect("bob").await;
    for number in 0..100 {
        server.say(&conv, "alice", &format!("m{number}")).await;
    }

    let mut hints = Vec::new();
    while hints.last() != Some(&seq(102)) {
        match bob.next().await {
            ServerMessage::Hint { head, .. } => hints.push(head),
            other => panic!("unexpected {other:?}"),
        }
    }
    assert!(hints.is_sorted());
    assert_eq!(bob.read_all(&conv, 1, 200).await.len(), 101);
    server.stopped().await;
}

#[tokio::test]
async fn a_peer_that_takes_no_byte_is_given_up_and_others_go_on() {
    let server = TestServer::start_with(|config| {
        config.session.write_stall_max = Duration::from_millis(300);
    })
    .await;
    let conv = server.conversation("c", &["alice"]).await;
    let _stuck = server.connect("alice").await;
    let mut witness = server.connect("alice").await;
    let text = "x".repeat(60_000);
    for number in 0..200 {
        server.say_text(&conv, "alice", &format!("k{number}"), &text).await;
        witness.expect_event().await;
    }

    server.until_connections(1).await;

    witness.send(&conv, "still-here").await;
    server.stopped().await;
}
