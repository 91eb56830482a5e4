//! Stores that fail, heal, close and open again.

use futures_util::FutureExt as _;
use gapless_core::Authority;
use gapless_store::{AppendError, Generation, PageError, StoreError};

use crate::checks::each_once_in_order;
use crate::world::{Conversation, World, body, message, of_conversations, seq_of, seqs};

contract![
    what_waits_is_committed_before_a_store_closes,
    a_closed_store_refuses_everything,
    closing_twice_is_closing_once,
    everything_is_there_after_a_restart,
    a_store_that_works_says_so,
    a_failed_commit_stores_nothing_and_the_store_heals,
    nothing_of_a_pipeline_overtakes_what_failed,
    what_a_database_says_is_not_told_to_peers,
];

async fn what_waits_is_committed_before_a_store_closes(mut world: World) {
    let chat = world.create("chat", &["alice"]).await;
    let mut waiting = Vec::new();
    for number in 0..3_000 {
        let operation = message("alice", &format!("k{number}"), body("hi"));
        let mut send = chat.store.append(chat.request(Authority::Member, operation), None);
        assert!((&mut send).now_or_never().is_none());
        waiting.push(send);
    }
    world.reopen().await;
    for (number, send) in waiting.into_iter().enumerate() {
        assert_eq!(seq_of(send.await), number as u64 + 2);
    }
    each_once_in_order(&seqs(&world.conversation("chat").log().await), 3_001).unwrap();
}

async fn a_closed_store_refuses_everything(world: World) {
    let chat = world.create("chat", &["alice"]).await;
    world.store.close().await;
    let send = chat.send("alice", "k1", "hi").await;
    assert!(matches!(send, Err(AppendError::Store(StoreError::Closed))), "{send:?}");
    let page = chat.try_page("alice", 0, 50).await;
    assert!(matches!(page, Err(PageError::Store(StoreError::Closed))), "{page:?}");
    assert!(matches!(world.store.raise_epoch(None).await, Err(StoreError::Closed)));
    assert!(matches!(world.store.check().await, Err(StoreError::Closed)));
}

async fn closing_twice_is_closing_once(world: World) {
    tokio::join!(world.store.close(), world.store.close());
    world.store.close().await;
}

// Behaviour 11
async fn everything_is_there_after_a_restart(mut world: World) {
    let chat = world.create("chat", &["alice", "bob"]).await;
    chat.say_many("alice", "k", 20).await;
    chat.leave("bob", "alice").await;
    let (log, info, bobs) = (chat.log().await, chat.info().await, chat.page("bob", 0, 50).await);
    world.reopen().await;
    let chat = world.conversation("chat");
    assert_eq!((chat.log().await, chat.info().await), (log, info));
    assert_eq!(chat.page("bob", 0, 50).await, bobs);
}

async fn a_store_that_works_says_so(world: World) {
    world.store.check().await.unwrap();
}

// Behaviour 11
async fn a_failed_commit_stores_nothing_and_the_store_heals(mut world: World) {
    let chat = world.create("chat", &["alice"]).await;
    chat.say("alice", "k1").await;
    world.database.break_inserts().await;
    for _ in 0..3 {
        let send = chat.send("alice", "k2", "hi").await;
        assert!(matches!(send, Err(AppendError::Store(_))), "{send:?}");
        let join = chat.append(crate::world::joining("bob", "alice")).await;
        assert!(matches!(join, Err(AppendError::Store(_))), "{join:?}");
    }
    assert_eq!(seqs(&chat.log().await), [1, 2]);
    assert!(
        chat.send("alice", "k1", "k1").await.unwrap().duplicate,
        "what needs no insert is still answered"
    );
    world.database.mend().await;

    assert_eq!(seq_of(chat.send("alice", "k2", "hi").await), 3);
    assert_eq!(chat.info().await.feed.members, 1);
    for expected in [1, 2, 3] {
        let news = of_conversations(world.news.recv().await.unwrap());
        assert_eq!(seqs(&news[0].entries), [expected], "a failed commit is no news");
    }
}

// Behaviour 12
async fn nothing_of_a_pipeline_overtakes_what_failed(world: World) {
    let chat = world.create("chat", &["alice"]).await;
    let before = world.store.generation(&chat.id);
    send_in(&chat, "a", before).await.unwrap();
    world.database.break_inserts().await;
    send_in(&chat, "b", before).await.unwrap_err();
    world.database.mend().await;

    let overtaking = send_in(&chat, "c", before).await;
    assert!(matches!(&overtaking, Err(AppendError::Store(error)) if error.is_retryable()), "{overtaking:?}");
    let now = world.store.generation(&chat.id);
    assert!(now > before);
    for (name, seq) in [("b", 3), ("c", 4)] {
        assert_eq!(seq_of(send_in(&chat, name, now).await), seq);
    }
}

async fn what_a_database_says_is_not_told_to_peers(world: World) {
    let chat = world.create("chat", &["alice"]).await;
    world.database.break_inserts().await;
    let error = chat.send("alice", "k1", "hi").await.unwrap_err();
    let shown = error.to_string();
    assert!(!shown.contains("broken on purpose"), "{shown}");
    let AppendError::Store(error) = error else {
        panic!("{error:?}");
    };
    assert!(!error.to_string().contains("broken on purpose"), "{error}");
    let causes = std::iter::successors(std::error::Error::source(&error), |cause| cause.source());
    let causes: Vec<String> = causes.map(ToString::to_string).collect();
    assert!(causes.iter().any(|cause| cause.contains("broken on purpose")), "the log needs it: {causes:?}");
}

async fn send_in(
    chat: &Conversation,
    name: &str,
    generation: Generation,
) -> Result<gapless_core::Appended, AppendError> {
    let operation = message("alice", name, body("hi"));
    let append = chat.request(Authority::Member, operation);
    chat.store.append(append, Some(generation)).await
}
