//! Subscriptions to a table.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use gapless_proto::{
    ClientMessage, Cursor, ErrorCode, EventType, Mode, Rid, ServerMessage, Subscribe, Subscribed, Topic,
    TopicResetReason,
};
use gapless_server::Scopes;
use gapless_tables::{Consistency, TableConfig, purge};
use gapless_testkit::{BusyTable, BusyTableConfig};
use serde_json::{Value, json};

use crate::client::{Client, within};
use crate::shop::Shop;
use crate::test_server::TestServer;

// Table behaviour 7
#[tokio::test]
async fn rows_are_told_as_they_change() {
    let (shop, server) = open().await;
    shop.execute("INSERT INTO orders VALUES (1, 'before', 1, NULL, now())").await;
    let mut reader = Reader::connect(&server).await;
    reader.subscribe(None, false).await;
    shop.execute("INSERT INTO orders VALUES (100, 'pending', 1.50, false, '2026-01-01 00:00:00.000001+00')")
        .await;
    let row = json!({"id": "100", "status": "pending", "total": "1.50", "paid": false, "updated_at": "2026-01-01 00:00:00.000001+00"});
    assert_eq!(reader.told().await, json!({"op": "upsert", "row": row}));
    shop.execute("UPDATE orders SET status = 'completed'").await;
    let both: BTreeSet<String> = [reader.told().await, reader.told().await].iter().map(id_of).collect();
    assert_eq!(both, ["1", "100"].map(str::to_owned).into());
    shop.execute("DELETE FROM orders WHERE id = 100").await;
    assert_eq!(reader.told().await, json!({"op": "delete", "key": {"id": "100"}}));
}

// Table behaviour 2
#[tokio::test]
async fn a_row_that_is_committed_late_is_told_and_nothing_waits_for_it() {
    let (shop, server) = open().await;
    let mut reader = Reader::connect(&server).await;
    reader.subscribe(None, false).await;
    let late = shop.connect().await;
    late.batch_execute("BEGIN; INSERT INTO orders VALUES (1, 'late', 1, NULL, now())").await.unwrap();
    shop.execute("INSERT INTO orders VALUES (2, 'new', 1, NULL, now())").await;
    assert_eq!(id_of(&reader.told().await), "2");
    late.batch_execute("COMMIT").await.unwrap();
    assert_eq!(id_of(&reader.told().await), "1");
}

// Table behaviours 4, 8
#[tokio::test]
async fn any_cursor_goes_on_where_it_was_also_at_another_server() {
    let (shop, mut server) = open().await;
    shop.execute("INSERT INTO orders SELECT n, 'new', n, NULL, now() FROM generate_series(1, 20) n").await;
    let mut reader = Reader::connect(&server).await;
    let mut cursors = vec![reader.subscribe(None, true).await.cursor];
    for _ in 0..20 {
        reader.told().await;
        cursors.push(reader.cursor.clone().unwrap());
    }
    shop.execute("INSERT INTO orders VALUES (21, 'new', 1, NULL, now())").await;
    reader.told().await;
    cursors.push(reader.cursor.clone().unwrap());
    for is_another in [false, true] {
        if is_another {
            server.restart().await;
        }
        for (place, cursor) in cursors.iter().enumerate() {
            let mut reader = Reader::connect(&server).await;
            assert_eq!(reader.subscribe(Some(cursor), false).await.cursor, *cursor);
            let expected: Vec<String> = (place + 1..=21).map(|id| id.to_string()).collect();
            let mut told = Vec::new();
            while told.len() < expected.len() {
                told.push(id_of(&reader.told().await));
            }
            assert_eq!(told, expected);
        }
    }
    let mut readers = Vec::new();
    for cursor in &cursors[20..] {
        let mut reader = Reader::connect(&server).await;
        reader.subscribe(Some(cursor), false).await;
        readers.push(reader);
    }
    shop.execute("INSERT INTO orders VALUES (22, 'new', 1, NULL, now())").await;
    assert_eq!(id_of(&readers[0].told().await), "21");
    for reader in &mut readers {
        assert_eq!(id_of(&reader.told().await), "22");
    }
}

// Table behaviour 9
#[tokio::test]
async fn a_position_that_has_not_passed_what_was_purged_is_one_reset_where_nobody_remembers_it() {
    let (shop, mut server) = open().await;
    shop.execute("INSERT INTO orders VALUES (1, 'old', 1, NULL, now())").await;
    let cursor = Reader::connect(&server).await.subscribe(None, false).await.cursor;
    shop.execute("DELETE FROM orders").await;
    purge(&shop.url, TableConfig::new("orders"), Duration::ZERO).await.unwrap();
    server.restart().await;
    let mut reader = Reader::connect(&server).await;
    reader.subscribe(Some(&cursor), false).await;
    assert_eq!(reader.reset().await, TopicResetReason::CursorExpired);
}

