//! What an append does to the log.

use std::collections::BTreeMap;

use futures_util::FutureExt as _;
use gapless_core::{AppendRefusal, Authority};
use gapless_proto::{Body, Kind};
use gapless_store::{AppendError, PAGE_ENTRIES_MAX, PageRequest, Reader};
use tokio::task::JoinSet;

use crate::checks::each_once_in_order;
use crate::world::{Conversation, World, body, message, position_of, seq_of, seqs, text_of};

contract![
    an_acknowledged_append_is_what_the_next_read_shows,
    a_reader_never_sees_an_entry_before_its_predecessors,
    concurrent_appends_use_each_seq_once_and_everyone_reads_the_same_bytes,
    conversations_that_share_commits_do_not_share_seqs,
    pipelined_appends_keep_their_order,
    an_append_takes_effect_though_its_caller_went_away,
    a_repeated_key_gives_back_the_first_seq,
    ten_repeats_in_parallel_are_one_entry,
    a_key_is_recognised_after_a_restart,
    a_key_is_recognised_after_its_sender_was_removed,
    a_key_with_other_content_is_a_conflict_and_stores_nothing,
    a_key_is_one_senders_in_one_conversation,
    a_refused_append_uses_no_seq,
    a_send_that_races_the_senders_removal_is_before_it_or_refused,
    bodies_and_ids_come_back_byte_for_byte,
    a_body_of_64_kib_comes_back_whole,
];

async fn an_acknowledged_append_is_what_the_next_read_shows(world: World) {
    let chat = world.create("chat", &["alice", "bob"]).await;
    for number in 0..20 {
        let seq = chat.say("alice", &format!("k{number}")).await;
        let page = chat.page("bob", seq - 1, 50).await;
        assert_eq!((seqs(&page.events), page.head.get()), (vec![seq], seq));
    }
}

// Behaviour 1
async fn a_reader_never_sees_an_entry_before_its_predecessors(world: World) {
    let chat = world.create("chat", &["alice", "bob"]).await;
    let mut writers = JoinSet::new();
    for writer in 0..8 {
        let chat = chat.clone();
        writers.spawn(async move { chat.say_many("alice", &format!("w{writer}-"), 20).await });
    }
    while !writers.is_empty() {
        let slice = chat.store.log(&chat.id, crate::world::seq(0), PAGE_ENTRIES_MAX).await;
        let slice = slice.unwrap().unwrap();
        each_once_in_order(&seqs(&slice.entries), slice.feed.head.get().min(PAGE_ENTRIES_MAX.into()))
            .unwrap();
        while let Some(ended) = writers.try_join_next() {
            ended.unwrap();
        }
    }
    assert_eq!(chat.head().await, 2 + 8 * 20);
}

// Behaviour 1
async fn concurrent_appends_use_each_seq_once_and_everyone_reads_the_same_bytes(world: World) {
    let members = ["alice", "bob", "carol"];
    let chat = world.create("chat", &members).await;
    let mut senders = JoinSet::new();
    for number in 0..150 {
        let (chat, sender) = (chat.clone(), members[number % 3]);
        senders.spawn(async move { chat.say(sender, &format!("k{number}")).await });
    }
    let mut acknowledged = senders.join_all().await;
    acknowledged.sort_unstable();
    assert_eq!(acknowledged, (4..=153).collect::<Vec<_>>());

    let log = chat.log().await;
    each_once_in_order(&seqs(&log), 153).unwrap();
    for (member, joined, limit) in [("alice", 1, 7), ("bob", 2, 50), ("carol", 3, 200)] {
        let read = chat.read_all(member, 0, limit).await;
        assert_eq!(text_of(&read), text_of(&log[joined - 1..]), "{member} reads another log");
    }
}

async fn conversations_that_share_commits_do_not_share_seqs(world: World) {
    let mut senders = JoinSet::new();
    for conversation in 0..10 {
        let chat = world.create(&format!("chat{conversation}"), &["alice"]).await;
        for sender in 0..4 {
            let chat = chat.clone();
            senders.spawn(async move { chat.say_many("alice", &format!("s{sender}-"), 10).await });
        }
    }
    senders.join_all().await;
    for conversation in 0..10 {
        let chat = world.conversation(&format!("chat{conversation}"));
        each_once_in_order(&seqs(&chat.log().await), 41).unwrap();
    }
}

