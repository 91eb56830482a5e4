//! Transactions that commit late, or not at all.

use gapless_tables::{Consistency, CursorError, CursorKeys, Source, SourceError, install};
use gapless_testkit::Postgres;
use tokio_postgres::Client;

use crate::shop::{ORDERS, Reader, Shop, connect, orders};

const MODES: [Consistency; 2] = [Consistency::Strict, Consistency::Watched];

/// A reader that has got beyond the start of an open transaction.
struct Overtaken {
    shop: Shop,
    source: Source,
    open: Client,
    reader: Reader,
}

impl Overtaken {
    /// `prelude` is what the transaction has done by then.
    async fn new(consistency: Consistency, prelude: &str) -> Self {
        let (shop, source) = Shop::of_orders(consistency).await;
        shop.execute("INSERT INTO orders VALUES (1, 'old', now())").await;
        let open = connect(&shop.url).await;
        open.batch_execute(&format!("BEGIN; {prelude}")).await.unwrap();
        shop.execute("INSERT INTO orders VALUES (2, 'other', clock_timestamp())").await;
        let mut reader = Reader::default();
        assert_eq!(reader.catch_up(&source, 10).await, ["1 old", "2 other"]);
        Self { shop, source, open, reader }
    }

    async fn end(&mut self, statements: &str) -> Vec<String> {
        self.open.batch_execute(statements).await.unwrap();
        self.reader.catch_up(&self.source, 10).await
    }
}

// Table behaviour 2
#[tokio::test]
async fn a_transaction_that_had_not_written_yet_is_not_missed() {
    for consistency in MODES {
        let mut world = Overtaken::new(consistency, "SELECT 1").await;
        let came = world.end("INSERT INTO orders VALUES (3, 'late', now()); COMMIT").await;
        assert!(came.contains(&"3 late".to_owned()), "{consistency}: {came:?}");
        assert_eq!(world.reader.held, world.shop.rows().await);
    }
}

// Table behaviour 2
#[tokio::test]
async fn a_transaction_that_had_written_is_not_missed_and_nobody_waits_for_it() {
    for consistency in MODES {
        let mut world =
            Overtaken::new(consistency, "UPDATE orders SET status = 'late', updated_at = now()").await;
        world.shop.execute("INSERT INTO orders VALUES (4, 'meanwhile', clock_timestamp())").await;
        let came = world.reader.catch_up(&world.source, 10).await;
        assert!(came.contains(&"4 meanwhile".to_owned()), "{consistency}: {came:?}");
        let came = world.end("COMMIT").await;
        assert!(came.contains(&"1 late".to_owned()), "{consistency}: {came:?}");
        assert_eq!(world.reader.held, world.shop.rows().await);
    }
}

// Table behaviour 1
#[tokio::test]
async fn what_a_savepoint_has_written_is_not_missed() {
    for consistency in MODES {
        let mut world = Overtaken::new(
            consistency,
            "INSERT INTO orders VALUES (5, 'top', now()); SAVEPOINT a; INSERT INTO orders VALUES (6, 'sub', now()); RELEASE a; \
             SAVEPOINT b; INSERT INTO orders VALUES (7, 'gone', now()); ROLLBACK TO b",
        )
        .await;
        let came =
            world.end("SAVEPOINT c; INSERT INTO orders VALUES (8, 'sub', now()); RELEASE c; COMMIT").await;
        for late in ["5 top", "6 sub", "8 sub"] {
            assert!(came.contains(&late.to_owned()), "{consistency}: {came:?}");
        }
        assert_eq!(world.reader.held, world.shop.rows().await);
    }
}

#[tokio::test]
async fn how_far_late_rows_are_behind_is_told_by_their_time() {
    let mut world = Overtaken::new(Consistency::Strict, "SELECT 1").await;
    let late = "INSERT INTO orders SELECT n, 'late', now() FROM generate_series(10, 13) n; COMMIT";
    world.open.batch_execute(late).await.unwrap();
    let page = world.reader.page(&world.source, 2).await;
    assert!(page.head.has_more && page.head.lag_ms < 600_000, "{:?}", page.head);
}

// Table behaviour 1
#[tokio::test]
async fn in_strict_mode_late_rows_come_once() {
    let mut world =
        Overtaken::new(Consistency::Strict, "SAVEPOINT a; INSERT INTO orders VALUES (3, 'late', now())")
            .await;
    assert_eq!(world.end("RELEASE a; COMMIT").await, ["3 late"]);
    assert_eq!(world.reader.catch_up(&world.source, 10).await, Vec::<String>::new());
}

