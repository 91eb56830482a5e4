//! How a reader gets from a cursor to the head.

use gapless_core::{Authority, History};
use gapless_store::{PAGE_ENTRIES_MAX, PageRequest, Reader};

use crate::checks::each_once_in_order;
use crate::world::{World, joining, leaving, seqs};

contract![
    paging_reaches_the_head_while_others_write,
    every_limit_gives_the_same_log,
    a_backlog_of_three_times_the_limit_arrives_oldest_first,
    a_page_says_exactly_whether_there_is_more,
    a_limit_is_kept_within_bounds,
    the_last_page_moves_the_cursor_past_what_its_owner_may_not_see,
    a_page_of_someone_who_left_ends_at_their_leave_entry,
    a_cursor_at_the_head_gets_an_empty_page,
    a_backend_sees_everything,
    someone_who_came_back_a_thousand_times_pages_like_everyone_else,
];

// Behaviour 2
async fn paging_reaches_the_head_while_others_write(world: World) {
    let chat = world.create("chat", &["alice", "bob"]).await;
    chat.say_many("alice", "old", 60).await;
    let writer = {
        let chat = chat.clone();
        tokio::spawn(async move { chat.say_many("alice", "new", 60).await })
    };
    let mut read = chat.read_all("bob", 0, 20).await;
    writer.await.unwrap();
    let after = read.last().map_or(0, |entry| entry.seq.get());
    read.extend(chat.read_all("bob", after, 20).await);
    // Bob's first visible entry is his own join, at 2.
    let read: Vec<u64> = std::iter::once(1).chain(seqs(&read)).collect();
    each_once_in_order(&read, chat.head().await).unwrap();
    assert_eq!(read.len(), 122);
}

// Behaviour 2
async fn every_limit_gives_the_same_log(world: World) {
    let chat = world.create("chat", &["alice"]).await;
    chat.say_many("alice", "k", 29).await;
    let log = chat.log().await;
    for limit in 1..=32 {
        assert_eq!(chat.read_all("alice", 0, limit).await, log, "in pages of {limit}");
    }
}

// Behaviour 3
async fn a_backlog_of_three_times_the_limit_arrives_oldest_first(world: World) {
    let chat = world.create("chat", &["alice"]).await;
    chat.say_many("alice", "k", 3 * 20 - 1).await;
    let mut after = 0;
    for page in 1..=3 {
        let got = chat.page("alice", after, 20).await;
        assert_eq!(seqs(&got.events), (after + 1..=after + 20).collect::<Vec<_>>());
        assert_eq!((got.has_more, got.next_after.get()), (page < 3, after + 20));
        after += 20;
    }
}

async fn a_page_says_exactly_whether_there_is_more(world: World) {
    let chat = world.create("chat", &["alice"]).await;
    chat.say_many("alice", "k", 9).await;
    for (limit, has_more, next_after) in [(9, true, 9), (10, false, 10), (11, false, 10)] {
        let page = chat.page("alice", 0, limit).await;
        assert_eq!((page.has_more, page.next_after.get()), (has_more, next_after), "{limit}");
    }
}

async fn a_limit_is_kept_within_bounds(world: World) {
    let chat = world.create("chat", &["alice"]).await;
    chat.say_many("alice", "k", 210).await;
    assert_eq!(chat.page("alice", 0, 0).await.events.len(), 1);
    for limit in [PAGE_ENTRIES_MAX + 1, u32::MAX] {
        let page = chat.page("alice", 0, limit).await;
        assert_eq!((page.events.len(), page.has_more), (PAGE_ENTRIES_MAX as usize, true));
    }
}

// Behaviour 2
async fn the_last_page_moves_the_cursor_past_what_its_owner_may_not_see(world: World) {
    let chat = world.create("chat", &["alice", "bob"]).await;
    chat.say_many("alice", "a", 8).await;
    chat.leave("bob", "bob").await;
    chat.say_many("alice", "b", 8).await;
    chat.join("bob", "alice").await;
    let page = chat.page("bob", 11, 50).await;
    assert_eq!((seqs(&page.events), page.next_after.get()), (vec![20], 20));
    chat.leave("bob", "bob").await;
    chat.say_many("alice", "c", 8).await;
    for after in 21..29 {
        let page = chat.page("bob", after, 50).await;
        assert_eq!((page.events.len(), page.next_after.get(), page.has_more), (0, 29, false));
    }
}

// Behaviour 2, 14
async fn a_page_of_someone_who_left_ends_at_their_leave_entry(world: World) {
    let chat = world.create("chat", &["alice", "bob"]).await;
    chat.say_many("alice", "a", 61).await;
    assert_eq!(chat.leave("bob", "bob").await, 64);
    chat.say_many("alice", "b", 6).await;

    let page = chat.page("bob", 40, 50).await;
    assert_eq!(seqs(&page.events), (41..=64).collect::<Vec<_>>());
    assert_eq!((page.head.get(), page.next_after.get(), page.has_more), (70, 70, false));
    let next = chat.page("bob", 70, 50).await;
    assert_eq!((next.events.len(), next.next_after.get()), (0, 70));
}

async fn a_cursor_at_the_head_gets_an_empty_page(world: World) {
    let chat = world.create("chat", &["alice"]).await;
    let page = chat.page("alice", 1, 50).await;
    assert!(page.events.is_empty() && !page.has_more && !page.trimmed);
    assert_eq!((page.head.get(), page.next_after.get(), page.min_seq.get()), (1, 1, 1));
}

async fn a_backend_sees_everything(world: World) {
    let chat = world.create("chat", &["alice"]).await;
    chat.say_many("alice", "k", 9).await;
    for after in 0..=10 {
        let request = PageRequest { reader: Reader::Service, ..chat.page_request("nobody", after, 4) };
        let page = world.store.page(request).await.unwrap();
        let expected: Vec<u64> = (after + 1..=10).take(4).collect();
        assert_eq!((seqs(&page.events), page.has_more), (expected, after < 6));
    }
}

// Behaviour 14
async fn someone_who_came_back_a_thousand_times_pages_like_everyone_else(world: World) {
    let chat = world.create_with(History::FromJoin, "chat", &["alice", "bob"]).await;
    let mut comings_and_goings = Vec::new();
    for number in 0..1_000 {
        for operation in [
            leaving("bob", "alice"),
            crate::world::message("alice", &format!("k{number}"), crate::world::body("hi")),
            joining("bob", "alice"),
        ] {
            let append = chat.request(Authority::Service, operation);
            comings_and_goings.push(world.store.append(append, None));
        }
    }
    crate::world::in_order(comings_and_goings).await;
    let read = chat.read_all("bob", 0, 200).await;
    // All but alice's own join and what she said while bob was away.
    let visible: Vec<u64> = (2..=3_002).filter(|seq| (seq - 2) % 3 != 2).collect();
    assert_eq!(seqs(&read), visible);
    assert_eq!(chat.page("bob", 3_002, 200).await.events.len(), 0);
}
