//! What a store tells of its commits.

use std::collections::BTreeMap;

use gapless_store::News;
use tokio::task::JoinSet;

use crate::world::{World, of_conversations, seqs};

contract![
    news_of_a_feed_comes_in_order_and_is_complete,
    news_says_where_the_feed_is,
    what_stored_nothing_is_no_news,
    a_raised_epoch_is_news_without_entries,
    what_is_told_can_be_read,
];

// Behaviour 1
async fn news_of_a_feed_comes_in_order_and_is_complete(mut world: World) {
    let mut senders = JoinSet::new();
    for conversation in 0..5 {
        let chat = world.create(&format!("chat{conversation}"), &["alice"]).await;
        for sender in 0..4 {
            let chat = chat.clone();
            senders.spawn(async move { chat.say_many("alice", &format!("s{sender}-"), 10).await });
        }
    }
    senders.join_all().await;
    world.store.close().await;

    let mut told: BTreeMap<_, Vec<_>> = BTreeMap::new();
    while let Some(commit) = world.news.recv().await {
        for news in of_conversations(commit) {
            assert_eq!(news.entries.last().map(|entry| entry.seq), Some(news.feed.head));
            told.entry(news.conv).or_default().extend(news.entries);
        }
    }
    (world.store, world.news) = world.database.open().await;
    assert_eq!(told.len(), 5);
    for (conv, entries) in told {
        assert_eq!(seqs(&entries), (1..=41).collect::<Vec<_>>());
        assert_eq!(entries, world.conversation(conv.as_str()).log().await);
    }
}

async fn news_says_where_the_feed_is(mut world: World) {
    let chat = world.create("chat", &["alice", "bob"]).await;
    let news = next(&mut world).await;
    assert_eq!((seqs(&news.entries), news.feed), (vec![1, 2], chat.info().await.feed));
    chat.leave("bob", "bob").await;
    let news = next(&mut world).await;
    assert_eq!((seqs(&news.entries), news.feed), (vec![3], chat.info().await.feed));
    assert_eq!((news.conv, news.feed.members), (chat.id, 1));
}

// Behaviour 10
async fn what_stored_nothing_is_no_news(mut world: World) {
    let chat = world.create("chat", &["alice"]).await;
    chat.say("alice", "k1").await;
    chat.send("alice", "k1", "k1").await.unwrap();
    chat.send("alice", "k1", "other").await.unwrap_err();
    chat.send("mallory", "k1", "hi").await.unwrap_err();
    chat.append(crate::world::joining("alice", "alice")).await.unwrap();
    chat.say("alice", "k2").await;
    for expected in [1, 2, 3] {
        assert_eq!(seqs(&next(&mut world).await.entries), [expected]);
    }
}

// Behaviour 8
async fn a_raised_epoch_is_news_without_entries(mut world: World) {
    let chat = world.create("chat", &["alice"]).await;
    next(&mut world).await;
    world.store.raise_epoch(None).await.unwrap();
    let news = next(&mut world).await;
    assert_eq!((news.entries.len(), news.feed), (0, chat.info().await.feed));
}

// Behaviour 1
async fn what_is_told_can_be_read(mut world: World) {
    let chat = world.create("chat", &["alice"]).await;
    let writer = {
        let chat = chat.clone();
        tokio::spawn(async move { chat.say_many("alice", "k", 50).await })
    };
    let mut told = 0;
    while told < 51 {
        told = next(&mut world).await.feed.head.get();
        assert!(chat.head().await >= told, "{told} was told before it was visible");
    }
    writer.await.unwrap();
}

/// The next commit's news of one feed.
async fn next(world: &mut World) -> News {
    let commit = of_conversations(world.news.recv().await.expect("the store is open"));
    let [news] = <[News; 1]>::try_from(commit).expect("the commit is about one feed");
    news
}
