//! `table-page`: pages of 100 rows of a table of a million, from the source and over HTTP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use gapless_tables::{CursorKeys, Form, PageRequest, Source, TableConfig};
use tokio::task::JoinSet;

use super::Scale;
use super::big_table;
use super::disk::{histogram, micros_since};
use super::places;
use super::table_sync::{SYNC, moment, next_cursor};
use crate::database::{Database, Databases, StoreKind};
use crate::figure::{Figure, Target, median};
use crate::http::Connection;
use crate::progress::Progress;
use crate::server;

const BENCH: &str = "table-page";
const PAGE_ROWS: u32 = 100;
/// How many ask at the same time, each for one page after the other.
const CONNECTIONS: usize = 4;
/// How far the slowest place may be from the fastest, how long a page may take, and how much of the driver's rate is asked for.
const PLACES_RATIO_MAX: f64 = 1.3;
const PAGE_MS_MAX: f64 = 0.5;
const RAW_RATIO_MIN: f64 = 0.5;
/// From how many places pages are asked for.
const PLACES: u64 = 64;

#[derive(Debug, Clone, Copy)]
struct Plan {
    rows: u64,
    rounds: usize,
    round: Duration,
    pages_a_place: usize,
}

pub(super) async fn run(scale: Scale, postgres_url: Option<String>) -> anyhow::Result<Vec<Figure>> {
    let plan = Plan {
        rows: scale.pick(1_000_000, 20_000),
        rounds: scale.pick(5, 1),
        round: scale.pick(Duration::from_secs(2), Duration::from_millis(200)),
        pages_a_place: scale.pick(400, 10),
    };
    let databases = Databases::ready(StoreKind::Postgres, postgres_url).await?;
    let (database, store) = (databases.fresh().await?, databases.fresh().await?);
    let progress = Progress::new(1 + 3 * plan.rounds);
    progress.begin(format!("a table of {} rows", plan.rows));
    big_table::make(&database, plan.rows).await?;
    progress.step();
    let source =
        Source::open(&database.url(), 1, TableConfig::new(big_table::NAME), CursorKeys::new([])).await?;
    let mut figures = at_places(plan, &source, &progress).await?;
    drop(source);

    let files = tempfile::tempdir().context("making a temporary folder")?;
    let file = files.path().join("tables.toml");
    let declared = format!("source = \"{}\"\n[[tables]]\nname = \"{}\"\n", database.url(), big_table::NAME);
    std::fs::write(&file, declared)?;
    let serve = format!("tables.serve={}", file.display());
    let server = server::serve_with(&store.url(), &["--set", &serve]).await?;
    figures.push(over_http(plan, server.address(), &database, &progress).await?);
    server::stop(server).await?;
    store.discard().await?;
    database.discard().await?;
    Ok(figures)
}

/// Pages at three places, in turns.
async fn at_places(plan: Plan, source: &Source, progress: &Progress) -> anyhow::Result<Vec<Figure>> {
    let mut cursors = Vec::new();
    for row in [1, plan.rows / 2, plan.rows - 10 * u64::from(PAGE_ROWS)] {
        let request =
            PageRequest { cursor: None, since: Some(moment(row)), limit: PAGE_ROWS, form: Form::Json };
        cursors.push(source.page(&request).await?.head.next_cursor);
    }
    let mut durations = [histogram()?, histogram()?, histogram()?];
    for _ in 0..plan.rounds {
        progress.begin("pages at the beginning, in the middle and at the end");
        for _ in 0..plan.pages_a_place {
            for (cursor, durations) in cursors.iter().zip(&mut durations) {
                let request = PageRequest {
                    cursor: Some(cursor.clone()),
                    since: None,
                    limit: PAGE_ROWS,
                    form: Form::Json,
                };
                let start = Instant::now();
                let page = source.page(&request).await?;
                durations.saturating_record(micros_since(start));
                ensure!(page.head.records == PAGE_ROWS as usize, "a page has {} rows", page.head.records);
            }
        }
        progress.step();
    }
    let p50s = durations.map(|place| place.value_at_quantile(0.5) as f64 / 1_000.0);
    let named = places::NAMES.into_iter().zip(p50s);
    let mut figures: Vec<Figure> = named
        .map(|(place, p50)| {
            Figure::new(BENCH, format!("page of {PAGE_ROWS} of {}, {place}, p50", plan.rows), "ms", p50)
                .target(Target::OursAtMost(PAGE_MS_MAX))
        })
        .collect();
    figures.push(places::slowest_against_fastest(BENCH, &p50s, PLACES_RATIO_MAX));
    Ok(figures)
}