// Table behaviour 2
#[tokio::test]
async fn an_idle_reader_and_a_long_writer_elsewhere_hold_nothing_up() {
    for consistency in MODES {
        let (shop, source) = Shop::of_orders(consistency).await;
        let other = Shop::with("CREATE TABLE x (n int)").await;
        let (idle, writing) = (connect(&shop.url).await, connect(&other.url).await);
        idle.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM orders")
            .await
            .unwrap();
        writing.batch_execute("BEGIN; INSERT INTO x VALUES (1)").await.unwrap();
        let mut reader = Reader::default();
        for n in 0..5 {
            shop.execute(&format!("INSERT INTO orders VALUES ({n}, 'new', now())")).await;
            let came = reader.catch_up(&source, 10).await;
            assert!(came.contains(&format!("{n} new")), "{consistency}: {came:?}");
        }
        assert_eq!(reader.held, shop.rows().await);
    }
}

// Table behaviour 2
#[tokio::test]
async fn who_only_follows_the_textbook_misses_what_is_late() {
    let mut world = Overtaken::new(Consistency::BestEffort, "SELECT 1").await;
    let came = world.end("INSERT INTO orders VALUES (3, 'late', now()); COMMIT").await;
    assert_eq!(came, Vec::<String>::new());
    assert_ne!(world.reader.held, world.shop.rows().await);
}

// Table behaviour 2
#[tokio::test]
async fn numbers_of_transactions_that_a_crash_gives_again_hide_no_row() {
    let mut postgres = tokio::task::spawn_blocking(|| Postgres::start().unwrap()).await.unwrap();
    let url = postgres.create_database().unwrap();
    let sql = connect(&url).await;
    // Nothing goes to disk but by a commit that waits for it.
    sql.batch_execute("ALTER SYSTEM SET wal_writer_delay = '10s'").await.unwrap();
    sql.batch_execute("SELECT pg_reload_conf(); CHECKPOINT").await.unwrap();
    sql.batch_execute(ORDERS).await.unwrap();
    let config = orders(Consistency::Strict);
    install(&url, config.clone(), true).await.unwrap();
    let source = Source::open(&url, 1, config, CursorKeys::new([])).await.unwrap();
    sql.batch_execute("INSERT INTO orders VALUES (1, 'old', now())").await.unwrap();
    for _ in 0..50 {
        sql.batch_execute("BEGIN; INSERT INTO orders VALUES (2, 'never', now()); ROLLBACK").await.unwrap();
    }
    let mut reader = Reader::default();
    assert_eq!(reader.catch_up(&source, 10).await, ["1 old"]);

    postgres.kill_9().unwrap();
    postgres.restart().unwrap();
    let sql = connect(&url).await;
    sql.batch_execute(
        "INSERT INTO orders VALUES (3, 'new', now()); INSERT INTO orders VALUES (4, 'new', now())",
    )
    .await
    .unwrap();
    // The connection of before may be found broken once.
    reader.try_page(&source, 10).await.ok();
    assert_eq!(reader.catch_up(&source, 10).await, ["3 new", "4 new"]);
}

