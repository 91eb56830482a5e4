//! Nobody reads what is outside their memberships.

use gapless_proto::{ClientMessage, ConvId, ErrorCode, ServerMessage};

use crate::client::Client;
use crate::test_server::{TestServer, conv, seq};

on_both_stores!(
    a_member_who_comes_and_goes_is_pushed_exactly_their_intervals,
    a_member_who_comes_and_goes_syncs_exactly_their_intervals_from_any_cursor,
    a_joiners_first_visible_entry_is_their_own_join,
    a_foreign_conversation_is_refused_like_one_that_does_not_exist,
);

// Behaviour 14
async fn a_member_who_comes_and_goes_is_pushed_exactly_their_intervals(server: TestServer) {
    let conv = server.conversation("c", &["alice"]).await;
    let marker = server.conversation("marker", &["bob"]).await;
    let mut bob = server.connect("bob").await;

    come_and_go(&server, &conv).await;
    server.say(&marker, "bob", "end").await;

    let pushed: Vec<_> = bob
        .until_event_of(&marker)
        .await
        .into_iter()
        .filter_map(|frame| match frame {
            ServerMessage::Event(event) => Some(event.entry.seq.get()),
            _ => None,
        })
        .collect();
    assert_eq!(pushed, VISIBLE);
    server.stopped().await;
}

// Behaviour 14
async fn a_member_who_comes_and_goes_syncs_exactly_their_intervals_from_any_cursor(server: TestServer) {
    let conv = server.conversation("c", &["alice"]).await;
    come_and_go(&server, &conv).await;
    let mut bob = server.connect("bob").await;
    for after in 0..=12 {
        let entries = bob.read_all(&conv, after, 2).await;
        let seqs: Vec<_> = entries.iter().map(|entry| entry.seq.get()).collect();
        let expected: Vec<_> = VISIBLE.into_iter().filter(|seq| *seq > after).collect();
        assert_eq!(seqs, expected, "after {after}");
    }
    server.stopped().await;
}

/// What bob may see of [`come_and_go`]: his join and leave entries, and what is between them.
const VISIBLE: [u64; 8] = [3, 4, 5, 7, 8, 9, 11, 12];

/// Seq 1 is the creator's join. Bob is in from 3 to 5, from 7 to 9, and from 11 on.
async fn come_and_go(server: &TestServer, conv: &ConvId) {
    server.say(conv, "alice", "2").await;
    for round in [3, 7] {
        server.join(conv, "bob", "alice").await;
        server.say(conv, "alice", &format!("{}", round + 1)).await;
        assert_eq!(server.leave(conv, "bob", "alice").await, seq(round + 2));
        server.say(conv, "alice", &format!("{}", round + 3)).await;
    }
    server.join(conv, "bob", "alice").await;
    assert_eq!(server.say(conv, "alice", "12").await, seq(12));
}

// Behaviour 14
#[tokio::test]
async fn what_is_queued_for_a_member_when_they_are_removed_is_only_what_they_may_see() {
    let server = TestServer::start_with(|config| config.session.delivery.queued_frames_max = 50).await;
    let conv = server.conversation("c", &["alice", "bob"]).await;
    let marker = server.conversation("marker", &["bob"]).await;
    let mut bob = server.connect("bob").await;

    // More than may wait: bob, who reads nothing meanwhile, falls back to a hint.
    for number in 0..200 {
        server.say(&conv, "alice", &format!("before-{number}")).await;
    }
    let left = server.leave(&conv, "bob", "alice").await;
    for number in 0..200 {
        server.say(&conv, "alice", &format!("after-{number}")).await;
    }
    server.say(&marker, "bob", "end").await;

    for frame in bob.until_event_of(&marker).await {
        match frame {
            ServerMessage::Event(event) => assert!(event.entry.seq <= left, "pushed {}", event.entry.seq),
            ServerMessage::Hint { head, .. } => assert!(head <= left, "hinted {head}"),
            other => panic!("unexpected {other:?}"),
        }
    }
    server.stopped().await;
}

// Behaviour 15
async fn a_joiners_first_visible_entry_is_their_own_join(server: TestServer) {
    let conv = server.conversation("c", &["alice"]).await;
    server.say(&conv, "alice", "secret").await;
    let mut bob = server.connect("bob").await;

    let joined = server.join(&conv, "bob", "alice").await;
    server.say(&conv, "alice", "welcome").await;

    assert_eq!(bob.expect_event().await.entry.seq, joined);
    let page = bob.sync(&conv, 0).await;
    assert_eq!(page.events.first().map(|entry| entry.seq), Some(joined));
    server.stopped().await;
}

// Behaviour 20
async fn a_foreign_conversation_is_refused_like_one_that_does_not_exist(server: TestServer) {
    let foreign = server.conversation("foreign", &["alice"]).await;
    let mut mallory = server.connect("mallory").await;

    let syncs = [refused_sync(&mut mallory, &foreign).await, refused_sync(&mut mallory, &conv("none")).await];
    assert_eq!(syncs[0], syncs[1]);
    let rid = mallory.begin_send(&foreign, "k", "hello").await;
    let foreign_send = mallory.expect_error(rid).await;
    let rid = mallory.begin_send(&conv("none"), "k", "hello").await;
    let send = mallory.expect_error(rid).await;
    assert_eq!((foreign_send.code, &foreign_send.message), (send.code, &send.message));
    assert_eq!(foreign_send.code, ErrorCode::NotFound);

    // An ack for it tells nothing either, and does no harm.
    mallory.ack(&foreign, 1).await;
    mallory.ack(&conv("none"), 1).await;
    mallory.tell(&ClientMessage::Ping).await;
    assert_eq!(mallory.next().await, ServerMessage::Pong);
    server.stopped().await;
}

async fn refused_sync(client: &mut Client, conv: &ConvId) -> (ErrorCode, String) {
    let rid = client.begin_sync(conv, 0, None, None).await;
    let error = client.expect_error(rid).await;
    (error.code, error.message)
}