async fn over_http(
    plan: Plan,
    server: SocketAddr,
    database: &Database,
    progress: &Progress,
) -> anyhow::Result<Figure> {
    let mut connection = Connection::open(server).await?;
    let mut cursors = Vec::new();
    for place in 0..PLACES {
        let body = format!(r#"{{"since":"{}","limit":{PAGE_ROWS}}}"#, moment(1 + place * plan.rows / PLACES));
        cursors.push(next_cursor(&connection.post(SYNC, &body).await?)?);
    }
    let cursors = Arc::new(cursors);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        progress.begin("pages over HTTP");
        ours.push(pages_a_second(plan, server, &cursors).await?);
        progress.step();
        progress.begin("pages on the driver");
        theirs.push(raw_pages_a_second(plan, database).await?);
        progress.step();
    }
    let pages =
        Figure::new(BENCH, format!("pages over HTTP, {CONNECTIONS} connections"), "1/s", median(&ours))
            .versus("the rows of a page, counted, on the driver", median(&theirs))
            .target(Target::RatioAtLeast(RAW_RATIO_MIN));
    Ok(pages)
}

async fn pages_a_second(plan: Plan, server: SocketAddr, cursors: &Arc<Vec<String>>) -> anyhow::Result<f64> {
    let start = Instant::now();
    let mut asking = JoinSet::new();
    for number in 0..CONNECTIONS {
        let cursors = Arc::clone(cursors);
        asking.spawn(async move {
            let mut connection = Connection::open(server).await?;
            let mut pages = 0_usize;
            while start.elapsed() < plan.round {
                let cursor = &cursors[(7 * pages + number) % cursors.len()];
                let body = format!(r#"{{"cursor":"{cursor}","limit":{PAGE_ROWS}}}"#);
                next_cursor(&connection.post(SYNC, &body).await?)?;
                pages += 1;
            }
            anyhow::Ok(pages)
        });
    }
    sum(asking, start).await
}

async fn raw_pages_a_second(plan: Plan, database: &Database) -> anyhow::Result<f64> {
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        let client = database.postgres().await?;
        let page = client
            .prepare("SELECT * FROM events WHERE (updated_at, id) > ($1::text::timestamptz, $2) ORDER BY updated_at, id LIMIT 101")
            .await?;
        clients.push((client, page));
    }
    let start = Instant::now();
    let mut asking = JoinSet::new();
    for (number, (client, page)) in clients.into_iter().enumerate() {
        asking.spawn(async move {
            let mut pages = 0_usize;
            while start.elapsed() < plan.round {
                let row = 1 + (7 * pages + number) as u64 % PLACES * plan.rows / PLACES;
                let rows = client.query(&page, &[&moment(row), &i64::try_from(row)?]).await?;
                ensure!(rows.len() == 101, "a page has {} rows", rows.len());
                pages += 1;
            }
            Ok(pages)
        });
    }
    sum(asking, start).await
}

async fn sum(mut asking: JoinSet<anyhow::Result<usize>>, start: Instant) -> anyhow::Result<f64> {
    let mut pages = 0;
    while let Some(done) = asking.join_next().await {
        pages += done??;
    }
    Ok(pages as f64 / start.elapsed().as_secs_f64())
}
