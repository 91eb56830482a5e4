//! `append-hot` and `append-spread`: acknowledged sends a second through the store.

mod on_postgres;
mod on_sqlite;
mod ours;

use std::sync::Arc;
use std::time::Duration;

use gapless_store::Store;

use super::Scale;
use crate::database::{Database, Databases, StoreKind};
use crate::figure::{Figure, Target, median};
use crate::progress::Progress;

/// How the appends fall on conversations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pattern {
    /// All to one.
    Hot,
    /// Over many.
    Spread,
}

/// How much is appended at once, and for how long.
#[derive(Debug, Clone, Copy)]
struct Load {
    conversations: usize,
    senders: usize,
    round: Duration,
    rounds: usize,
}

/// How many sends each sender has under way: the usual, and one that waits for every answer.
const WINDOWS: [usize; 2] = [8, 1];
/// How many rows the floor inserts in a transaction.
const FLOOR_ROWS: usize = 500;

impl Pattern {
    const fn bench(self) -> &'static str {
        match self {
            Self::Hot => "append-hot",
            Self::Spread => "append-spread",
        }
    }

    const fn load(self, scale: Scale) -> Load {
        let (conversations, senders) = match self {
            Self::Hot => (1, scale.pick(64, 8)),
            Self::Spread => (scale.pick(1_000, 20), scale.pick(256, 16)),
        };
        let round = scale.pick(Duration::from_secs(4), Duration::from_millis(150));
        Load { conversations, senders, round, rounds: scale.pick(5, 1) }
    }

    /// How many times the per-message baseline is asked for.
    const fn baseline_ratio(self) -> f64 {
        match self {
            Self::Hot => 8.0,
            Self::Spread => 3.0,
        }
    }
}

/// How much of the floor is asked for.
const FLOOR_RATIO: f64 = 0.6;

pub(super) async fn run(
    pattern: Pattern,
    scale: Scale,
    postgres_url: Option<String>,
) -> anyhow::Result<Vec<Figure>> {
    let load = pattern.load(scale);
    let mut figures = on_postgres(pattern, load, postgres_url).await?;
    figures.extend(on_sqlite(pattern, load).await?);
    Ok(figures)
}

async fn on_postgres(pattern: Pattern, load: Load, url: Option<String>) -> anyhow::Result<Vec<Figure>> {
    let databases = Databases::ready(StoreKind::Postgres, url).await?;
    let database = databases.fresh().await?;
    let store = database.open_store().await?;
    ours::create_conversations(&store, load).await?;
    let baseline = on_postgres::Baseline::connect(&database, load).await?;
    let floor = on_postgres::Floor::connect(&database, load).await?;

    let progress = Progress::new(load.rounds);
    let mut rates = Rates::default();
    for round in 1..=load.rounds {
        progress.begin(format!("{} on postgres, round {round}", pattern.bench()));
        rates.add_ours(&store, load).await?;
        rates.baseline.push(baseline.statement_by_statement(load).await?);
        rates.single_statement.push(baseline.one_statement(load).await?);
        rates.floor.push(floor.rate(load.round).await?);
        progress.step();
    }
    store.close().await;
    drop((baseline, floor));
    database.discard().await?;
    Ok(rates.figures(pattern, load, StoreKind::Postgres))
}

async fn on_sqlite(pattern: Pattern, load: Load) -> anyhow::Result<Vec<Figure>> {
    // The store has its file for itself, so the baseline and the floor get one of their own.
    let databases = Databases::ready(StoreKind::Sqlite, None).await?;
    let (database, plain_database) = (databases.fresh().await?, databases.fresh().await?);
    let store = prepared_store(&database, load).await?;
    prepared_store(&plain_database, load).await?.close().await;
    let plain = on_sqlite::Plain::open(&plain_database, load)?;

    let progress = Progress::new(load.rounds);
    let mut rates = Rates::default();
    for round in 1..=load.rounds {
        progress.begin(format!("{} on sqlite, round {round}", pattern.bench()));
        rates.add_ours(&store, load).await?;
        rates.baseline.push(plain.rate(1, load.round)?);
        rates.floor.push(plain.rate(FLOOR_ROWS, load.round)?);
        progress.step();
    }
    store.close().await;
    drop(plain);
    database.discard().await?;
    plain_database.discard().await?;
    Ok(rates.figures(pattern, load, StoreKind::Sqlite))
}

async fn prepared_store(database: &Database, load: Load) -> anyhow::Result<Arc<dyn Store>> {
    let store = database.open_store().await?;
    ours::create_conversations(&store, load).await?;
    Ok(store)
}

/// Rows a second, round by round.
#[derive(Debug, Default)]
struct Rates {
    /// Through the store, for each of [`WINDOWS`].
    ours: [Vec<f64>; WINDOWS.len()],
    /// A transaction a message, one statement after the other.
    baseline: Vec<f64>,
    /// A transaction a message, in a single statement; only with PostgreSQL.
    single_statement: Vec<f64>,
    /// Many rows a transaction.
    floor: Vec<f64>,
}

impl Rates {
    async fn add_ours(&mut self, store: &Arc<dyn Store>, load: Load) -> anyhow::Result<()> {
        for (rates, window) in self.ours.iter_mut().zip(WINDOWS) {
            rates.push(ours::rate(store, load, window).await?);
        }
        Ok(())
    }

    fn figures(&self, pattern: Pattern, load: Load, kind: StoreKind) -> Vec<Figure> {
        let figure = |window: usize, rates: &[f64]| {
            let senders = load.senders;
            let metric = format!("acknowledged sends, {}, {senders} senders, window {window}", kind.name());
            Figure::new(pattern.bench(), metric, "1/s", median(rates))
        };
        let mut figures = Vec::new();
        for (window, ours) in WINDOWS.into_iter().zip(&self.ours) {
            let is_usual = window == WINDOWS[0];
            let baseline = figure(window, ours).versus(BASELINE, median(&self.baseline));
            // With SQLite, only the floor is asked for.
            figures.push(match kind {
                StoreKind::Postgres if is_usual => {
                    baseline.target(Target::RatioAtLeast(pattern.baseline_ratio()))
                }
                StoreKind::Postgres | StoreKind::Sqlite => baseline,
            });
            if !self.single_statement.is_empty() {
                figures.push(figure(window, ours).versus(SINGLE_STATEMENT, median(&self.single_statement)));
            }
            let floor = figure(window, ours).versus(FLOOR, median(&self.floor));
            // Over many conversations PostgreSQL has several writers here and one in the floor.
            figures.push(match (kind, pattern) {
                (StoreKind::Postgres, Pattern::Hot) | (StoreKind::Sqlite, _) if is_usual => {
                    floor.target(Target::RatioAtLeast(FLOOR_RATIO))
                }
                (StoreKind::Postgres | StoreKind::Sqlite, _) => floor,
            });
        }
        figures
    }
}

const BASELINE: &str = "lock, insert, commit per message";
const SINGLE_STATEMENT: &str = "the same in one statement";
const FLOOR: &str = "raw inserts, 500 a transaction";
