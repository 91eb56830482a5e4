//! Who may see which part of a conversation.

use gapless_core::{Authority, History};
use gapless_proto::Kind;
use gapless_store::{PageError, PageRequest};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::model::{self, Model, Step};
use crate::world::{Conversation, World, body, joining, leaving, message, seq, seqs};

contract![
    the_joiners_first_visible_entry_is_their_own_join,
    a_removed_member_gets_their_leave_entry_and_nothing_later,
    coming_and_going_shows_exactly_the_union_of_the_intervals,
    whole_history_shows_the_time_before_and_between,
    whole_history_ends_with_the_membership,
    whole_history_leaves_no_hole_for_who_reads_while_away_and_comes_back,
    a_random_history_reads_like_the_model_from_every_cursor,
    a_stranger_and_a_missing_conversation_look_the_same,
    joining_or_leaving_twice_is_the_first_time,
    a_creation_is_a_join_entry_a_member,
    a_name_is_taken_once,
];

// Behaviour 15
async fn the_joiners_first_visible_entry_is_their_own_join(world: World) {
    let chat = world.create("chat", &["alice"]).await;
    chat.say_many("alice", "before", 5).await;
    let joined = chat.join("bob", "alice").await;
    let page = chat.page("bob", 0, 50).await;
    assert_eq!(seqs(&page.events), [joined]);
    assert_eq!(page.events[0].kind, Kind::Join);
    assert!(!page.trimmed, "nothing that bob might see is gone");
}

// Behaviour 14
async fn a_removed_member_gets_their_leave_entry_and_nothing_later(world: World) {
    let chat = world.create("chat", &["alice", "bob"]).await;
    chat.say_many("alice", "a", 3).await;
    let left = chat.leave("bob", "alice").await;
    chat.say_many("alice", "b", 3).await;
    for after in 0..left {
        let read = chat.read_all("bob", after, 2).await;
        assert_eq!(read.last().map(|entry| entry.seq.get()), Some(left));
    }
    for after in left..=left + 3 {
        assert!(chat.read_all("bob", after, 2).await.is_empty());
    }
}

// Behaviour 14
async fn coming_and_going_shows_exactly_the_union_of_the_intervals(world: World) {
    let chat = come_and_go(&world, History::FromJoin).await;
    let visible: Vec<u64> = [4..=7, 10..=13, 16..=18].into_iter().flatten().collect();
    assert_reads(&chat, &visible).await;
}

// Behaviour 14
async fn whole_history_shows_the_time_before_and_between(world: World) {
    let chat = come_and_go(&world, History::All).await;
    assert_reads(&chat, &(1..=18).collect::<Vec<_>>()).await;
}

// Behaviour 14
async fn whole_history_ends_with_the_membership(world: World) {
    let chat = world.create_with(History::All, "chat", &["alice"]).await;
    chat.say_many("alice", "a", 2).await;
    chat.join("bob", "alice").await;
    chat.leave("bob", "bob").await;
    chat.say_many("alice", "b", 2).await;
    assert_reads(&chat, &[1, 2, 3, 4, 5]).await;
}

// Behaviour 14
async fn whole_history_leaves_no_hole_for_who_reads_while_away_and_comes_back(world: World) {
    let chat = world.create_with(History::All, "chat", &["alice", "bob"]).await;
    chat.leave("bob", "alice").await;
    chat.say_many("alice", "away", 2).await;
    let away = chat.page("bob", 0, 50).await;
    assert_eq!((seqs(&away.events), away.next_after), (vec![1, 2, 3], seq(3)));
    chat.join("bob", "alice").await;
    let back = chat.page("bob", away.next_after.get(), 50).await;
    assert_eq!((seqs(&back.events), back.next_after), (vec![4, 5, 6], seq(6)));
}

