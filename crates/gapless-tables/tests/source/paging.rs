//! Pages: their order, their ends, and their cursors.

use gapless_tables::{Consistency, CursorError, CursorKeys, Source, SourceError};

use crate::shop::{Reader, Shop, orders};

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
