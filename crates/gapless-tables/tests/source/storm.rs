//! Many writers at once, and readers among them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gapless_tables::{Consistency, Deletes, Source, TableConfig};
use tokio::task::JoinHandle;
use tokio_postgres::Client;

use crate::follower::{Follower, notes, table};
use crate::shop::{Shop, connect};

const STORM: Duration = Duration::from_secs(3);
const SHORT_STORM: Duration = Duration::from_secs(2);
const WRITERS: u64 = 12;
const KEYS: u64 = 300;

/// The note of a row says which change wrote it, so that one that comes twice is noticed.
const TABLE: &str = "
    CREATE SEQUENCE changes; CREATE TABLE t (id int PRIMARY KEY, note text NOT NULL, at timestamptz NOT NULL); CREATE INDEX ON t (at, id);
    CREATE FUNCTION change() RETURNS text LANGUAGE sql VOLATILE AS $$ SELECT 'c' || nextval('changes') $$;
    INSERT INTO t SELECT n, change(), '2026-01-01' FROM generate_series(1, 300, 2) n";

/// Numbers that look random and are the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    /// A transaction: late to write, or long, or undone, or with savepoints, or of another isolation, or all of that.
    fn transaction(&mut self) -> String {
        let isolation =
            ["READ COMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"][self.below(4) as usize];
        let mut statements = vec![format!("BEGIN ISOLATION LEVEL {isolation}")];
        if self.below(2) == 0 {
            statements.push(format!("SELECT pg_sleep({})", self.below(100) as f64 / 1_000.0));
        }
        for _ in 0..=self.below(4) {
            let change = self.change();
            match self.below(5) {
                0 => statements.push(format!("SAVEPOINT s; {change}; RELEASE s")),
                1 => statements.push(format!("SAVEPOINT s; {change}; ROLLBACK TO s; {}", self.change())),
                _ => statements.push(change),
            }
            if self.below(10) == 0 {
                statements.push(format!("SELECT pg_sleep({})", self.below(400) as f64 / 1_000.0));
            }
        }
        statements.push(if self.below(10) == 0 { "ROLLBACK" } else { "COMMIT" }.to_owned());
        statements.join("; ")
    }

    fn change(&mut self) -> String {
        let (id, other) = (self.below(KEYS), self.below(KEYS));
        match self.below(9) {
            0 | 1 => format!(
                "INSERT INTO t VALUES ({id}, change(), now()) ON CONFLICT (id) DO UPDATE SET note = excluded.note, at = excluded.at"
            ),
            2 => format!("INSERT INTO t VALUES ({id}, change(), now()) ON CONFLICT DO NOTHING"),
            3 => format!("DELETE FROM t WHERE id = {id}"),
            4 => format!("DELETE FROM t WHERE id = {id}; INSERT INTO t VALUES ({id}, change(), now())"),
            5 => format!(
                "UPDATE t SET id = {other}, note = change(), at = now() WHERE id = {id} AND NOT EXISTS (SELECT 1 FROM t WHERE id = {other})"
            ),
            6 => format!("UPDATE t SET note = change(), at = now() WHERE id BETWEEN {id} AND {id} + 10"),
            7 => format!("UPDATE t SET note = change(), at = clock_timestamp() WHERE id = {id}"),
            _ => format!("UPDATE t SET note = change(), at = now() WHERE id = {id}"),
        }
    }
}

/// Begins no further transaction after a time, and returns how many there were and how many of them had to be given up.
fn writer(sql: Client, seed: u64, end: Instant, extra: &'static str) -> JoinHandle<(u32, u32)> {
    tokio::spawn(async move {
        let (mut dice, mut done, mut refused) = (Dice(seed), 0, 0);
        while Instant::now() < end {
            let transaction = match extra {
                "" => dice.transaction(),
                extra if dice.below(20) == 0 => extra.to_owned(),
                _ => dice.transaction(),
            };
            done += 1;
            // Deadlocks, duplicate keys and what can't be serialised are part of the game.
            if sql.batch_execute(&transaction).await.is_err() {
                refused += 1;
                sql.batch_execute("ROLLBACK").await.unwrap();
            }
        }
        (done, refused)
    })
}

/// A reader of the storm, and how often each change was delivered.
async fn read(
    source: Source,
    config: TableConfig,
    limit: u32,
    stop: Arc<AtomicBool>,
) -> (Follower, BTreeMap<String, u32>) {
    let (mut follower, mut seen) = (Follower::of(&config), BTreeMap::new());
    let mut passes_left = 2;
    while passes_left > 0 {
        let is_over = stop.load(Ordering::Relaxed);
        let mut has_more = true;
        while has_more {
            let (keys, more) = follower.page(&source, limit).await.unwrap();
            has_more = more;
            let keys: BTreeSet<String> = keys.into_iter().collect();
            for note in keys.iter().filter_map(|key| follower.held.get(key)) {
                *seen.entry(note.clone()).or_default() += 1;
            }
        }
        passes_left -= u32::from(is_over);
    }
    (follower, seen)
}

/// Lets writers loose, and says whether readers of all page sizes end with what the table holds.
async fn storm(consistency: Consistency, length: Duration, extra: &'static str) -> bool {
    let shop = Shop::with(TABLE).await;
    let config = TableConfig { deletes: Deletes::Tombstones, ..table(&["id"], consistency) };
    let reading = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    let source = shop.source(config.clone()).await;
    let end = Instant::now() + length;
    for seed in 0..WRITERS {
        writers.push(writer(connect(&shop.url).await, seed, end, extra));
    }
    let mut readers = vec![tokio::spawn(read(source, config.clone(), 3, reading.clone()))];
    for limit in [50, 1_000] {
        readers.push(tokio::spawn(read(
            shop.open(config.clone()).await,
            config.clone(),
            limit,
            reading.clone(),
        )));
    }
    let mut done = (0, 0);
    for writer in writers {
        let (transactions, refused) = writer.await.unwrap();
        done = (done.0 + transactions, done.1 + refused);
    }
    reading.store(true, Ordering::Relaxed);
    let expected = notes(&shop, &config).await;
    assert!(done.0 > 100 && done.1 < done.0 / 2, "{done:?}");
    let mut are_equal = true;
    for reader in readers {
        let (follower, seen) = reader.await.unwrap();
        are_equal &= follower.held == expected;
        if consistency == Consistency::Strict {
            let twice: Vec<_> = seen.iter().filter(|(_, times)| **times > 1).collect();
            assert!(twice.is_empty(), "{twice:?}");
        }
    }
    are_equal
}

// Table behaviour 1
#[tokio::test]
async fn in_a_storm_nothing_is_missing_stale_or_twice_in_strict_mode() {
    assert!(storm(Consistency::Strict, STORM, "").await);
}

// Table behaviour 1
#[tokio::test]
async fn in_a_storm_nothing_is_missing_or_stale_in_watched_mode() {
    assert!(storm(Consistency::Watched, STORM, "").await);
}

// Table behaviour 1
#[tokio::test]
async fn in_a_storm_whoever_does_not_look_for_late_rows_misses_some() {
    assert!(!storm(Consistency::BestEffort, SHORT_STORM, "").await);
}

// Table behaviour 7
#[tokio::test]
async fn a_table_that_is_truncated_again_and_again_among_writers() {
    let refill =
        "BEGIN; TRUNCATE t; INSERT INTO t SELECT n, change(), now() FROM generate_series(1, 50) n; COMMIT";
    assert!(storm(Consistency::Strict, SHORT_STORM, refill).await);
    assert!(storm(Consistency::Watched, SHORT_STORM, "TRUNCATE t").await);
}
