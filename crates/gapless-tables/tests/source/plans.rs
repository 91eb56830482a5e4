//! How the database reads a page of a big table.

use std::fs;
use std::path::PathBuf;

use gapless_tables::{Consistency, CursorKeys, Form, PageRequest, Source, TableConfig, install};
use gapless_testkit::Postgres;
use tokio_postgres::Client;

use crate::follower::table;
use crate::shop::connect;

const TABLE: &str = "
    CREATE TABLE t (id bigint PRIMARY KEY, note text, at timestamptz NOT NULL);
    INSERT INTO t SELECT n, 'note ' || n, timestamptz '2026-01-01' + n * interval '1 ms' FROM generate_series(1, 1000000) n;
    CREATE INDEX ON t (at, id)";

/// A server that writes down how it ran each statement.
struct Watchful {
    postgres: Postgres,
    url: String,
    sql: Client,
}

impl Watchful {
    async fn new() -> Self {
        let mut postgres = Postgres::start().unwrap();
        let sql = connect(&postgres.url()).await;
        sql.batch_execute("LOAD 'auto_explain'").await.unwrap();
        for setting in [
            "session_preload_libraries = 'auto_explain'",
            "auto_explain.log_min_duration = 0",
            "auto_explain.log_analyze = on",
            "auto_explain.log_buffers = on",
            "auto_explain.log_timing = off",
            "synchronous_commit = off",
            "max_wal_size = '4GB'",
            "autovacuum = off",
        ] {
            sql.batch_execute(&format!("ALTER SYSTEM SET {setting}")).await.unwrap();
        }
        postgres.restart().unwrap();
        let url = postgres.create_database().unwrap();
        let sql = connect(&url).await;
        sql.batch_execute("SET auto_explain.log_min_duration = -1").await.unwrap();
        sql.batch_execute(TABLE).await.unwrap();
        Self { postgres, url, sql }
    }

    async fn execute(&self, statements: &str) {
        self.sql.batch_execute(statements).await.unwrap();
    }

    async fn source(&self, config: TableConfig) -> Source {
        install(&self.url, config.clone(), true).await.unwrap();
        self.execute("VACUUM ANALYZE t").await;
        Source::open(&self.url, 1, config, CursorKeys::new([])).await.unwrap()
    }

    /// Reads a page and returns its plans, one for each step.
    async fn page(&self, source: &Source, place: &mut Place, limit: u32) -> (usize, Vec<Plan>) {
        let read_before = fs::read_to_string(self.log()).unwrap().len();
        let request = PageRequest {
            cursor: place.cursor.clone(),
            since: place.since.clone().filter(|_| place.cursor.is_none()),
            limit,
            form: Form::Binary,
        };
        let head = source.page(&request).await.unwrap().head;
        place.cursor = Some(head.next_cursor);
        place.has_more = head.has_more;
        let log = fs::read_to_string(self.log()).unwrap();
        let entries = log[read_before..].split("LOG:  duration");
        let plans = entries.filter(|entry| entry.contains(" AS op")).map(|entry| Plan(entry.to_owned()));
        (head.records, plans.collect())
    }

    async fn catch_up(&self, source: &Source, place: &mut Place) {
        place.has_more = true;
        while place.has_more {
            self.page(source, place, 10_000).await;
        }
    }

    fn log(&self) -> PathBuf {
        self.postgres.log_file()
    }
}

/// Where a reader is.
#[derive(Default)]
struct Place {
    cursor: Option<String>,
    since: Option<String>,
    has_more: bool,
}

impl Place {
    /// At 90 % of the rows.
    fn deep() -> Self {
        Self { since: Some("2026-01-01T00:15:00Z".to_owned()), ..Self::default() }
    }
}

struct Plan(String);

impl Plan {
    fn buffers(&self) -> u64 {
        let line = self.0.lines().find(|line| line.contains("Buffers: shared")).unwrap_or("");
        let numbers = line.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse::<u64>().ok());
        numbers.sum()
    }

    /// One range of an index each, by `conditions`, and next to nothing read in vain.
    fn reads_only(&self, conditions: &[&str], buffers_max: u64) {
        let plan = &self.0;
        for condition in conditions {
            let is_range = |line: &str| line.contains("Index Cond: ") && line.contains(condition);
            assert!(plan.lines().any(is_range), "{condition} {plan}");
        }
        assert!(!plan.contains("Seq Scan") && !plan.contains("Bitmap"), "{plan}");
        assert!(self.rows_removed() <= 1, "{plan}");
        assert!(self.buffers() < buffers_max, "{} {plan}", self.buffers());
    }

    /// The most rows that a part of it read in vain.
    fn rows_removed(&self) -> u64 {
        let lines = self.0.lines().filter(|line| line.contains("Rows Removed"));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).max().unwrap_or(0)
    }

    fn merges_without_sorting(&self) {
        assert!(self.0.contains("Merge Append") && !self.0.contains("Sort Method"), "{}", self.0);
    }
}

