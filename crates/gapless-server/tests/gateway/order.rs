//! One order for all, and none missing.

use std::collections::BTreeSet;

use futures_util::future::join_all;

use crate::test_server::{TestServer, seq};

on_both_stores!(
    three_users_who_send_at_the_same_time_all_see_one_log_without_holes,
    every_member_is_pushed_every_entry_once_and_in_order,
    paging_while_another_writes_meets_every_entry_once,
    a_page_passes_what_its_reader_may_not_see,
);

// Behaviour 1
async fn three_users_who_send_at_the_same_time_all_see_one_log_without_holes(server: TestServer) {
    let users = ["alice", "bob", "carol"];
    let conv = server.conversation("c", &users).await;

    let sending = users.map(async |user| {
        let mut client = server.connect(user).await;
        let mut seqs = Vec::new();
        for number in 0..50 {
            seqs.push(client.send(&conv, &format!("{user}-{number}")).await.seq);
        }
        (client, seqs)
    });
    let senders = join_all(sending).await;

    let seqs: BTreeSet<_> = senders.iter().flat_map(|(_, seqs)| seqs).copied().collect();
    assert_eq!(seqs, (4..=153).map(seq).collect());
    let mut logs = Vec::new();
    for (mut client, _) in senders {
        logs.push(serde_json::to_string(&client.read_all(&conv, 3, 50).await).unwrap());
    }
    assert_eq!(logs[0], logs[1]);
    assert_eq!(logs[1], logs[2]);
    server.stopped().await;
}

// Behaviour 1
async fn every_member_is_pushed_every_entry_once_and_in_order(server: TestServer) {
    let conv = server.conversation("c", &["alice", "bob"]).await;
    let mut alice = server.connect("alice").await;
    let mut bob = server.connect("bob").await;

    for number in 0..200 {
        alice.begin_send(&conv, &format!("k{number}"), "hello").await;
    }

    for client in [&mut alice, &mut bob] {
        for expected in 3..=202 {
            assert_eq!(client.expect_event().await.entry.seq, seq(expected));
        }
    }
    server.stopped().await;
}

// Behaviour 2
async fn paging_while_another_writes_meets_every_entry_once(server: TestServer) {
    let conv = server.conversation("c", &["alice", "bob"]).await;
    let mut alice = server.connect("alice").await;
    let mut bob = server.connect("bob").await;
    for number in 0..100 {
        alice.send(&conv, &format!("before-{number}")).await;
    }

    let mut entries = Vec::new();
    let mut after = 0;
    for round in 0.. {
        let rid = bob.begin_sync(&conv, after, Some(20), None).await;
        let page = bob.expect_page(rid).await;
        entries.extend(page.events);
        after = page.next_after.get();
        if !page.has_more {
            break;
        }
        if round < 6 {
            for number in 0..10 {
                alice.send(&conv, &format!("meanwhile-{round}-{number}")).await;
            }
        }
    }

    let seqs: Vec<_> = entries.iter().map(|entry| entry.seq).collect();
    assert_eq!(seqs, (2..=162).map(seq).collect::<Vec<_>>());
    server.stopped().await;
}

// Behaviour 2
async fn a_page_passes_what_its_reader_may_not_see(server: TestServer) {
    let conv = server.conversation("c", &["alice", "bob"]).await;
    for number in 3..64 {
        server.say(&conv, "alice", &format!("m{number}")).await;
    }
    assert_eq!(server.leave(&conv, "bob", "bob").await, seq(64));
    for number in 65..=70 {
        server.say(&conv, "alice", &format!("m{number}")).await;
    }
    let mut bob = server.connect("bob").await;

    let rid = bob.begin_sync(&conv, 1, Some(200), None).await;
    let page = bob.expect_page(rid).await;
    assert_eq!(page.events.last().map(|entry| entry.seq), Some(seq(64)));
    assert_eq!((page.next_after, page.has_more), (seq(70), false));

    let page = bob.sync(&conv, 70).await;
    assert_eq!((page.events.len(), page.next_after, page.has_more), (0, seq(70), false));
    server.stopped().await;
}

#[tokio::test]
async fn a_page_of_large_messages_ends_early_and_nothing_is_skipped() {
    let server = TestServer::start().await;
    let conv = server.conversation("c", &["alice"]).await;
    let mut alice = server.connect("alice").await;
    let large = "x".repeat(60 << 10);
    for number in 0..40 {
        let rid = alice.begin_send(&conv, &format!("k{number}"), &large).await;
        alice.expect_sent(rid).await;
    }

    let page = alice.sync(&conv, 1).await;
    assert_eq!((page.events.len(), page.has_more), (17, true));
    let seqs: Vec<_> = alice.read_all(&conv, 1, 200).await.iter().map(|entry| entry.seq).collect();
    assert_eq!(seqs, (2..=41).map(seq).collect::<Vec<_>>());
    server.stopped().await;
}
