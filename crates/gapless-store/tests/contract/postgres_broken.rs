//! Connections that die, a network that swallows, a server that is silent: the store answers in time and heals by itself.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use gapless_core::History;
use gapless_store::{AppendError, News, NewsReceiver, PageError, Store, StoreError};
use gapless_testkit::FaultyProxy;
use tokio::time::{interval, timeout};

use crate::postgres_database::PostgresDatabase;
use crate::world::{Conversation, Database as _, World, conv, creation, of_conversations, seqs};

/// The longest that anybody waits for an answer from a server that is silent.
const ANSWER_MAX: Duration = Duration::from_secs(15);
/// How long a client waits before it sends again.
const CLIENT_BACKOFF: Duration = Duration::from_millis(20);

// Behaviour 11
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_connections_are_replaced_without_anyone_noticing() {
    let database = PostgresDatabase::fresh();
    let world = World::begin(PostgresDatabase::at(database.url().to_owned())).await;
    let chat = world.create("chat", &["alice"]).await;
    for round in 0..5 {
        // Many at once, so that the pool is full of connections.
        join_all((0..40).map(|_| chat.page("alice", 0, 1))).await;
        terminate_all(&database).await;
        let pages = join_all((0..40).map(|_| chat.try_page("alice", 0, 1))).await;
        assert!(pages.iter().all(Result::is_ok), "{pages:?}");
        chat.say("alice", &format!("k{round}")).await;
        world.store.check().await.unwrap();
    }
    assert_eq!(seqs(&chat.log().await), (1..=6).collect::<Vec<_>>());
}

// Behaviour 11
#[tokio::test]
async fn a_connection_that_dies_unnoticed_fails_nothing_that_was_not_committed() {
    let Proxied { proxy, store, .. } = Proxied::open().await;
    let chat = chat_of(&store);
    for round in 0..5 {
        // With one thread nothing else runs between the cut and what follows it.
        proxy.cut();
        chat.say("alice", &format!("k{round}")).await;
        chat.page("alice", 0, 50).await;
        proxy.cut();
        chat.page("alice", 0, 50).await;
        chat.say("alice", &format!("l{round}")).await;
    }
    assert_eq!(seqs(&chat.log().await), (1..=11).collect::<Vec<_>>());
}

// Behaviour 10, 11
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_is_lost_is_news_and_its_repeat_a_duplicate() {
    let Proxied { database, proxy, store, mut news } = Proxied::open().await;
    let chat = chat_of(&store);
    assert_eq!(seqs(&next(&mut news).await[0].entries), [1]);

    // The insert waits, so that the network can be broken before the commit.
    let holder = database.connect().await;
    holder.batch_execute("BEGIN; LOCK TABLE entry IN SHARE MODE").await.unwrap();
    let sending = tokio::spawn({
        let chat = chat.clone();
        async move { chat.send("alice", "k1", "hi").await }
    });
    database.wait_until_active("wait_event_type = 'Lock'").await;
    proxy.drop_replies(true);
    holder.batch_execute("COMMIT").await.unwrap();
    database.wait_until("EXISTS (SELECT FROM entry WHERE key = 'k1')").await;
    proxy.cut();
    let unanswered = sending.await.unwrap();
    assert!(matches!(unanswered, Err(AppendError::Store(StoreError::Unreachable(_)))), "{unanswered:?}");
    proxy.drop_replies(false);

    let told = next(&mut news).await;
    assert_eq!((told[0].feed.head.get(), told[0].entries.len()), (2, 0), "readers are told where the log is");
    let repeated = chat.send("alice", "k1", "hi").await.unwrap();
    assert_eq!((repeated.position.seq.get(), repeated.duplicate), (2, true));
    assert_eq!(chat.say("alice", "k2").await, 3);
    assert_eq!(seqs(&next(&mut news).await[0].entries), [3]);
}

// Behaviour 11
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_server_hangs_nobody_and_all_is_well_when_it_speaks_again() {
    let Proxied { proxy, store, .. } = Proxied::open().await;
    let chat = chat_of(&store);
    chat.say("alice", "k1").await;
    chat.page("alice", 0, 50).await;

    proxy.blackhole(true);
    let start = Instant::now();
    let (send, page, check) =
        tokio::join!(chat.send("alice", "k2", "hi"), chat.try_page("alice", 0, 50), store.check());
    assert!(matches!(send, Err(AppendError::Store(StoreError::Unreachable(_)))), "{send:?}");
    assert!(matches!(page, Err(PageError::Store(StoreError::Unreachable(_)))), "{page:?}");
    assert!(check.is_err());
    assert!(start.elapsed() < ANSWER_MAX, "{:?}", start.elapsed());

    proxy.blackhole(false);
    let seq = until_stored(&chat, "k2").await;
    assert_eq!(seqs(&chat.page("alice", seq - 1, 50).await.events), [seq]);
    assert_eq!(seq, 3);
}

