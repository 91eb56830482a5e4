//! Transactions that commit late, or not at all.

use gapless_tables::{Consistency, Source};
use tokio_postgres::Client;

use crate::shop::{Reader, Shop, connect};

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
