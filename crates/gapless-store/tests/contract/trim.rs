//! The old end of a log goes.

use gapless_core::AppendRefusal;
use gapless_store::{AppendError, TrimmedTo};
use tokio::task::JoinSet;

use crate::world::{Conversation, World, seq, seqs};

contract![
    the_first_page_after_a_trim_says_so_and_has_the_survivors,
    a_trim_of_everything_keeps_the_head_over_a_restart,
    a_trim_stops_at_the_head,
    a_trim_of_what_is_gone_does_nothing,
    a_trimmed_key_is_still_recognised,
    a_page_is_trimmed_only_where_its_reader_could_have_seen_something,
    a_long_trim_announces_every_hole_that_a_reader_may_meet,
    trims_of_one_log_at_a_time_come_to_the_same,
    what_does_not_exist_is_not_trimmed,
];

// Behaviour 9
async fn the_first_page_after_a_trim_says_so_and_has_the_survivors(world: World) {
    let chat = of_ten(&world).await;
    assert_eq!(trim(&chat, 5).await, (5, 4));
    for after in 0..=10 {
        let page = chat.page("alice", after, 50).await;
        assert_eq!((page.trimmed, page.min_seq.get(), page.head.get()), (after < 4, 5, 10));
        assert_eq!(seqs(&page.events), (after.max(4) + 1..=10).collect::<Vec<_>>());
        assert_eq!(page.next_after.get(), 10);
    }
    assert_eq!(chat.read_all("alice", 0, 2).await, chat.log().await);
}

// Behaviour 9
async fn a_trim_of_everything_keeps_the_head_over_a_restart(mut world: World) {
    let chat = of_ten(&world).await;
    assert_eq!(trim(&chat, 11).await, (11, 10));
    world.reopen().await;
    let chat = world.conversation("chat");
    let page = chat.page("alice", 0, 50).await;
    assert!(page.events.is_empty() && page.trimmed && !page.has_more);
    assert_eq!((page.head.get(), page.min_seq.get(), page.next_after.get()), (10, 11, 10));

    assert_eq!(chat.say("alice", "next").await, 11);
    let page = chat.page("alice", 10, 50).await;
    assert_eq!((seqs(&page.events), page.trimmed), (vec![11], false));
    assert!(chat.page("alice", 3, 50).await.trimmed);
}

// Behaviour 9
async fn a_trim_stops_at_the_head(world: World) {
    let chat = of_ten(&world).await;
    assert_eq!(trim(&chat, (1 << 53) - 1).await, (11, 10));
    assert_eq!(chat.say("alice", "next").await, 11);
}

async fn a_trim_of_what_is_gone_does_nothing(world: World) {
    let chat = of_ten(&world).await;
    assert_eq!(trim(&chat, 0).await, (1, 0));
    assert_eq!(trim(&chat, 1).await, (1, 0));
    trim(&chat, 7).await;
    assert_eq!(trim(&chat, 7).await, (7, 0));
    assert_eq!(trim(&chat, 3).await, (7, 0));
}

// Behaviour 9, 10
async fn a_trimmed_key_is_still_recognised(mut world: World) {
    let chat = of_ten(&world).await;
    let first = chat.send("alice", "late", "hi").await.unwrap();
    chat.say("alice", "later").await;
    trim(&chat, 12).await;
    world.reopen().await;
    let chat = world.conversation("chat");
    let again = chat.send("alice", "late", "hi").await.unwrap();
    assert_eq!((again.position, again.ts, again.duplicate), (first.position, first.ts, true));
    let conflict = chat.send("alice", "late", "ho").await;
    let expected = AppendRefusal::KeyConflict { seq: seq(11) };
    assert!(matches!(&conflict, Err(AppendError::Refused(refusal)) if *refusal == expected), "{conflict:?}");
    assert_eq!(chat.say("alice", "next").await, 13);
}

// Behaviour 9
async fn a_page_is_trimmed_only_where_its_reader_could_have_seen_something(world: World) {
    let chat = of_ten(&world).await;
    chat.join("bob", "alice").await;
    chat.leave("bob", "bob").await;
    chat.say_many("alice", "away", 3).await;
    chat.join("bob", "alice").await;
    trim(&chat, 11).await;
    assert!(!chat.page("bob", 0, 50).await.trimmed, "bob wasn't there before 11");
    trim(&chat, 12).await;
    assert!(chat.page("bob", 0, 50).await.trimmed, "bob's join is gone");
    assert!(!chat.page("bob", 11, 50).await.trimmed);
    trim(&chat, 16).await;
    assert!(chat.page("bob", 11, 50).await.trimmed, "bob's leave is gone");
    assert!(!chat.page("bob", 12, 50).await.trimmed, "bob was away from 13 to 15");
    assert!(chat.page("alice", 12, 50).await.trimmed);
}

// Behaviour 9
async fn a_long_trim_announces_every_hole_that_a_reader_may_meet(world: World) {
    let chat = world.create("chat", &["alice"]).await;
    crate::world::say_at_once(&chat, "alice", 3_999).await;
    let trimming = {
        let chat = chat.clone();
        tokio::spawn(async move { trim(&chat, 3_501).await })
    };
    while !trimming.is_finished() {
        let page = chat.page("alice", 0, 200).await;
        let first = page.min_seq.get();
        assert_eq!(seqs(&page.events), (first..=4_000).take(200).collect::<Vec<_>>());
        assert_eq!(page.trimmed, first > 1);
        chat.say("alice", &format!("meanwhile{}", chat.head().await)).await;
        assert!(chat.head().await > 4_000);
    }
    assert_eq!(trimming.await.unwrap(), (3_501, 3_500));
}

async fn trims_of_one_log_at_a_time_come_to_the_same(world: World) {
    let chat = world.create("chat", &["alice"]).await;
    crate::world::say_at_once(&chat, "alice", 2_999).await;
    let mut trims = JoinSet::new();
    for below in [2_001, 501, 1_501, 2_501, 1_001] {
        let chat = chat.clone();
        trims.spawn(async move { trim(&chat, below).await.1 });
    }
    assert_eq!(trims.join_all().await.iter().sum::<u64>(), 2_500);
    assert_eq!(seqs(&chat.log().await), (2_501..=3_000).collect::<Vec<_>>());
}

async fn what_does_not_exist_is_not_trimmed(world: World) {
    let nowhere = world.conversation("nowhere");
    assert_eq!(world.store.trim(&nowhere.id, seq(5)).await.unwrap(), None);
}

async fn of_ten(world: &World) -> Conversation {
    let chat = world.create("chat", &["alice"]).await;
    chat.say_many("alice", "k", 9).await;
    chat
}

/// The oldest seq kept, and how many were deleted.
async fn trim(chat: &Conversation, below: u64) -> (u64, u64) {
    let trimmed = chat.store.trim(&chat.id, seq(below)).await.unwrap();
    let TrimmedTo { min_seq, deleted } = trimmed.expect("the conversation exists");
    (min_seq.get(), deleted)
}
