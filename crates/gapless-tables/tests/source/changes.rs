//! What happens to rows, and what a reader gets of it.

use gapless_tables::{Consistency, Deletes, TableConfig};

use crate::shop::{ORDERS, Reader, Shop, orders};

const INSERTED: &str = "INSERT INTO orders SELECT n, 'pending', '2026-01-01' FROM generate_series(1, 120) n";

// Table behaviour 7
#[tokio::test]
async fn order_100_is_paid_after_it_was_read() {
    for consistency in [Consistency::Strict, Consistency::Watched, Consistency::BestEffort] {
        let (shop, source) = Shop::of_orders(consistency).await;
        shop.execute(INSERTED).await;
        let mut reader = Reader::default();
        reader.catch_up(&source, 50).await;
        shop.execute("UPDATE orders SET status = 'completed', updated_at = '2026-01-02' WHERE id = 100")
            .await;
        let came = reader.catch_up(&source, 50).await;
        // In watched mode others may come again: transactions of other databases count, too.
        assert!(came.contains(&"100 completed".to_owned()), "{consistency}: {came:?}");
        assert!(consistency == Consistency::Watched || came.len() == 1, "{consistency}: {came:?}");
    }
}

// Table behaviour 7
#[tokio::test]
async fn whatever_is_deleted_or_moved_the_reader_ends_equal() {
    for consistency in [Consistency::Strict, Consistency::Watched] {
        let (shop, source) = Shop::of_orders(consistency).await;
        shop.execute(INSERTED).await;
        let mut reader = Reader::default();
        reader.catch_up(&source, 50).await;
        for changes in [
            "DELETE FROM orders WHERE id = 5",
            "DELETE FROM orders WHERE id = 6; INSERT INTO orders VALUES (6, 'again', now())",
            "INSERT INTO orders VALUES (500, 'brief', now()); DELETE FROM orders WHERE id = 500",
            "UPDATE orders SET id = 600, updated_at = now() WHERE id = 8",
            "DELETE FROM orders WHERE id IN (6, 600)",
            "TRUNCATE orders",
            "INSERT INTO orders VALUES (5, 'back', now())",
        ] {
            shop.execute(changes).await;
            reader.catch_up(&source, 3).await;
            assert_eq!(reader.held, shop.rows().await, "{consistency} {changes}");
        }
    }
}

// Table behaviour 7
#[tokio::test]
async fn a_row_that_is_given_an_old_time_is_found_in_strict_mode() {
    let (shop, source) = Shop::of_orders(Consistency::Strict).await;
    shop.execute(INSERTED).await;
    let mut reader = Reader::default();
    reader.catch_up(&source, 50).await;
    shop.execute("UPDATE orders SET status = 'again', updated_at = '2020-01-01' WHERE id = 7").await;
    assert_eq!(reader.catch_up(&source, 50).await, ["7 again"]);
}

// Table behaviour 7
#[tokio::test]
async fn who_begins_now_is_told_of_no_deletes() {
    let (shop, source) = Shop::of_orders(Consistency::Strict).await;
    shop.execute(INSERTED).await;
    shop.execute("DELETE FROM orders WHERE id > 100").await;
    let records = Reader::default().catch_up(&source, 7).await;
    assert_eq!(records.len(), 100);
    assert!(records.iter().all(|record| record.ends_with("pending")));
}

// Table behaviour 7
#[tokio::test]
async fn a_row_that_leaves_the_filter_counts_as_deleted_and_one_that_comes_back_as_there() {
    let shop = Shop::with(ORDERS).await;
    let config = TableConfig { filter: Some("status <> 'draft'".to_owned()), ..orders(Consistency::Strict) };
    let source = shop.source(config).await;
    shop.execute("INSERT INTO orders VALUES (1, 'draft', now()), (2, 'new', now())").await;
    let mut reader = Reader::default();
    assert_eq!(reader.catch_up(&source, 10).await, ["2 new"]);
    shop.execute("UPDATE orders SET status = 'draft', updated_at = now() WHERE id = 2").await;
    assert_eq!(reader.catch_up(&source, 10).await, ["2 deleted"]);
    shop.execute("UPDATE orders SET status = 'new', updated_at = now()").await;
    assert_eq!(reader.catch_up(&source, 10).await, ["1 new", "2 new"]);
}

// Table behaviour 7
#[tokio::test]
async fn a_soft_delete_is_one() {
    let shop = Shop::with(
        "CREATE TABLE orders (id bigint PRIMARY KEY, status text, updated_at timestamptz NOT NULL, deleted_at timestamptz);
         CREATE INDEX ON orders (updated_at, id)",
    )
    .await;
    let config = TableConfig {
        deletes: Deletes::Soft,
        soft_column: Some("deleted_at".to_owned()),
        ..orders(Consistency::Watched)
    };
    let source = shop.source(config).await;
    shop.execute("INSERT INTO orders VALUES (1, 'new', now()), (2, 'new', now())").await;
    let mut reader = Reader::default();
    reader.catch_up(&source, 10).await;
    shop.execute("UPDATE orders SET deleted_at = now(), updated_at = now() WHERE id = 2").await;
    let came = reader.catch_up(&source, 10).await;
    assert!(came.contains(&"2 deleted".to_owned()), "{came:?}");
    assert_eq!(reader.held.len(), 1);
}

// Table behaviour 8
#[tokio::test]
async fn rows_that_change_again_and_again_while_they_are_copied_end_right() {
    for consistency in [Consistency::Strict, Consistency::Watched] {
        let (shop, source) = Shop::of_orders(consistency).await;
        shop.execute(INSERTED).await;
        let mut reader = Reader::default();
        for round in 0..30 {
            reader.page(&source, 7).await;
            shop.execute(&format!(
                "UPDATE orders SET status = 'r{round}', updated_at = now() WHERE id % 5 = {}; DELETE FROM orders WHERE id = {round}",
                round % 5
            ))
            .await;
        }
        reader.catch_up(&source, 7).await;
        reader.catch_up(&source, 7).await;
        assert_eq!(reader.held, shop.rows().await, "{consistency}");
    }
}