// Table behaviour 9
#[tokio::test]
async fn a_position_that_can_not_be_served_is_one_reset() {
    let (shop, server) = open().await;
    let mut reader = Reader::connect(&server).await;
    let cursor = reader.subscribe(None, false).await.cursor;
    shop.execute(
        "ALTER TABLE orders RENAME TO old; CREATE TABLE orders (LIKE old INCLUDING ALL); DROP TABLE old",
    )
    .await;
    shop.install().await;
    // Who is there is told as well as who comes back.
    assert_eq!(reader.reset().await, TopicResetReason::EpochChanged);
    reader.subscribe(Some(&cursor), false).await;
    assert_eq!(reader.reset().await, TopicResetReason::EpochChanged);
    reader.subscribe(None, false).await;
    shop.execute("INSERT INTO orders VALUES (1, 'new', 1, NULL, now())").await;
    assert_eq!(id_of(&reader.told().await), "1");
}

#[tokio::test]
async fn what_can_not_be_followed_is_refused() {
    let (_shop, server) = open().await;
    for (scope, is_allowed) in [
        ("", false),
        ("read:table:users", false),
        ("read:table:orders", true),
        ("read:table:*", true),
        ("service", true),
    ] {
        let mut reader = Reader::connect_as(&server, scope).await;
        let rid = reader.ask("table:orders", None, None, false).await;
        if is_allowed {
            reader.expect_subscribed(rid).await;
        } else {
            assert_eq!(reader.client.expect_error_code(rid).await, ErrorCode::Forbidden, "{scope}");
        }
    }
    let mut reader = Reader::connect_as(&server, "service").await;
    let garbage = Cursor::new("garbage").unwrap();
    for (topic, cursor, mode, code) in [
        ("table:nothing", None, None, ErrorCode::NotFound),
        ("table:orders", None, Some(Mode::Confirmed), ErrorCode::BadRequest),
        ("table:orders", Some(&garbage), None, ErrorCode::CursorInvalid),
    ] {
        let rid = reader.ask(topic, cursor, mode, false).await;
        assert_eq!(reader.client.expect_error_code(rid).await, code, "{topic}");
    }
}

// Table behaviour 7
#[tokio::test]
async fn what_a_watched_table_was_before_is_told_to_those_who_saw_it_otherwise() {
    let watched = TableConfig { consistency: Consistency::Watched, ..TableConfig::new("orders") };
    let shop = Shop::open_with(watched).await;
    let server = TestServer::start_with_tables(shop.declared()).await;
    let mut all = Reader::connect(&server).await;
    all.subscribe(None, false).await;
    let insert = "INSERT INTO orders VALUES (1, 'new', 1, NULL, now())";
    shop.execute(insert).await;
    all.told().await;
    for _ in 0..10 {
        shop.execute("DELETE FROM orders").await;
        while all.told().await["op"] != "delete" {}
        shop.execute(insert).await;
        // Reads the row for itself, mostly before the poller's next look, to which it then is as deleted as before.
        let mut late = Reader::connect(&server).await;
        late.subscribe(None, true).await;
        assert_eq!(late.told().await["op"], "upsert");
        shop.execute("DELETE FROM orders").await;
        while late.told().await["op"] != "delete" {}
        shop.execute(insert).await;
        while all.told().await["op"] == "delete" {}
    }
}

#[tokio::test]
async fn who_begins_when_nobody_has_followed_for_long_is_told_nothing_of_before() {
    let (shop, server) = open().await;
    let mut first = Reader::connect(&server).await;
    first.subscribe(None, false).await;
    drop(first);
    until_nobody_looks(&shop).await;
    shop.execute("INSERT INTO orders VALUES (1, 'before', 1, NULL, now())").await;
    let mut reader = Reader::connect(&server).await;
    reader.subscribe(None, false).await;
    shop.execute("INSERT INTO orders VALUES (2, 'after', 1, NULL, now())").await;
    assert_eq!(id_of(&reader.told().await), "2");
}

#[tokio::test]
async fn a_key_that_no_cursor_can_name_is_no_end_of_the_rest() {
    let shop = Shop::open_table(
        "CREATE TABLE orders (id text PRIMARY KEY, status text, updated_at timestamptz NOT NULL)",
    )
    .await;
    let server = TestServer::start_with_tables(shop.declared()).await;
    let mut reader = Reader::connect(&server).await;
    reader.subscribe(None, false).await;
    shop.execute("INSERT INTO orders VALUES (repeat('b', 30000), 'long', now())").await;
    shop.execute("DELETE FROM orders; TRUNCATE orders_gapless_deleted; INSERT INTO orders VALUES ('a', 'short', now())").await;
    assert_eq!(id_of(&reader.told().await), "a");
}

