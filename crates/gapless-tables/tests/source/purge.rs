//! Notes of deleted rows that are purged, and the readers that haven't passed them.

use std::time::Duration;

use gapless_tables::{Consistency, CursorError, Purged, Source, SourceError, install, lacks, purge};

use crate::follower::{Follower, table};
use crate::shop::{Reader, Shop, connect, orders};

const MODES: [Consistency; 2] = [Consistency::Strict, Consistency::Watched];
const INSERTED: &str = "INSERT INTO orders SELECT n, 'new', now() FROM generate_series(1, 10) n";
const NOW: Duration = Duration::ZERO;
const MONTH: Duration = Duration::from_secs(30 * 86_400);

impl Shop {
    /// How many notes are purged.
    async fn purge(&self, consistency: Consistency, age: Duration) -> u64 {
        purge(&self.url, orders(consistency), age).await.unwrap().notes
    }
}

/// Reads the pass that is under way to its end, and another; or up to where the reader is told that its cursor is too old.
async fn is_told(reader: &mut Reader, source: &Source) -> bool {
    let mut passes = 0;
    while passes < 2 {
        match reader.try_page(source, 3).await {
            Ok(_) => passes += u8::from(!reader.page(source, 3).await.head.has_more),
            Err(SourceError::Cursor(CursorError::Expired { .. })) => return true,
            Err(error) => panic!("{error}"),
        }
    }
    false
}

// Table behaviours 7, 9
#[tokio::test]
async fn who_has_passed_what_is_purged_goes_on_and_who_has_not_is_told() {
    for consistency in MODES {
        let (shop, source) = Shop::of_orders(consistency).await;
        shop.execute(INSERTED).await;
        let (mut awake, mut asleep) = (Reader::default(), Reader::default());
        awake.catch_up(&source, 3).await;
        asleep.catch_up(&source, 3).await;
        shop.execute("DELETE FROM orders WHERE id = 3").await;
        awake.catch_up(&source, 3).await;
        assert_eq!(shop.purge(consistency, MONTH).await, 0);
        assert_eq!(shop.purge(consistency, NOW).await, 1);

        let refused = asleep.try_page(&source, 3).await.unwrap_err();
        assert!(matches!(refused, SourceError::Cursor(CursorError::Expired { .. })), "{refused}");
        assert!(refused.to_string().contains("begin anew without a cursor"), "{refused}");
        let mut fresh = Reader::default();
        for changes in ["INSERT INTO orders VALUES (11, 'new', now())", "DELETE FROM orders WHERE id = 4"] {
            shop.execute(changes).await;
            for reader in [&mut awake, &mut fresh] {
                reader.catch_up(&source, 3).await;
                assert_eq!(reader.held, shop.rows().await, "{consistency}");
            }
        }
    }
}

// Table behaviour 7
#[tokio::test]
async fn whoever_purges_by_hand_leaves_rows_in_copies_and_nobody_is_told() {
    for consistency in MODES {
        let (shop, source) = Shop::of_orders(consistency).await;
        shop.execute(INSERTED).await;
        let mut asleep = Reader::default();
        asleep.catch_up(&source, 3).await;
        shop.execute("DELETE FROM orders WHERE id = 3").await;
        shop.execute("DELETE FROM orders_gapless_deleted").await;
        assert!(!is_told(&mut asleep, &source).await);
        assert!(asleep.held.contains_key("3"), "{consistency}");
    }
}