// Table behaviour 12
#[tokio::test]
async fn a_page_of_a_million_rows_is_one_range_of_an_index() {
    let world = Watchful::new().await;
    for consistency in [Consistency::BestEffort, Consistency::Watched, Consistency::Strict] {
        let source = world.source(table(&[], consistency)).await;
        let mut place = Place::deep();
        world.page(&source, &mut place, 1).await;
        let (records, plans) = world.page(&source, &mut place, 100).await;
        assert_eq!((records, plans.len(), place.has_more), (100, 1, true), "{consistency}");
        plans[0].reads_only(&["ROW(at, id) >"], 100);
        match consistency {
            Consistency::BestEffort => few_so_far(&world).await,
            Consistency::Strict => few_of_many(&world, consistency).await,
            Consistency::Watched => {}
        }
        if consistency == Consistency::BestEffort {
            // From here on there are deletes of long ago, all noted.
            world.source(table(&[], Consistency::Strict)).await;
            world.execute("DELETE FROM t WHERE id % 50 = 7 AND id < 900000").await;
            world.execute("UPDATE t_gapless_deleted SET gapless_at = gapless_at - interval '1 hour'").await;
            world.execute("VACUUM ANALYZE t_gapless_deleted").await;
            continue;
        }
        plans[0].merges_without_sorting();
        world.catch_up(&source, &mut place).await;
        late_rows(&world, consistency, &source, &mut place).await;
        what_comes_next(&world, consistency, &source, &mut place).await;
    }
}

/// A filter that takes few rows.
async fn few_of_many(world: &Watchful, consistency: Consistency) {
    let filter = Some("note LIKE '%99990'".to_owned());
    let source = world.source(TableConfig { filter, ..table(&[], consistency) }).await;
    let mut place = Place { has_more: true, ..Place::default() };
    let (mut records, mut pages) = (0, 0);
    while place.has_more {
        let (found, plans) = world.page(&source, &mut place, 100).await;
        assert!(plans.iter().all(|plan| plan.rows_removed() <= 100_000));
        (records, pages) = (records + found, pages + 1);
    }
    assert_eq!(records, 10, "{consistency}");
    assert!((9..=11).contains(&pages), "{consistency} {pages}");
}

/// A filter that takes few rows, of which the later ones have to wait: all that was looked at only then comes then.
async fn few_so_far(world: &Watchful) {
    let half = "SELECT (extract(epoch FROM now() - timestamptz '2026-01-01 00:16:30+00') * 1000)::bigint";
    let half: i64 = world.sql.query_one(half, &[]).await.unwrap().get(0);
    let mut config = table(&[], Consistency::BestEffort);
    config.filter = Some("note LIKE '%99990'".to_owned());
    let mut place = Place::default();
    for (delay_ms, expected) in [(u64::try_from(half).unwrap(), 9), (0, 100_000)] {
        let source = world.source(TableConfig { delay_ms: Some(delay_ms), ..config.clone() }).await;
        let mut records = 0;
        place.has_more = true;
        while place.has_more {
            records += world.page(&source, &mut place, 10_000).await.0;
        }
        assert_eq!(records, expected);
    }
}

/// Transactions that were open while the reader went on, and have ended since.
async fn late_rows(world: &Watchful, consistency: Consistency, source: &Source, place: &mut Place) {
    let (slow, other) = (connect(&world.url).await, connect(&world.url).await);
    slow.batch_execute("BEGIN; UPDATE t SET note = 'late', at = now() WHERE id BETWEEN 101 AND 150")
        .await
        .unwrap();
    other
        .batch_execute("BEGIN; DELETE FROM t WHERE note = 'note ' || id AND id BETWEEN 201 AND 249")
        .await
        .unwrap();
    // What is written meanwhile is seen in vain only where rows aren't stamped.
    let meanwhile = if consistency == Consistency::Strict { 20_000 } else { 301 };
    let soon =
        format!("UPDATE t SET note = 'soon', at = clock_timestamp() WHERE id BETWEEN 301 AND {meanwhile}");
    world.execute(&soon).await;
    world.catch_up(source, place).await;
    slow.batch_execute("COMMIT").await.unwrap();
    other.batch_execute("COMMIT").await.unwrap();
    let (records, plans) = world.page(source, place, 30).await;
    assert_eq!((records, plans.len(), place.has_more), (30, 1, true), "{consistency}");
    match consistency {
        Consistency::Strict => {
            plans[0].reads_only(&["(gapless_xid >= (s.xid)::xid8)", "(gapless_xid >= "], 400)
        }
        Consistency::Watched | Consistency::BestEffort => {
            plans[0].reads_only(&["ROW(at, id) <=", "(at >=", "(gapless_at >="], 400);
        }
    }
    world.catch_up(source, place).await;
    if consistency == Consistency::Watched {
        far_behind(world, source, place).await;
    }
}

/// A transaction that began before very many rows were written.
async fn far_behind(world: &Watchful, source: &Source, place: &mut Place) {
    let slow = connect(&world.url).await;
    slow.batch_execute("BEGIN; SELECT 1").await.unwrap();
    world.execute("UPDATE t SET at = clock_timestamp() WHERE id BETWEEN 400001 AND 620000").await;
    world.catch_up(source, place).await;
    slow.batch_execute("UPDATE t SET note = 'late', at = now() WHERE id = 1; COMMIT").await.unwrap();
    let (mut records, mut pages) = (0, 0);
    place.has_more = true;
    while place.has_more {
        let (found, plans) = world.page(source, place, 10_000).await;
        assert!(plans.iter().all(|plan| plan.rows_removed() <= 100_000));
        (records, pages) = (records + found, pages + 1);
    }
    assert!((3..6).contains(&pages), "{records} {pages}");
}

async fn what_comes_next(world: &Watchful, consistency: Consistency, source: &Source, place: &mut Place) {
    world.execute("UPDATE t SET note = 'next', at = clock_timestamp() WHERE id BETWEEN 301 AND 350").await;
    let (records, plans) = world.page(source, place, 100).await;
    let last = plans.last().unwrap();
    assert!((49..100).contains(&records), "{consistency} {records}");
    assert_eq!(plans.len(), 2, "{consistency}");
    last.reads_only(&["ROW(at, id) >", "ROW(gapless_at, id) >"], 100);
    last.merges_without_sorting();
}