// Table behaviour 11
#[tokio::test]
async fn followers_wait_for_a_source_that_is_away() {
    let (shop, server) = open().await;
    let mut reader = Reader::connect(&server).await;
    reader.subscribe(None, false).await;
    shop.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
        .await;
    shop.execute("INSERT INTO orders VALUES (1, 'new', 1, NULL, now())").await;
    assert_eq!(id_of(&reader.told().await), "1");
}

#[tokio::test]
async fn where_changes_are_announced_a_table_is_looked_at_when_it_changes() {
    const ROWS: usize = 20;
    let looks_for_twenty = async |notify: bool| {
        let shop = Shop::open_with(TableConfig { notify, ..TableConfig::new("orders") }).await;
        let server = TestServer::start_with_tables(shop.declared()).await;
        let mut reader = Reader::connect(&server).await;
        reader.subscribe(None, false).await;
        let began = Instant::now();
        for id in 0..ROWS {
            shop.execute(&format!("INSERT INTO orders VALUES ({id}, 'new', 1, NULL, now())")).await;
            reader.told().await;
        }
        shop.execute("TRUNCATE orders").await;
        assert_eq!(reader.told().await["op"], "delete");
        began.elapsed()
    };
    // Each has to be told before the next is written. Looked for, they take about half of 100 ms each; announced, but for the looks each
    // second, a few.
    let (looked_for, announced) = (looks_for_twenty(false).await, looks_for_twenty(true).await);
    assert!(announced * 2 < looked_for, "{announced:?} when announced, {looked_for:?} when looked for");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_stops_reading_delays_nobody_and_is_told_everything_later() {
    const ROWS: usize = 30_000;
    let (shop, server) = open().await;
    let (mut stuck, mut other) = (Reader::connect(&server).await, Reader::connect(&server).await);
    stuck.subscribe(None, false).await;
    other.subscribe(None, false).await;
    // More than the tail keeps, and than the kernel takes.
    let insert = format!(
        "INSERT INTO orders SELECT n, repeat('x', 400), n, NULL, now() FROM generate_series(1, {ROWS}) n"
    );
    shop.execute(&insert).await;
    for reader in [&mut other, &mut stuck] {
        let mut ids = BTreeSet::new();
        for _ in 0..ROWS {
            assert!(ids.insert(id_of(&reader.told().await)));
        }
        assert_eq!(ids.len(), ROWS);
    }
    shop.execute("DELETE FROM orders WHERE id = 1").await;
    for reader in [&mut other, &mut stuck] {
        assert_eq!(reader.told().await["op"], "delete");
    }
}

// Table behaviour 1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_of_a_busy_table_hold_it_however_often_they_come_back() {
    for consistency in [Consistency::Strict, Consistency::Watched] {
        let url = gapless_testkit::SharedPostgres::from_environment().fresh_database();
        let table =
            BusyTable::create(&url, BusyTableConfig { seed: 7, writers: 8, tie_rows: 100 }).await.unwrap();
        let shop = Shop::of(url, TableConfig { consistency, ..TableConfig::new(BusyTable::NAME) }).await;
        let server = TestServer::start_with_tables(shop.declared()).await;
        let writers = table.start(Duration::from_secs(6));
        let followers: Vec<_> =
            [usize::MAX, 400, 90, 7]
                .into_iter()
                .map(|stay| {
                    let follower = Follower::new(stay);
                    tokio::spawn(follower.follow(
                        server.address(),
                        server.scoped_token("alice", Scopes::parse("read:*").unwrap()),
                    ))
                })
                .collect();
        writers.join().await.unwrap();
        shop.execute("INSERT INTO orders (id, status, amount, note) VALUES (-1, 'end', 0, '')").await;
        let truth = table.truth().await.unwrap();
        for follower in followers {
            let Follower { held, versions, repeated, .. } = within(follower).await.unwrap();
            let stale =
                truth.iter().filter(|(id, row)| held.get(id).is_some_and(|held| held != &row.version));
            assert_eq!((held.len(), stale.count()), (truth.len(), 0), "{consistency} {versions:?}");
            assert!(truth.keys().all(|id| held.contains_key(id)));
            assert!(consistency == Consistency::Watched || repeated == 0, "{repeated} versions came twice");
        }
    }
}

/// One who keeps a copy of the busy table, and comes back again and again.
struct Follower {
    /// How many changes it is told by one connection.
    stay: usize,
    cursor: Option<Cursor>,
    held: BTreeMap<i64, i64>,
    versions: BTreeSet<i64>,
    repeated: usize,
}