// Behaviour 12
async fn pipelined_appends_keep_their_order(world: World) {
    let chat = world.create("chat", &["alice"]).await;
    let sends: Vec<_> = (0..500)
        .map(|number| message("alice", &format!("k{number}"), body("hi")))
        .map(|operation| chat.store.append(chat.request(Authority::Member, operation), None))
        .collect();
    let mut waiting = Vec::new();
    for mut send in sends {
        assert!((&mut send).now_or_never().is_none(), "nothing is stored before it is on disk");
        waiting.push(send);
    }
    for (number, send) in waiting.into_iter().enumerate() {
        assert_eq!(seq_of(send.await), number as u64 + 2);
    }
}

async fn an_append_takes_effect_though_its_caller_went_away(world: World) {
    let chat = world.create("chat", &["alice"]).await;
    let mut send = Box::pin(chat.send("alice", "k1", "hi"));
    assert!((&mut send).now_or_never().is_none());
    drop(send);

    assert_eq!(chat.say("alice", "k2").await, 3);
    let again = chat.send("alice", "k1", "hi").await.unwrap();
    assert_eq!((again.position.seq.get(), again.duplicate), (2, true));
}

// Behaviour 10
async fn a_repeated_key_gives_back_the_first_seq(world: World) {
    let chat = world.create("chat", &["alice"]).await;
    let first = chat.send("alice", "k1", "hi").await.unwrap();
    chat.say("alice", "k2").await;
    let again = chat.send("alice", "k1", "hi").await.unwrap();
    assert_eq!((again.position, again.ts, again.duplicate), (first.position, first.ts, true));
    assert_eq!(chat.head().await, 3);
}

// Behaviour 10
async fn ten_repeats_in_parallel_are_one_entry(world: World) {
    let chat = world.create("chat", &["alice"]).await;
    let mut repeats = JoinSet::new();
    for _ in 0..10 {
        let chat = chat.clone();
        repeats.spawn(async move { chat.send("alice", "k1", "hi").await.unwrap() });
    }
    let answers = repeats.join_all().await;
    assert!(answers.iter().all(|answer| answer.position.seq.get() == 2));
    assert_eq!(answers.iter().filter(|answer| !answer.duplicate).count(), 1);
    assert_eq!(chat.head().await, 2);
}

// Behaviour 10
async fn a_key_is_recognised_after_a_restart(mut world: World) {
    let first = world.create("chat", &["alice"]).await.send("alice", "k1", "hi").await.unwrap();
    world.reopen().await;
    let again = world.conversation("chat").send("alice", "k1", "hi").await.unwrap();
    assert_eq!((again.position, again.duplicate), (first.position, true));
}

// Behaviour 10, 13
async fn a_key_is_recognised_after_its_sender_was_removed(world: World) {
    let chat = world.create("chat", &["alice", "bob"]).await;
    let first = chat.send("bob", "k1", "hi").await.unwrap();
    chat.leave("bob", "alice").await;
    let again = chat.send("bob", "k1", "hi").await.unwrap();
    assert_eq!((again.position, again.duplicate), (first.position, true));
}

