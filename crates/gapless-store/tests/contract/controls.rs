//! Negative controls: readers and writers of a broken kind fail the checks that the store passes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::checks::{Flaw, each_once, each_once_in_order};
use crate::world::{Conversation, World, seqs};

contract![
    pages_after_a_cursor_read_everything_once_while_others_write,
    newest_first_pages_by_offset_double_entries,
    a_largest_seen_cursor_skips_entries_for_ever,
    a_reader_that_follows_the_log_misses_nothing,
];

async fn pages_after_a_cursor_read_everything_once_while_others_write(world: World) {
    let chat = world.create("chat", &["alice"]).await;
    let read = read_while_writing(&chat, &mut AfterCursor(0)).await;
    assert_eq!(each_once(&read, chat.head().await), Ok(()));
}

async fn newest_first_pages_by_offset_double_entries(world: World) {
    let chat = world.create("chat", &["alice"]).await;
    let read = read_while_writing(&chat, &mut NewestFirst { offset: 0 }).await;
    assert!(matches!(each_once(&read, chat.head().await), Err(Flaw::Doubled(_))));
}

async fn a_largest_seen_cursor_skips_entries_for_ever(world: World) {
    let chat = world.create("chat", &["alice"]).await;
    let mut reader = LargestSeen(0);
    let mut read = read_while_writing(&chat, &mut reader).await;
    read.extend(reader.page(&chat).await);
    assert!(matches!(each_once(&read, chat.head().await), Err(Flaw::Skipped(_))));
}

// Behaviour 1
async fn a_reader_that_follows_the_log_misses_nothing(world: World) {
    let chat = world.create("chat", &["alice"]).await;
    let one = tokio::spawn({
        let chat = chat.clone();
        async move { chat.say_many("alice", "one", 50).await }
    });
    let other = tokio::spawn({
        let chat = chat.clone();
        async move { chat.say_many("alice", "other", 50).await }
    });
    let mut followed = Vec::new();
    while followed.len() < 101 {
        let after = followed.last().copied().unwrap_or(0);
        followed.extend(seqs(&chat.page("alice", after, 50).await.events));
    }
    one.await.unwrap();
    other.await.unwrap();
    assert_eq!(each_once_in_order(&followed, 101), Ok(()));
}

/// The same, of a log whose seqs come from a counter outside the transaction that stores the entry.
#[test]
fn a_reader_of_seqs_given_out_before_the_lock_skips_an_entry_for_ever() {
    let log = CounterLog::default();
    let (first, second) = (log.next_seq(), log.next_seq());
    log.commit(second);
    let mut followed = log.after(0);
    log.commit(first);
    followed.extend(log.after(followed.last().copied().unwrap_or(0)));
    assert_eq!(each_once_in_order(&followed, 2), Err(Flaw::Skipped(1)));
}

/// A way of reading a log in pages of ten.
trait Paging {
    async fn page(&mut self, chat: &Conversation) -> Vec<u64>;

    /// An entry was pushed between two pages; returns what the reader takes of it.
    fn pushed(&mut self, seq: u64) -> Option<u64>;
}

/// 30 entries, three more between any two pages, and each third of them pushed: until a page is empty.
async fn read_while_writing(chat: &Conversation, reader: &mut impl Paging) -> Vec<u64> {
    chat.say_many("alice", "old", 29).await;
    let mut read = Vec::new();
    for round in 0.. {
        let page = reader.page(chat).await;
        if page.is_empty() {
            break;
        }
        read.extend(page);
        if round < 5 {
            chat.say_many("alice", &format!("new{round}-"), 3).await;
            read.extend(reader.pushed(chat.head().await));
        }
    }
    read
}

/// Asks for what comes after the last entry of the last page. A push doesn't move the cursor.
struct AfterCursor(u64);

impl Paging for AfterCursor {
    async fn page(&mut self, chat: &Conversation) -> Vec<u64> {
        let page = chat.page("alice", self.0, 10).await;
        self.0 = page.next_after.get();
        seqs(&page.events)
    }

    fn pushed(&mut self, _seq: u64) -> Option<u64> {
        None
    }
}

/// The popular way: newest first, `LIMIT 10 OFFSET n`.
struct NewestFirst {
    offset: usize,
}

impl Paging for NewestFirst {
    async fn page(&mut self, chat: &Conversation) -> Vec<u64> {
        let log = chat.log().await;
        let page = log.iter().rev().skip(self.offset).take(10);
        self.offset += 10;
        page.map(|entry| entry.seq.get()).collect()
    }

    fn pushed(&mut self, _seq: u64) -> Option<u64> {
        None
    }
}

/// Takes the largest seq it has seen for its cursor.
struct LargestSeen(u64);

impl Paging for LargestSeen {
    async fn page(&mut self, chat: &Conversation) -> Vec<u64> {
        let page = seqs(&chat.page("alice", self.0, 10).await.events);
        self.0 = page.last().copied().unwrap_or(self.0);
        page
    }

    fn pushed(&mut self, seq: u64) -> Option<u64> {
        self.0 = self.0.max(seq);
        Some(seq)
    }
}

#[derive(Default)]
struct CounterLog {
    counter: AtomicU64,
    visible: Mutex<Vec<u64>>,
}

impl CounterLog {
    fn next_seq(&self) -> u64 {
        self.counter.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn commit(&self, seq: u64) {
        self.visible.lock().unwrap_or_else(PoisonError::into_inner).push(seq);
    }

    fn after(&self, after: u64) -> Vec<u64> {
        let visible = self.visible.lock().unwrap_or_else(PoisonError::into_inner);
        visible.iter().copied().filter(|seq| *seq > after).collect()
    }
}
