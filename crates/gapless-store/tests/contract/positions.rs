//! Cursors that the log doesn't know.

use gapless_proto::{Epoch, Page, Seq};
use gapless_store::{PageError, PageRequest};

use crate::world::{Conversation, World, position_of, seq, seqs};

contract![
    a_cursor_beyond_the_head_is_named,
    another_epoch_is_named_even_when_the_log_has_overtaken_the_cursor,
    a_stranger_hears_nothing_of_epochs,
    an_epoch_rises_with_each_rewind_and_keeps_the_log,
    every_conversation_is_raised_at_once,
    raising_what_does_not_exist_raises_nothing,
];

// Behaviour 8
async fn a_cursor_beyond_the_head_is_named(world: World) {
    let chat = world.create("chat", &["alice"]).await;
    chat.say_many("alice", "k", 4).await;
    let epoch = chat.info().await.feed.epoch;
    assert!(ask(&chat, 5, Some(epoch)).await.is_ok());
    for after in [6, 1_000_000, (1 << 53) - 1] {
        for epoch in [None, Some(epoch)] {
            let page = ask(&chat, after, epoch).await;
            let head = seq(5);
            assert!(matches!(&page, Err(PageError::CursorAhead { head: at }) if *at == head), "{page:?}");
        }
    }
}

// Behaviour 8
async fn another_epoch_is_named_even_when_the_log_has_overtaken_the_cursor(world: World) {
    let chat = world.create("chat", &["alice"]).await;
    chat.say_many("alice", "old", 4).await;
    let old = chat.info().await.feed.epoch;
    world.store.raise_epoch(Some(&chat.id)).await.unwrap();
    chat.say_many("alice", "new", 20).await;
    let new = chat.info().await.feed.epoch;
    for after in [0, 5, 25, 26] {
        let page = ask(&chat, after, Some(old)).await;
        assert!(matches!(&page, Err(PageError::EpochChanged { epoch }) if *epoch == new), "{page:?}");
    }
    assert_eq!(ask(&chat, 5, Some(new)).await.unwrap().events.len(), 20);
    let unborn = Epoch::new(new.get() + 1).unwrap();
    assert!(matches!(ask(&chat, 0, Some(unborn)).await, Err(PageError::EpochChanged { .. })));
}

// Behaviour 8, 20
async fn a_stranger_hears_nothing_of_epochs(world: World) {
    let chat = world.create("chat", &["alice"]).await;
    let request = PageRequest { epoch: Some(Epoch::new(1).unwrap()), ..chat.page_request("mallory", 99, 50) };
    assert!(matches!(world.store.page(request).await, Err(PageError::NotFound)));
}

// Behaviour 8
async fn an_epoch_rises_with_each_rewind_and_keeps_the_log(mut world: World) {
    let chat = world.create("chat", &["alice"]).await;
    chat.say("alice", "k1").await;
    let before = chat.log().await;
    let mut epochs = vec![chat.info().await.feed.epoch];
    for _ in 0..3 {
        assert_eq!(world.store.raise_epoch(Some(&chat.id)).await.unwrap(), 1);
        epochs.push(chat.info().await.feed.epoch);
    }
    assert!(epochs.is_sorted_by(|earlier, later| earlier < later), "{epochs:?}");
    world.reopen().await;
    let chat = world.conversation("chat");
    assert_eq!((chat.log().await, chat.info().await.feed.epoch), (before, epochs[3]));
    let appended = position_of(chat.send("alice", "k2", "hi").await);
    assert_eq!((appended.epoch, appended.seq), (epochs[3], seq(3)));
}

// Behaviour 8
async fn every_conversation_is_raised_at_once(world: World) {
    let mut before = Vec::new();
    for number in 0..20 {
        let chat = world.create(&format!("chat{number}"), &["alice"]).await;
        before.push((chat.clone(), chat.info().await.feed.epoch));
    }
    assert_eq!(world.store.raise_epoch(None).await.unwrap(), 20);
    for (chat, epoch) in before {
        assert!(chat.info().await.feed.epoch > epoch);
        assert_eq!(seqs(&chat.log().await), [1]);
    }
}

async fn raising_what_does_not_exist_raises_nothing(world: World) {
    assert_eq!(world.store.raise_epoch(None).await.unwrap(), 0);
    world.create("chat", &["alice"]).await;
    let nowhere = world.conversation("chat0");
    assert_eq!(world.store.raise_epoch(Some(&nowhere.id)).await.unwrap(), 0);
}

async fn ask(chat: &Conversation, after: u64, epoch: Option<Epoch>) -> Result<Page, PageError> {
    let request = PageRequest { after: Seq::new(after).unwrap(), epoch, ..chat.page_request("alice", 0, 50) };
    chat.store.page(request).await
}