// Behaviour 10
async fn a_key_with_other_content_is_a_conflict_and_stores_nothing(world: World) {
    let chat = world.create("chat", &["alice"]).await;
    let first = chat.append(message("alice", "k1", raw(r#"{"n":1}"#))).await;
    let position = position_of(first);
    for other in [r#"{"n":2}"#, r#"{"n": 1}"#, r#"{"n":1.0}"#] {
        let conflict = chat.append(message("alice", "k1", raw(other))).await;
        let expected = AppendRefusal::KeyConflict { seq: position.seq };
        assert!(
            matches!(&conflict, Err(AppendError::Refused(refusal)) if *refusal == expected),
            "{other}: {conflict:?}"
        );
    }
    assert_eq!(chat.say("alice", "k2").await, position.seq.get() + 1);
}

// Behaviour 10
async fn a_key_is_one_senders_in_one_conversation(world: World) {
    let chat = world.create("chat", &["alice", "bob"]).await;
    let other = world.create("other", &["alice"]).await;
    assert_eq!(chat.say("alice", "k1").await, 3);
    assert_eq!(chat.say("bob", "k1").await, 4);
    assert_eq!(other.say("alice", "k1").await, 2);
}

async fn a_refused_append_uses_no_seq(world: World) {
    let chat = world.create("chat", &["alice", "bob"]).await;
    chat.leave("bob", "bob").await;
    let stranger = chat.send("mallory", "k1", "hi").await;
    assert!(matches!(stranger, Err(AppendError::Refused(AppendRefusal::NotFound))));
    let former = chat.send("bob", "k1", "hi").await;
    assert!(matches!(former, Err(AppendError::Refused(AppendRefusal::NoLongerMember))));
    let nowhere = world.conversation("nowhere").send("alice", "k1", "hi").await;
    assert!(matches!(nowhere, Err(AppendError::Refused(AppendRefusal::NotFound))));
    assert_eq!(chat.say("alice", "k1").await, 4);
}

// Behaviour 13
async fn a_send_that_races_the_senders_removal_is_before_it_or_refused(world: World) {
    for round in 0..20 {
        let chat = world.create(&format!("chat{round}"), &["alice", "bob"]).await;
        let mut sends = JoinSet::new();
        for number in 0..10 {
            let chat = chat.clone();
            sends.spawn(async move { chat.send("bob", &format!("k{number}"), "hi").await });
        }
        let left = chat.leave("bob", "alice").await;
        for outcome in sends.join_all().await {
            match outcome {
                Ok(sent) => assert!(sent.position.seq.get() < left, "a message of bob's is after his leave"),
                Err(AppendError::Refused(AppendRefusal::NoLongerMember)) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
        assert_eq!(last_kind(&chat).await, Kind::Leave);
    }
}

async fn bodies_and_ids_come_back_byte_for_byte(world: World) {
    let names = ["ann.e@example.org", "Ünïcödé-名前-🦀", "';DROP/**/TABLE/**/entry;--", "%_\\x00", "x"];
    let bodies = [
        r#"{"b":1.0,  "a":1e2,"b":"\u00e9"}"#,
        r#""quote \" backslash \\ null \u0000 é 🦀""#,
        "12345678901234567890.000000000000000001",
        "[ ]",
        "null",
    ];
    for name in names {
        let chat = world.create(name, &[name]).await;
        let mut sent = BTreeMap::new();
        for (number, text) in bodies.into_iter().enumerate() {
            let seq = seq_of(chat.append(message(name, &format!("{name}{number}"), raw(text))).await);
            sent.insert(seq, text);
        }
        let page = chat.page(name, 1, 50).await;
        let read = page.events.iter().map(|entry| (entry.seq.get(), entry.body.as_str()));
        assert_eq!(read.collect::<BTreeMap<_, _>>(), sent);
        assert!(page.events.iter().all(|entry| entry.sender.as_str() == name));
        assert!(page.events.iter().all(|entry| entry.key.as_ref().unwrap().as_str().starts_with(name)));
    }
}

async fn a_body_of_64_kib_comes_back_whole(world: World) {
    let chat = world.create("chat", &["alice"]).await;
    for number in 0..20 {
        let text = format!("{number:-<65533}é");
        chat.send("alice", &format!("k{number}"), &text).await.unwrap();
        let page = chat.page("alice", number + 1, 200).await;
        assert_eq!(page.events.last().unwrap().body, body(&text));
    }
    let request = PageRequest { reader: Reader::Service, ..chat.page_request("alice", 0, 200) };
    assert_eq!(world.store.page(request).await.unwrap().events.len(), 21);
}

fn raw(text: &str) -> Body {
    Body::from_text(text.to_owned()).unwrap()
}

async fn last_kind(chat: &Conversation) -> Kind {
    chat.log().await.pop().unwrap().kind
}