// Table behaviours 7, 8
#[tokio::test]
async fn a_purge_in_the_middle_of_a_pass_takes_nothing_from_it_unseen() {
    for consistency in MODES {
        let (shop, source) = Shop::of_orders(consistency).await;
        shop.execute(INSERTED).await;
        let (mut first, mut later) = (Reader::default(), Reader::default());
        later.catch_up(&source, 3).await;

        // What was deleted before the first pass began is no matter to it; what was deleted since is.
        shop.execute("DELETE FROM orders WHERE id = 9").await;
        first.page(&source, 3).await;
        assert_eq!(shop.purge(consistency, NOW).await, 1);
        first.page(&source, 3).await;
        shop.execute("DELETE FROM orders WHERE id = 2").await;
        assert_eq!(shop.purge(consistency, NOW).await, 1);
        assert!(is_told(&mut first, &source).await, "{consistency}");
        assert!(is_told(&mut later, &source).await, "{consistency}");

        let mut midway = Reader::default();
        midway.catch_up(&source, 3).await;
        shop.execute(
            "UPDATE orders SET status = 'paid', updated_at = now(); DELETE FROM orders WHERE id = 1",
        )
        .await;
        midway.page(&source, 3).await;
        let mut through =
            Reader { cursor: midway.cursor.clone(), held: midway.held.clone(), ..Reader::default() };
        through.catch_up(&source, 3).await;
        assert_eq!(shop.purge(consistency, NOW).await, 1);
        assert!(is_told(&mut midway, &source).await, "{consistency}");
        through.catch_up(&source, 3).await;
        assert_eq!(through.held, shop.rows().await, "{consistency}");
    }
}

// Table behaviour 11
#[tokio::test]
async fn who_begins_at_a_time_is_told_if_deletes_since_then_were_purged() {
    let (shop, source) = Shop::of_orders(Consistency::Strict).await;
    shop.execute(INSERTED).await;
    shop.execute("DELETE FROM orders WHERE id = 3").await;
    shop.execute("UPDATE orders_gapless_deleted SET gapless_at = '2026-01-05 12:00:00+00'").await;
    shop.execute("DELETE FROM orders WHERE id = 4").await;
    assert_eq!(shop.purge(Consistency::Strict, Duration::from_secs(3_600)).await, 1);
    let since = |time: &str| Reader { since: Some(time.to_owned()), ..Reader::default() };
    let refused = since("2026-01-05T12:00:00Z").try_page(&source, 20).await.unwrap_err();
    assert!(refused.to_string().contains("up to 2026-01-05 12:00:00+00 were purged"), "{refused}");
    let mut reader = since("2026-01-05T12:00:01Z");
    assert!(reader.catch_up(&source, 3).await.contains(&"4 deleted".to_owned()));
    // Once it has got beyond that, nothing before it matters.
    assert_eq!(shop.purge(Consistency::Strict, NOW).await, 1);
    shop.execute("DELETE FROM orders WHERE id = 5").await;
    assert_eq!(reader.catch_up(&source, 3).await, ["5 deleted"]);
}

#[tokio::test]
async fn notes_count_as_old_only_when_they_are_whatever_zone_they_were_written_in() {
    for kind in ["timestamptz", "timestamp", "date"] {
        let shop = Shop::with(&format!(
            "CREATE TABLE t (id int PRIMARY KEY, note text, at {kind} NOT NULL); CREATE INDEX ON t (at, id)"
        ))
        .await;
        let config = table(&[], Consistency::Strict);
        let source = shop.source(config.clone()).await;
        for (id, zone) in ["Etc/GMT+12", "UTC", "Etc/GMT-14"].iter().enumerate() {
            let write = format!("INSERT INTO t VALUES ({id}, 'x', now()); DELETE FROM t");
            shop.execute(&format!("SET TimeZone = '{zone}'; {write}")).await;
        }
        let age = async |age| purge(&shop.url, config.clone(), age).await.unwrap();
        assert_eq!(age(Duration::from_secs(60)).await, Purged::default(), "{kind}");
        shop.execute("UPDATE t_gapless_deleted SET gapless_at = gapless_at - interval '3 days'").await;
        assert_eq!(age(Duration::from_secs(4 * 86_400)).await, Purged::default(), "{kind}");
        assert_eq!(age(Duration::from_secs(86_400)).await.notes, 3, "{kind}");
        let (came, has_more) = Follower::of(&config).page(&source, 5).await.unwrap();
        assert_eq!((came.len(), has_more), (0, false));
    }
}

