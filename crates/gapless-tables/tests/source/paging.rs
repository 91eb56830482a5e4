//! Pages: their order, their ends, and their cursors.

use std::collections::BTreeSet;

use gapless_tables::{Consistency, CursorError, CursorKeys, Form, PageRequest, Source, SourceError};
use serde_json::Value;

use crate::shop::{Reader, Shop, connect, orders};

const MODES: [Consistency; 3] = [Consistency::Strict, Consistency::Watched, Consistency::BestEffort];

// Table behaviour 3
#[tokio::test]
async fn rows_of_one_microsecond_come_once_each_whatever_the_page() {
    for consistency in MODES {
        let (shop, source) = Shop::of_orders(consistency).await;
        shop.execute("INSERT INTO orders SELECT n, 'new', '2026-01-01 00:00:00.856665+00' FROM generate_series(-50, 150) n")
            .await;
        for limit in [1, 7, 10_000] {
            let mut reader = Reader::default();
            let records = reader.catch_up(&source, limit).await;
            assert_eq!(reader.held, shop.rows().await, "{consistency} {limit}");
            assert_eq!(records.len(), 201, "{consistency} {limit}");
            assert_eq!((records[0].as_str(), records[200].as_str()), ("-50 new", "150 new"));
        }
    }
}

// Table behaviour 4
#[tokio::test]
async fn an_empty_poll_has_a_usable_cursor_and_exactly_the_limit_leaves_nothing_more() {
    for consistency in MODES {
        let (shop, source) = Shop::of_orders(consistency).await;
        let mut reader = Reader::default();
        for _ in 0..3 {
            let page = reader.page(&source, 5).await;
            assert_eq!((page.head.records, page.head.has_more), (0, false), "{consistency}");
            assert!(page.head.next_cursor.len() < 1_000);
        }
        shop.execute("INSERT INTO orders SELECT n, 'new', '2026-01-01' FROM generate_series(1, 5) n").await;
        let page = reader.page(&source, 5).await;
        assert_eq!((page.head.records, page.head.has_more), (5, false), "{consistency}");
        shop.execute("INSERT INTO orders SELECT n, 'new', '2026-01-02' FROM generate_series(6, 11) n").await;
        let page = reader.page(&source, 5).await;
        assert_eq!((page.head.records, page.head.has_more), (5, true), "{consistency}");
        let page = reader.page(&source, 5).await;
        assert_eq!((page.head.records, page.head.has_more), (1, false), "{consistency}");
        assert_eq!(reader.held, shop.rows().await);
    }
}

#[tokio::test]
async fn a_limit_that_makes_no_sense_is_refused() {
    let (_shop, source) = Shop::of_orders(Consistency::Strict).await;
    for limit in [0, 10_001] {
        let refused = Reader::default().try_page(&source, limit).await;
        assert!(matches!(refused, Err(SourceError::Request(_))), "{refused:?}");
    }
    let both = Reader { since: Some("x".to_owned()), ..Reader::default() };
    assert!(matches!(both.try_page(&source, 1).await, Err(SourceError::Request(_))));
}

// Table behaviour 9
#[tokio::test]
async fn a_cursor_that_is_not_of_this_table_reads_nothing() {
    let (shop, source) = Shop::of_orders(Consistency::Strict).await;
    let mut reader = Reader::default();
    reader.page(&source, 5).await;
    let refused = async |source: &Source| match reader.try_page(source, 5).await {
        Err(SourceError::Cursor(error)) => error,
        other => panic!("{other:?}"),
    };
    let other = gapless_tables::TableConfig {
        name: "sales".to_owned(),
        table: Some("orders".to_owned()),
        ..orders(Consistency::Strict)
    };
    let sales = shop.open(other).await;
    assert_eq!(refused(&sales).await, CursorError::OtherTable("orders".to_owned()));
    let watched = shop.open(orders(Consistency::Watched)).await;
    assert_eq!(refused(&watched).await, CursorError::OtherMeaning);
    let keys = CursorKeys::new([b"another".as_slice()]);
    let rotated = Source::open(&shop.url, 1, orders(Consistency::Strict), keys).await.unwrap();
    assert_eq!(refused(&rotated).await, CursorError::Invalid);
    shop.execute("DROP TABLE orders").await;
    shop.execute(crate::shop::ORDERS).await;
    let anew = shop.source(orders(Consistency::Strict)).await;
    assert_eq!(refused(&anew).await, CursorError::OtherIncarnation);
}

// Table behaviour 11
#[tokio::test]
async fn a_replay_begins_at_a_time() {
    for consistency in MODES {
        let (shop, source) = Shop::of_orders(consistency).await;
        shop.execute(
            "INSERT INTO orders SELECT n, 'new', timestamptz '2026-01-01 00:00:00+00' + n * interval '1 minute' FROM generate_series(0, 59) n",
        )
        .await;
        let mut reader = Reader { since: Some("2026-01-01T00:30:00Z".to_owned()), ..Reader::default() };
        let records = reader.catch_up(&source, 7).await;
        assert_eq!((records.len(), records[0].as_str()), (30, "30 new"), "{consistency}");
    }
}