// Behaviour 11
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_refuses_is_told_at_once_and_found_again() {
    let Proxied { proxy, store, .. } = Proxied::open().await;
    let chat = chat_of(&store);
    proxy.refuse(true);
    proxy.cut();
    let start = Instant::now();
    for number in 0..200 {
        let send = chat.send("alice", &format!("k{number}"), "hi").await;
        assert!(matches!(send, Err(AppendError::Store(_))), "{send:?}");
        assert!(chat.try_page("alice", 0, 50).await.is_err());
        assert!(store.check().await.is_err());
    }
    assert!(start.elapsed() < ANSWER_MAX, "{:?}", start.elapsed());
    proxy.refuse(false);
    assert_eq!(until_stored(&chat, "k0").await, 2);
    until_well(&store).await;
}

// Behaviour 11
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_freezes_while_it_holds_a_conversation_stops_the_others_for_seconds_only() {
    let Proxied { database, proxy, store: frozen, .. } = Proxied::open().await;
    let (healthy, _news) = database.open().await;
    // The frozen one gets its lock, and the answer never reaches it.
    proxy.drop_replies(true);
    let freezing = tokio::spawn({
        let chat = chat_of(&frozen);
        async move { chat.send("alice", "k1", "hi").await }
    });
    database.wait_until_active("state = 'idle in transaction'").await;
    let start = Instant::now();
    assert_eq!(chat_of(&healthy).say("alice", "k2").await, 2);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());

    let unanswered = freezing.await.unwrap();
    assert!(matches!(unanswered, Err(AppendError::Store(StoreError::Unreachable(_)))), "{unanswered:?}");
    proxy.drop_replies(false);
    assert_eq!(until_stored(&chat_of(&frozen), "k1").await, 3);
}

/// A store that reaches its database through a network with switches.
struct Proxied {
    database: PostgresDatabase,
    proxy: FaultyProxy,
    store: Arc<dyn Store>,
    news: NewsReceiver,
}

impl Proxied {
    async fn open() -> Self {
        let database = PostgresDatabase::fresh();
        let config: tokio_postgres::Config = database.url().parse().unwrap();
        let port = config.get_ports()[0];
        let proxy = FaultyProxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).unwrap();
        let through = database.url().replace(&port.to_string(), &proxy.address().port().to_string());
        let (store, news) = PostgresDatabase::at(through).open().await;
        store.create(creation(History::FromJoin, "chat", &["alice"])).await.unwrap();
        Self { database, proxy, store, news }
    }
}

async fn next(news: &mut NewsReceiver) -> Vec<News> {
    of_conversations(timeout(ANSWER_MAX, news.recv()).await.expect("there is news").unwrap())
}

/// Ends all connections to a database but the one that does it, and waits until they are gone.
async fn terminate_all(database: &PostgresDatabase) {
    let others = "FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'gapless'";
    database.execute(&format!("SELECT pg_terminate_backend(pid) {others}")).await;
    database.wait_until(&format!("NOT EXISTS (SELECT {others})")).await;
}

/// Sends again and again, as a client does.
async fn until_stored(chat: &Conversation, key: &str) -> u64 {
    let start = Instant::now();
    let mut tries = interval(CLIENT_BACKOFF);
    loop {
        tries.tick().await;
        match chat.send("alice", key, "hi").await {
            Ok(appended) => return appended.position.seq.get(),
            Err(error) => assert!(start.elapsed() < ANSWER_MAX, "{error:?}"),
        }
    }
}

async fn until_well(store: &Arc<dyn Store>) {
    let start = Instant::now();
    let mut tries = interval(CLIENT_BACKOFF);
    while let Err(error) = store.check().await {
        assert!(start.elapsed() < ANSWER_MAX, "{error:?}");
        tries.tick().await;
    }
}

fn chat_of(store: &Arc<dyn Store>) -> Conversation {
    Conversation { store: Arc::clone(store), id: conv("chat") }
}
