//! `gapless replicate`, killed wherever it stands.

use std::time::{Duration, Instant};

use gapless_testkit::{BusyTable, BusyTableConfig, poll_until};
use tokio::runtime::Runtime;

use crate::shop::{Database, PATIENCE, Shop};

const TIES: &str = "
    CREATE TABLE ties (id bigint PRIMARY KEY, status text NOT NULL, updated_at timestamptz NOT NULL);
    INSERT INTO ties SELECT n, 'new', '2026-01-01 00:00:00.123456+00' FROM generate_series(1, 10000) AS n";

/// How often it is killed with pages of one row; after that it goes on to the end, which takes long enough.
const KILLS_MAX: usize = 60;

// Table behaviour 3
#[test]
fn rows_of_one_moment_are_all_there_however_often_it_is_killed_in_pages_of_1() {
    assert!(killed_after_each_page("1", &["new"]) == KILLS_MAX);
}

// Table behaviour 3
#[test]
fn rows_of_one_moment_are_all_there_however_often_it_is_killed_in_pages_of_7() {
    assert!(killed_after_each_page("7", &["new", "paid"]) == KILLS_MAX);
}

// Table behaviour 3
#[test]
fn rows_of_one_moment_are_all_there_however_often_it_is_killed_in_pages_of_10_000() {
    assert!(killed_after_each_page("10000", &["new", "paid"]) > 0);
}

/// Copies, killed as soon as a page more is there; returns how often.
fn killed_after_each_page(page_rows: &str, statuses: &[&str]) -> usize {
    let shop = Shop::with(TIES, &["ties"]);
    let mut kills = 0;
    for status in statuses {
        shop.source.execute(&format!(
            "UPDATE ties SET status = '{status}', updated_at = '2026-01-02 00:00:00.654321+00' WHERE status <> '{status}'"
        ));
        while kills < KILLS_MAX && is_killed_after_a_page(&shop, page_rows) {
            kills += 1;
        }
        shop.copy("ties", &["--page-rows", page_rows]).printed();
        shop.assert_equal("ties");
    }
    kills
}

/// Starts it and kills it when it has written a page. Returns whether there was one.
fn is_killed_after_a_page(shop: &Shop, page_rows: &str) -> bool {
    let before = written(&shop.target);
    let mut following = shop.follow("ties", &["--page-rows", page_rows, "--once"]);
    let is_over = || Ok((following.has_ended() || written(&shop.target) > before).then_some(()));
    poll_until(PATIENCE, is_over).unwrap().expect("it writes a page or ends");
    following.kill_9();
    written(&shop.target) > before
}

/// How many rows were written, as the position says, which must be true of the rows.
fn written(target: &Database) -> u64 {
    const IS_THERE: &str = "SELECT (to_regclass('gapless_replica') IS NOT NULL)::text";
    if target.query(IS_THERE) != ["true"] {
        return 0;
    }
    let said = target.query("SELECT upserts || ' ' || (SELECT count(*) FROM ties) FROM gapless_replica");
    let Some((written, rows)) = said.first().and_then(|said| said.split_once(' ')) else { return 0 };
    let (written, rows): (u64, u64) = (written.parse().unwrap(), rows.parse().unwrap());
    assert_eq!(written.min(10_000), rows, "a page without its position, or a position without its page");
    written
}

/// How long others write while it is killed.
const WRITTEN_FOR: Duration = Duration::from_secs(8);

// Table behaviours 1, 8
#[test]
fn a_copy_of_a_busy_table_that_is_killed_again_and_again_ends_equal() {
    let runtime = Runtime::new().unwrap();
    let shop = Shop::with(
        "CREATE TABLE placeholder (id bigint PRIMARY KEY, updated_at timestamptz NOT NULL)",
        &["placeholder"],
    );
    let busy = runtime.block_on(BusyTable::create(&shop.source.url, BusyTableConfig::default())).unwrap();
    let shop = shop.also_reading(BusyTable::NAME);
    let _guard = runtime.enter();
    let (writers, begun) = (busy.start(WRITTEN_FOR), Instant::now());
    for _ in 0..20 {
        let following = shop.follow(BusyTable::NAME, &["--page-rows", "50"]);
        // Once nobody writes any more, there may be nothing left to catch up with.
        let is_over = || following.log().contains("caught up") || begun.elapsed() >= WRITTEN_FOR;
        poll_until(PATIENCE, || Ok(is_over().then_some(()))).unwrap().unwrap();
        following.kill_9();
    }
    runtime.block_on(writers.join()).unwrap();
    shop.copy(BusyTable::NAME, &[]).printed();
    shop.assert_equal(BusyTable::NAME);
}