// Table behaviours 1, 7
#[tokio::test(flavor = "multi_thread")]
async fn beside_a_purge_that_never_ends_writers_write_and_readers_end_equal() {
    for consistency in MODES {
        let (shop, source) = Shop::of_orders(consistency).await;
        let writer = connect(&shop.url).await;
        let writes = async {
            for round in 0..300 {
                let (low, high) = (round % 50, round % 50 + 7);
                writer
                    .batch_execute(&format!(
                        "BEGIN; INSERT INTO orders SELECT n, 'r{round}', now() FROM generate_series({low}, {high}) n
                            ON CONFLICT (id) DO UPDATE SET status = excluded.status, updated_at = now(); COMMIT;
                        DELETE FROM orders WHERE id % 5 = {}",
                        round % 5
                    ))
                    .await
                    .unwrap();
            }
        };
        let (mut reader, mut notes, mut times_told) = (Reader::default(), 0, 0);
        tokio::pin!(writes);
        loop {
            tokio::select! {
                () = &mut writes => break,
                purged = shop.purge(consistency, Duration::from_millis(20)) => notes += purged,
            }
            match reader.try_page(&source, 7).await {
                Ok(_) => drop(reader.page(&source, 7).await),
                Err(SourceError::Cursor(CursorError::Expired { .. })) => {
                    reader = Reader::default();
                    times_told += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
        if is_told(&mut reader, &source).await {
            reader = Reader::default();
            times_told += 1;
            reader.catch_up(&source, 7).await;
        }
        assert_eq!(reader.held, shop.rows().await, "{consistency}");
        assert!(notes > 0, "{consistency}: told {times_told} times");
    }
}

#[tokio::test]
async fn a_note_that_a_writer_holds_is_left_and_nobody_waits() {
    let (shop, _) = Shop::of_orders(Consistency::Strict).await;
    shop.execute(INSERTED).await;
    shop.execute("DELETE FROM orders WHERE id < 4; INSERT INTO orders VALUES (1, 'again', now())").await;
    let writer = connect(&shop.url).await;
    writer.batch_execute("BEGIN; DELETE FROM orders WHERE id = 1").await.unwrap();
    assert_eq!(shop.purge(Consistency::Strict, NOW).await, 2);
    writer.batch_execute("COMMIT").await.unwrap();
    assert_eq!(shop.purge(Consistency::Strict, NOW).await, 1);
}

#[tokio::test]
async fn a_table_that_was_installed_before_there_was_a_purge_is_installed_once_more() {
    let (shop, source) = Shop::of_orders(Consistency::Strict).await;
    shop.execute(INSERTED).await;
    let mut reader = Reader::default();
    reader.catch_up(&source, 3).await;
    shop.execute("DROP TABLE orders_gapless_purged").await;
    let config = orders(Consistency::Strict);
    let found = lacks(&shop.url, config.clone()).await.unwrap();
    assert_eq!(found.len(), 1);
    assert!(found[0].what.contains("purged") && found[0].remedy.contains("table install"), "{found:?}");
    let refused = purge(&shop.url, config.clone(), NOW).await.unwrap_err();
    assert!(refused.to_string().contains("run `gapless table install`"), "{refused}");
    shop.execute("INSERT INTO orders VALUES (11, 'new', now())").await;
    assert!(matches!(reader.try_page(&source, 3).await, Err(SourceError::Changed(_))));

    install(&shop.url, config.clone(), false).await.unwrap();
    assert_eq!(reader.catch_up(&shop.open(config).await, 3).await, ["11 new"]);
}

// Table behaviour 9
#[tokio::test]
async fn what_was_purged_in_the_cluster_that_a_dump_is_from_bars_nobody() {
    let (shop, source) = Shop::of_orders(Consistency::Strict).await;
    shop.execute(INSERTED).await;
    shop.execute("DELETE FROM orders WHERE id = 1").await;
    shop.purge(Consistency::Strict, NOW).await;
    shop.execute("UPDATE orders_gapless_purged SET system = 7, last = '99999999999'").await;
    let mut reader = Reader::default();
    reader.catch_up(&source, 3).await;
    shop.execute("DELETE FROM orders WHERE id = 2").await;
    assert_eq!(reader.catch_up(&source, 3).await, ["2 deleted"]);
    assert_eq!(shop.purge(Consistency::Strict, NOW).await, 1);
    assert!(!is_told(&mut reader, &source).await);
}