// Table behaviour 4
#[tokio::test]
async fn a_page_ends_early_where_its_rows_are_big() {
    for consistency in [Consistency::Strict, Consistency::Watched] {
        let (shop, source) = Shop::of_orders(consistency).await;
        shop.execute(
            "INSERT INTO orders SELECT n, repeat('x', 1000000), '2026-01-01' FROM generate_series(1, 20) n",
        )
        .await;
        for form in [Form::Json, Form::Binary] {
            let (mut cursor, mut records, mut pages) = (None, 0, 0);
            loop {
                let page =
                    source.page(&PageRequest { cursor, since: None, limit: 10_000, form }).await.unwrap();
                assert!(page.rows.len() < 10 << 20, "{}", page.rows.len());
                (records, pages) = (records + page.head.records, pages + 1);
                cursor = Some(page.head.next_cursor);
                if !page.head.has_more {
                    break;
                }
            }
            assert_eq!((records, pages), (20, 3));
        }
    }
}

// Table behaviour 11
#[tokio::test]
async fn a_connection_that_ends_in_mid_page_is_an_error_and_the_cursor_goes_on() {
    let (shop, source) = Shop::of_orders(Consistency::Strict).await;
    shop.execute(
        "INSERT INTO orders SELECT n, repeat('x', 200000), '2026-01-01' FROM generate_series(1, 200) n",
    )
    .await;
    let mut reader = Reader::default();
    reader.page(&source, 3).await;
    let killing = connect(&shop.url).await;
    let killer = tokio::spawn(async move {
        let kill =
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database()
            AND pid <> pg_backend_pid() AND state = 'active' AND query LIKE '% AS op, %'";
        let mut killed = 0;
        while killed < 3 {
            killed += killing.query_one(kill, &[]).await.unwrap().get::<_, i64>(0);
        }
    });
    let mut failures = 0;
    while !killer.is_finished() {
        match reader.try_page(&source, 20).await {
            Ok(_) => {}
            Err(error) => {
                assert!(matches!(error, SourceError::Unavailable(_)), "{error:?}");
                failures += 1;
            }
        }
    }
    assert!(failures > 0);
    // The last one may have been noticed by nobody yet.
    reader.try_page(&source, 20).await.ok();
    reader.catch_up(&source, 50).await;
    assert_eq!(reader.held, shop.rows().await);
    assert_eq!(reader.records.len(), 200);
}

// Table behaviour 4
#[tokio::test]
async fn many_open_writers_bring_no_version_twice() {
    let (shop, source) = Shop::of_orders(Consistency::Strict).await;
    let mut reader = Reader::default();
    let mut open = Vec::new();
    for id in 0..30 {
        let sql = connect(&shop.url).await;
        sql.batch_execute(&format!("BEGIN; INSERT INTO orders VALUES ({id}, 'new', now())")).await.unwrap();
        open.push(sql);
        shop.execute(&format!("INSERT INTO orders VALUES ({}, 'new', now())", 100 + id)).await;
        reader.catch_up(&source, 2).await;
    }
    for sql in open.iter().rev() {
        sql.batch_execute("COMMIT").await.unwrap();
        reader.catch_up(&source, 2).await;
    }
    let all: BTreeSet<&String> = reader.records.iter().collect();
    assert_eq!((all.len(), reader.records.len()), (60, 60));
    assert_eq!(reader.held, shop.rows().await);
}

/// The records of a page.
fn records(page: &[u8]) -> Vec<Value> {
    String::from_utf8(page.to_vec())
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

// Table behaviour 11
#[tokio::test]
async fn a_replay_brings_all_that_happened_since_also_deletes() {
    let (shop, source) = Shop::of_orders(Consistency::Strict).await;
    shop.execute("INSERT INTO orders SELECT n, 'old', '2026-01-01' FROM generate_series(1, 20) n").await;
    let since = "2026-06-01T00:00:00Z".to_owned();
    shop.execute(
        "DELETE FROM orders WHERE id = 3; UPDATE orders SET status = 'new', updated_at = now() WHERE id = 4",
    )
    .await;
    let request = PageRequest { cursor: None, since: Some(since), limit: 100, form: Form::Lines };
    let page = source.page(&request).await.unwrap();
    let ops: Vec<String> = records(&page.rows).iter().map(|row| row["op"].to_string()).collect();
    assert_eq!(ops, ["\"delete\"", "\"upsert\""]);
    let again = orders(Consistency::Strict);
    assert_eq!(shop.open(again).await.page(&request).await.unwrap().rows, page.rows);
}
