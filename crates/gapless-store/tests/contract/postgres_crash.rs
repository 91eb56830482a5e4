//! PostgreSQL is killed under load: what was acknowledged is there, once, and re-sends make the rest exactly once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gapless_core::History;
use gapless_store::{AppendError, Store};
use gapless_testkit::Postgres;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::interval;

use crate::checks::each_once_in_order;
use crate::postgres_database::PostgresDatabase;
use crate::world::{Conversation, Database as _, conv, creation, seqs};

const SENDERS: usize = 12;
const LIVES: usize = 6;
/// How long a client waits before it sends again.
const CLIENT_BACKOFF: Duration = Duration::from_millis(20);

// Behaviour 11
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_kill_9_of_postgres_once_and_in_order() {
    let mut server = tokio::task::block_in_place(|| Postgres::start().unwrap());
    let database = PostgresDatabase::at(server.create_database().unwrap());
    let (store, _news) = database.open().await;
    store.create(creation(History::FromJoin, "chat", &["alice"])).await.unwrap();

    let (life, lives) = watch::channel(0);
    let (acknowledge, mut acknowledged) = mpsc::unbounded_channel();
    let mut senders = JoinSet::new();
    for sender in 0..SENDERS {
        let chat = chat_of(&store);
        senders.spawn(send_through_all_lives(chat, sender, lives.clone(), acknowledge.clone()));
    }
    drop(acknowledge);

    let mut acks = BTreeMap::new();
    for number in 1..=LIVES {
        // The moments of death differ widely, and differently in each run.
        for _ in 0..number * number * 11 {
            let (key, seq) = acknowledged.recv().await.unwrap();
            acks.insert(key, seq);
        }
        tokio::task::block_in_place(|| {
            server.kill_9().unwrap();
            server.restart().unwrap();
        });
        life.send_replace(number);
    }
    while let Some((key, seq)) = acknowledged.recv().await {
        acks.insert(key, seq);
    }
    let mut sent = 0;
    while let Some(of_sender) = senders.join_next().await {
        sent += of_sender.unwrap();
    }

    let chat = chat_of(&store);
    let log = chat.log().await;
    each_once_in_order(&seqs(&log), chat.head().await).unwrap();
    let stored: BTreeMap<_, _> =
        log.into_iter().filter_map(|entry| Some((entry.key?.as_str().to_owned(), entry.seq.get()))).collect();
    assert_eq!(stored, acks, "every send was acknowledged in the end");
    assert_eq!(chat.head().await, 1 + sent);
    store.close().await;
}

/// Sends one message after the other, each until it is acknowledged, and a few more once the last life has begun.
async fn send_through_all_lives(
    chat: Conversation,
    sender: usize,
    mut lives: watch::Receiver<usize>,
    acknowledge: mpsc::UnboundedSender<(String, u64)>,
) -> u64 {
    let mut sent = 0;
    let mut left = 5;
    while left > 0 {
        if *lives.borrow_and_update() == LIVES {
            left -= 1;
        }
        let key = format!("{sender}-{sent}");
        let mut tries = interval(CLIENT_BACKOFF);
        let seq = loop {
            tries.tick().await;
            match chat.send("alice", &key, &key).await {
                Ok(appended) => break appended.position.seq.get(),
                Err(AppendError::Store(error)) => assert!(error.is_retryable(), "{error:?}"),
                Err(error) => panic!("{error:?}"),
            }
        };
        acknowledge.send((key, seq)).unwrap();
        sent += 1;
    }
    sent
}

fn chat_of(store: &Arc<dyn Store>) -> Conversation {
    Conversation { store: Arc::clone(store), id: conv("chat") }
}