// Table behaviour 2
#[tokio::test]
async fn a_forgotten_prepared_transaction_holds_nothing_up_and_is_not_missed_when_it_ends() {
    let mut postgres = Postgres::start().unwrap();
    let sql = connect(&postgres.url()).await;
    sql.batch_execute("ALTER SYSTEM SET max_prepared_transactions = 5").await.unwrap();
    postgres.restart().unwrap();
    for consistency in MODES {
        let url = postgres.create_database().unwrap();
        let sql = connect(&url).await;
        sql.batch_execute(ORDERS).await.unwrap();
        install(&url, orders(consistency), true).await.unwrap();
        let source = Source::open(&url, 1, orders(consistency), CursorKeys::new([])).await.unwrap();
        sql.batch_execute("INSERT INTO orders SELECT n, 'old', '2026-01-01' FROM generate_series(1, 100) n")
            .await
            .unwrap();
        let mut reader = Reader::default();
        // One that is there before the reader begins, so that nobody knows when it began, and one that comes later.
        sql.batch_execute(
            "BEGIN; UPDATE orders SET status = 'first', updated_at = now() WHERE id = 1; DELETE FROM orders WHERE id = 2;
             PREPARE TRANSACTION 'first'",
        )
        .await
        .unwrap();
        reader.catch_up(&source, 30).await;
        sql.batch_execute(
            "BEGIN; SAVEPOINT s; UPDATE orders SET status = 'second', updated_at = now() WHERE id = 3; RELEASE s;
             PREPARE TRANSACTION 'second'",
        )
        .await
        .unwrap();
        for n in 200..205 {
            sql.batch_execute(&format!("INSERT INTO orders VALUES ({n}, 'new', now())")).await.unwrap();
            let came = reader.catch_up(&source, 30).await;
            assert!(came.contains(&format!("{n} new")), "{consistency}: {came:?}");
            assert!(came.len() < 10, "{consistency}: {came:?}");
        }
        sql.batch_execute("COMMIT PREPARED 'second'").await.unwrap();
        let came = reader.catch_up(&source, 30).await;
        assert!(came.contains(&"3 second".to_owned()), "{consistency}: {came:?}");
        sql.batch_execute("COMMIT PREPARED 'first'").await.unwrap();
        let came = reader.catch_up(&source, 30).await;
        for late in ["1 first", "2 deleted"] {
            assert!(came.contains(&late.to_owned()), "{consistency}: {came:?}");
        }
        let rows = sql.query("SELECT id::text, status FROM orders", &[]).await.unwrap();
        assert_eq!(reader.held.len(), rows.len());
        assert!(rows.iter().all(|row| reader.held[row.get::<_, &str>(0)] == row.get::<_, &str>(1)));
    }
}

// Table behaviour 2
#[tokio::test]
async fn a_session_that_does_not_tell_what_it_does_is_not_missed() {
    for consistency in MODES {
        let mut world = Overtaken::new(consistency, "SET track_activities = off; SELECT 1").await;
        let came = world.end("COMMIT; BEGIN").await;
        assert!(came.len() < 3, "{came:?}");
        world
            .shop
            .execute("INSERT INTO orders VALUES (4, 'meanwhile', clock_timestamp() + interval '1 hour')")
            .await;
        world.reader.catch_up(&world.source, 10).await;
        // The transaction has to be older than what a server may be late to show; its clock can't be moved.
        world.shop.execute("SELECT pg_sleep(1.2)").await;
        world.reader.catch_up(&world.source, 10).await;
        let came = world.end("INSERT INTO orders VALUES (3, 'late', now()); COMMIT").await;
        assert!(came.contains(&"3 late".to_owned()), "{consistency}: {came:?}");
        assert_eq!(world.reader.held, world.shop.rows().await);
    }
}

// Table behaviour 9
#[tokio::test]
async fn a_standby_is_refused_where_late_rows_would_be_missed_and_once_promoted_it_is_another_database() {
    let mut postgres = Postgres::start().unwrap();
    let url = postgres.create_database().unwrap();
    let sql = connect(&url).await;
    sql.batch_execute(ORDERS).await.unwrap();
    let open = async |consistency| Source::open(&url, 2, orders(consistency), CursorKeys::new([])).await;
    let mut followers = Vec::new();
    for consistency in MODES {
        install(&url, orders(consistency), true).await.unwrap();
        let (source, mut reader) = (open(consistency).await.unwrap(), Reader::default());
        reader.catch_up(&source, 10).await;
        followers.push((consistency, source, reader));
    }

    sql.batch_execute("COPY (SELECT 1) TO PROGRAM 'cat > standby.signal'").await.unwrap();
    postgres.restart().unwrap();
    for consistency in MODES {
        let refused = open(consistency).await.unwrap_err();
        assert!(refused.to_string().contains("this is a standby"), "{refused}");
    }
    let late = open(Consistency::BestEffort).await.unwrap();
    assert_eq!(Reader::default().catch_up(&late, 10).await, Vec::<String>::new());

    connect(&url).await.batch_execute("SELECT pg_promote()").await.unwrap();
    for (consistency, source, reader) in followers {
        // The connection of before may be found broken once.
        reader.try_page(&source, 10).await.ok();
        let refused = reader.try_page(&source, 10).await.unwrap_err();
        assert!(refused.to_string().contains("replaced by another"), "{refused}");
        let refused = reader.try_page(&open(consistency).await.unwrap(), 10).await;
        assert!(matches!(refused, Err(SourceError::Cursor(CursorError::OtherCluster))), "{refused:?}");
    }
}