impl Follower {
    fn new(stay: usize) -> Self {
        Self { stay, cursor: None, held: BTreeMap::new(), versions: BTreeSet::new(), repeated: 0 }
    }

    async fn follow(mut self, address: std::net::SocketAddr, token: String) -> Self {
        loop {
            let mut reader = Reader::connect_to(address, &token).await;
            let cursor = self.cursor.clone();
            reader.subscribe(cursor.as_ref(), cursor.is_none()).await;
            for _ in 0..self.stay {
                let told = reader.told().await;
                self.cursor.clone_from(&reader.cursor);
                self.handle(&told);
                if self.held.contains_key(&-1) {
                    return self;
                }
            }
        }
    }

    fn handle(&mut self, told: &Value) {
        let id = id_of(told).parse().unwrap();
        if told["op"] == "delete" {
            self.held.remove(&id);
            return;
        }
        let version = told["row"]["version"].as_str().unwrap().parse().unwrap();
        self.repeated += usize::from(!self.versions.insert(version));
        self.held.insert(id, version);
    }
}

/// Waits until the table's statistics say that it isn't read any more.
async fn until_nobody_looks(shop: &Shop) {
    let looks = async || -> i64 {
        let sql = "SELECT pg_stat_force_next_flush(), xact_commit FROM pg_stat_database WHERE datname = current_database()";
        shop.sql.query_one(sql, &[]).await.unwrap().get(1)
    };
    let mut ticks = tokio::time::interval(Duration::from_secs(2));
    let mut before = looks().await;
    within(async {
        loop {
            ticks.tick().await;
            let now = looks().await;
            // Not more than these questions.
            if now - before <= 2 {
                return;
            }
            before = now;
        }
    })
    .await;
}

async fn open() -> (Shop, TestServer) {
    let shop = Shop::open().await;
    let server = TestServer::start_with_tables(shop.declared()).await;
    (shop, server)
}

fn id_of(told: &Value) -> String {
    let of = if told["op"] == "delete" { &told["key"] } else { &told["row"] };
    of["id"].as_str().unwrap().to_owned()
}

/// A reader and the position that it was told of.
struct Reader {
    client: Client,
    cursor: Option<Cursor>,
}

impl Reader {
    async fn connect(server: &TestServer) -> Self {
        Self::connect_as(server, "read:table:orders").await
    }

    async fn connect_as(server: &TestServer, scope: &str) -> Self {
        let token = server.scoped_token("alice", Scopes::parse(scope).unwrap());
        Self::connect_to(server.address(), &token).await
    }

    async fn connect_to(address: std::net::SocketAddr, token: &str) -> Self {
        let mut client = Client::connect(address, token).await.unwrap();
        client.expect_welcome().await;
        Self { client, cursor: None }
    }

    async fn ask(&mut self, topic: &str, cursor: Option<&Cursor>, mode: Option<Mode>, snapshot: bool) -> Rid {
        let rid = self.client.next_rid();
        let topics = vec![Topic::new(topic).unwrap()];
        let snapshot = snapshot.then_some(true);
        let subscribe = Subscribe { rid, topics, cursor: cursor.cloned(), mode, snapshot };
        self.client.tell(&ClientMessage::Subscribe(subscribe)).await;
        rid
    }

    async fn subscribe(&mut self, cursor: Option<&Cursor>, snapshot: bool) -> Subscribed {
        let rid = self.ask("table:orders", cursor, None, snapshot).await;
        self.expect_subscribed(rid).await
    }

    async fn expect_subscribed(&mut self, rid: Rid) -> Subscribed {
        match self.client.next().await {
            ServerMessage::Subscribed(subscribed) if subscribed.rid == rid => subscribed,
            other => panic!("expected the subscription to begin, got {other:?}"),
        }
    }

    /// The next change that is told.
    async fn told(&mut self) -> Value {
        loop {
            match self.client.next().await {
                ServerMessage::TopicEvent(event) => {
                    assert_eq!((event.topic.as_str(), event.kind), ("table:orders", EventType::Row));
                    self.cursor = Some(event.cursor);
                    return serde_json::from_str(event.payload.as_str()).unwrap();
                }
                ServerMessage::Progress(progress) => self.cursor = Some(progress.cursor),
                other => panic!("expected a change, got {other:?}"),
            }
        }
    }

    async fn reset(&mut self) -> TopicResetReason {
        match self.client.next().await {
            ServerMessage::Reset(reset) => reset.reason,
            other => panic!("expected a reset, got {other:?}"),
        }
    }
}
