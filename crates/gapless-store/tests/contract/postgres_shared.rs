//! Several gateways, and others, on one database.

use std::sync::Arc;

use gapless_core::{Authority, History};
use gapless_store::{Store, TrimmedTo};
use tokio::task::JoinSet;

use crate::checks::{Flaw, each_once_in_order};
use crate::postgres_database::PostgresDatabase;
use crate::world::{Conversation, Database as _, World, body, conv, creation, message, seq, seq_of, seqs};

// Behaviour 1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gateways_append_to_one_conversation_without_holes_and_doubles() {
    let database = PostgresDatabase::fresh();
    let (one, _news_of_one) = database.open().await;
    let (other, _news_of_other) = database.open().await;
    one.create(creation(History::FromJoin, "chat", &["alice"])).await.unwrap();

    let mut senders = JoinSet::new();
    for sender in 0..32 {
        let chat = chat_of(if sender % 2 == 0 { &one } else { &other });
        senders.spawn(async move { chat.say_many("alice", &format!("k{sender}-"), 20).await });
    }
    while let Some(sent) = senders.join_next().await {
        sent.unwrap();
    }
    let log = chat_of(&other).log().await;
    each_once_in_order(&seqs(&log), 641).unwrap();
    assert_eq!(log, chat_of(&one).log().await);
}

// Behaviour 10
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_stored_once_whichever_gateway_it_is_sent_to() {
    let database = PostgresDatabase::fresh();
    let (one, _news_of_one) = database.open().await;
    let (other, _news_of_other) = database.open().await;
    one.create(creation(History::FromJoin, "chat", &["alice"])).await.unwrap();
    for number in 0..50 {
        let key = format!("k{number}");
        let (one, other) = (chat_of(&one), chat_of(&other));
        let (sent, again) = tokio::join!(one.send("alice", &key, "hi"), other.send("alice", &key, "hi"));
        let (sent, again) = (sent.unwrap(), again.unwrap());
        assert_eq!((sent.position, sent.duplicate), (again.position, !again.duplicate));
    }
    assert_eq!(chat_of(&other).head().await, 51);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateways_that_write_to_the_same_conversations_never_wait_for_each_other_in_a_circle() {
    let database = PostgresDatabase::fresh();
    let mut stores = Vec::new();
    for _ in 0..2 {
        stores.push(database.open().await.0);
    }
    for number in 0..40 {
        let name = format!("chat{number}");
        stores[0].create(creation(History::FromJoin, &name, &["alice"])).await.unwrap();
    }
    let mut senders = JoinSet::new();
    for sender in 0..40 {
        let store = Arc::clone(&stores[sender % 2]);
        senders.spawn(async move {
            for round in 0..40 {
                // Half of them go up through the conversations, the other half down.
                let number = if sender % 4 < 2 { round } else { 39 - round };
                let append = gapless_core::Append {
                    conv: conv(&format!("chat{number}")),
                    authority: Authority::Member,
                    operation: message("alice", &format!("k{sender}"), body("hi")),
                };
                store.append(append, None).await.unwrap();
            }
        });
    }
    while let Some(sent) = senders.join_next().await {
        sent.unwrap();
    }
    for number in 0..40 {
        let chat = Conversation { store: Arc::clone(&stores[1]), id: conv(&format!("chat{number}")) };
        each_once_in_order(&seqs(&chat.log().await), 41).unwrap();
    }
}

// Behaviour 9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_gateway_trims_while_another_appends() {
    let database = PostgresDatabase::fresh();
    let (one, _news_of_one) = database.open().await;
    let (other, _news_of_other) = database.open().await;
    one.create(creation(History::FromJoin, "chat", &["alice"])).await.unwrap();
    crate::world::say_at_once(&chat_of(&one), "alice", 5_000).await;
    let trimming = {
        let one = Arc::clone(&one);
        tokio::spawn(async move { one.trim(&conv("chat"), seq(4_001)).await.unwrap().unwrap() })
    };
    let chat = chat_of(&other);
    chat.say_many("alice", "meanwhile", 30).await;
    assert_eq!(trimming.await.unwrap(), TrimmedTo { min_seq: seq(4_001), deleted: 4_000 });
    let repeated = chat.send("alice", "k0", "hi").await.unwrap();
    assert_eq!((repeated.position.seq, repeated.duplicate), (seq(2), true));
    assert_eq!(seqs(&chat.log().await), (4_001..=5_031).collect::<Vec<_>>());
}

/// The negative control: seqs from a database sequence, and the later one commits first.
#[tokio::test]
async fn a_reader_of_seqs_from_a_database_sequence_skips_an_entry_for_ever() {
    let database = PostgresDatabase::fresh();
    database.execute("CREATE TABLE log (seq bigserial PRIMARY KEY, text text)").await;
    let (first, second) = (database.connect().await, database.connect().await);
    let insert = "BEGIN; INSERT INTO log (text) VALUES ('hi')";
    first.batch_execute(insert).await.unwrap();
    second.batch_execute(insert).await.unwrap();

    let reader = database.connect().await;
    let mut read = Vec::new();
    second.batch_execute("COMMIT").await.unwrap();
    read.extend(after(&reader, "log", read.last().copied()).await);
    first.batch_execute("COMMIT").await.unwrap();
    read.extend(after(&reader, "log", read.last().copied()).await);
    assert_eq!(each_once_in_order(&read, 2), Err(Flaw::Skipped(1)));
}

/// The same with our log: who is later waits until the earlier has committed.
#[tokio::test]
async fn a_reader_of_the_log_never_sees_the_later_of_two_writers_first() {
    let database = PostgresDatabase::fresh();
    let world = World::begin(PostgresDatabase::at(database.url().to_owned())).await;
    let chat = world.create("chat", &["alice"]).await;
    // Another gateway that is slow between locking and committing.
    let first = database.connect().await;
    first
        .batch_execute(
            "BEGIN; SELECT FROM feed WHERE feed = 'chat' FOR UPDATE; \
             INSERT INTO entry VALUES ('chat', 2, 'message', 'alice', 'first', 0, '\"hi\"'); \
             UPDATE feed SET head = 2 WHERE feed = 'chat'",
        )
        .await
        .unwrap();
    let second = tokio::spawn({
        let chat = chat.clone();
        async move { seq_of(chat.send("alice", "second", "hi").await) }
    });
    database.wait_until_active("wait_event_type = 'Lock'").await;

    let reader = database.connect().await;
    let mut read = Vec::new();
    read.extend(after(&reader, "entry", read.last().copied()).await);
    assert_eq!(read, [1]);
    first.batch_execute("COMMIT").await.unwrap();
    assert_eq!(second.await.unwrap(), 3);
    read.extend(after(&reader, "entry", read.last().copied()).await);
    assert_eq!(each_once_in_order(&read, 3), Ok(()));
}

fn chat_of(store: &Arc<dyn Store>) -> Conversation {
    Conversation { store: Arc::clone(store), id: conv("chat") }
}

/// What a reader finds in a table after a cursor.
async fn after(reader: &tokio_postgres::Client, table: &str, cursor: Option<u64>) -> Vec<u64> {
    let question = format!("SELECT seq FROM {table} WHERE seq > {} ORDER BY seq", cursor.unwrap_or(0));
    let rows = reader.query(&question, &[]).await.unwrap();
    rows.iter().map(|row| row.get::<_, i64>(0).cast_unsigned()).collect()
}