// Behaviour 2, 9, 14, 15
async fn a_random_history_reads_like_the_model_from_every_cursor(world: World) {
    let config = Config { cases: 24, failure_persistence: None, max_shrink_iters: 200, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let runtime = tokio::runtime::Handle::current();
    let mut histories = 0;
    let names = std::cell::RefCell::new(&mut histories);
    tokio::task::block_in_place(|| {
        runner.run(&model::histories(), |(history, limit, steps)| {
            let number = {
                let mut names = names.borrow_mut();
                **names += 1;
                **names
            };
            runtime.block_on(reads_like_the_model(&world, &format!("chat{number}"), history, limit, &steps));
            Ok(())
        })
    })
    .unwrap_or_else(|error| panic!("{error}"));
}

async fn reads_like_the_model(world: &World, name: &str, history: History, limit: u32, steps: &[Step]) {
    let chat = world.create_with(history, name, &["u0"]).await;
    let mut model = Model::created(history);
    for (number, step) in steps.iter().enumerate() {
        take(&chat, number, *step).await;
        model.take(*step);
    }
    assert_eq!(chat.head().await, model.head());
    for who in 0..model::USERS {
        for after in 0..=model.head() {
            let page = chat.try_page(&format!("u{who}"), after, limit).await;
            let shown = match page {
                Ok(page) => Some(model::Shown {
                    seqs: seqs(&page.events),
                    has_more: page.has_more,
                    next_after: page.next_after.get(),
                    trimmed: page.trimmed,
                }),
                Err(PageError::NotFound) => None,
                Err(error) => panic!("{error:?}"),
            };
            assert_eq!(shown, model.page(who, after, limit), "u{who} after {after}");
        }
    }
}

async fn take(chat: &Conversation, number: usize, step: Step) {
    let operation = match step {
        Step::Join(who) => joining(&format!("u{who}"), "u0"),
        Step::Leave(who) => leaving(&format!("u{who}"), "u0"),
        Step::Say => message("u0", &format!("k{number}"), body("hi")),
        Step::Trim { of_head_percent } => {
            let below = chat.head().await * of_head_percent / 100 + 1;
            chat.store.trim(&chat.id, seq(below)).await.unwrap();
            return;
        }
    };
    // What the rules refuse, as a leave of someone who never was there, the model passes over as well.
    let _ = chat.append_as(Authority::Service, operation).await;
}

// Behaviour 20
async fn a_stranger_and_a_missing_conversation_look_the_same(world: World) {
    let chat = world.create("chat", &["alice"]).await;
    let nowhere = world.conversation("nowhere");
    for epoch in [None, Some(chat.info().await.feed.epoch)] {
        for after in [0, 1, 1_000] {
            for asked in [&chat, &nowhere] {
                let request = PageRequest { epoch, ..asked.page_request("mallory", after, 50) };
                let page = world.store.page(request).await;
                assert!(matches!(page, Err(PageError::NotFound)), "{page:?}");
            }
        }
    }
    let mallory = crate::world::user("mallory");
    for asked in [&chat, &nowhere] {
        assert_eq!(world.store.membership(&asked.id, &mallory).await.unwrap(), None);
    }
}

// Behaviour 14
async fn joining_or_leaving_twice_is_the_first_time(world: World) {
    let chat = world.create("chat", &["alice"]).await;
    let joined = chat.join("bob", "alice").await;
    let again = chat.append(joining("bob", "alice")).await.unwrap();
    assert_eq!((again.position.seq.get(), again.duplicate), (joined, true));
    let left = chat.leave("bob", "alice").await;
    let again = chat.append(leaving("bob", "alice")).await.unwrap();
    assert_eq!((again.position.seq.get(), again.duplicate), (left, true));
    assert_eq!(chat.info().await.feed.members, 1);
    assert_eq!(chat.head().await, 3);
}

async fn a_creation_is_a_join_entry_a_member(world: World) {
    let chat = world.create("chat", &["alice", "bob", "alice", "carol", "bob"]).await;
    let log = chat.log().await;
    let bodies: Vec<_> = log.iter().map(|entry| entry.body.as_str()).collect();
    assert_eq!(bodies, [r#"{"user":"alice"}"#, r#"{"user":"bob"}"#, r#"{"user":"carol"}"#]);
    assert!(log.iter().all(|entry| entry.kind == Kind::Join && entry.sender.as_str() == "alice"));
    assert_eq!(chat.info().await.feed.members, 3);
}

async fn a_name_is_taken_once(world: World) {
    let chat = world.create("chat", &["alice"]).await;
    let creation = crate::world::creation(History::All, "chat", &["mallory"]);
    let again = world.store.create(creation).await;
    assert!(matches!(again, Err(gapless_store::CreateError::Exists)));
    assert_eq!(chat.head().await, 1);
    assert_eq!(chat.info().await.history, History::FromJoin);
}

/// Bob: join–leave–join–leave–join, with messages before, between, and after.
async fn come_and_go(world: &World, history: History) -> Conversation {
    let chat = world.create_with(history, "chat", &["alice"]).await;
    for round in 0..3 {
        chat.say_many("alice", &format!("away{round}-"), 2).await;
        chat.join("bob", "alice").await;
        chat.say_many("alice", &format!("here{round}-"), 2).await;
        if round < 2 {
            chat.leave("bob", "alice").await;
        }
    }
    chat
}

/// Asserts what bob reads, from every cursor and in several page sizes.
async fn assert_reads(chat: &Conversation, visible: &[u64]) {
    for after in 0..=chat.head().await {
        for limit in [1, 3, 200] {
            let read = chat.read_all("bob", after, limit).await;
            let expected: Vec<u64> = visible.iter().copied().filter(|seq| *seq > after).collect();
            assert_eq!(seqs(&read), expected, "after {after} in pages of {limit}");
        }
    }
}
