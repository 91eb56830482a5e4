//! `table-strategies`: all of them on one busy table, at the same time.

use std::collections::BTreeMap;
use std::time::Duration;

use gapless_testkit::{BusyTable, BusyTableConfig, TrueRow, Work};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Conditions;
use super::holding::{Faults, Holding};
use super::push;
use super::strategy::Strategy;
use crate::database::{Database, Databases};
use crate::elapse::elapse;
use crate::exhibit::Exhibit;
use crate::finding::{Check, Outcome};
use crate::latencies::Latencies;

/// How long after the last commit the readers end: later than the one that is a second behind.
const CLOSING: Duration = Duration::from_millis(1_300);
/// The dice of the writers.
const SEED: u64 = 20_260_701;
/// How many transactions must have committed, so that what was seen is worth something.
const COMMITTED_MIN: u64 = 100;

pub(super) async fn run(databases: &Databases, conditions: Conditions) -> anyhow::Result<Outcome> {
    let database = databases.fresh().await?;
    let observed = observe(&database, conditions).await?;
    database.discard().await?;

    let mut checks = vec![Check::at_least("transactions committed", COMMITTED_MIN, observed.work.committed)];
    let mut rows = Vec::new();
    let mut lost = Vec::new();
    for (strategy, holding) in &observed.readers {
        let faults = holding.faults(&observed.truth);
        let prediction = strategy.prediction();
        let seen = prediction.seen(|fault| faults.has(fault));
        checks.push(Check::exactly(&format!("{} goes wrong by", strategy.name()), prediction.text(), seen));
        rows.push(cells(*strategy, faults, &holding.lag(&observed.work)?, holding.queries()));
        lost.push((strategy.name().to_owned(), faults.missing + faults.stale));
    }
    let title = format!(
        "{} rows in the end, after {} transactions that committed and {} that did not",
        observed.truth.len(),
        observed.work.committed,
        observed.work.rolled_back
    );
    let exhibits = vec![
        Exhibit::table(&title, HEADING, rows),
        Exhibit::Bars { title: "rows that are missing or stale in the end".to_owned(), bars: lost },
    ];
    Ok(Outcome { checks, exhibits })
}

/// What happened, and what each reader made of it.
struct Observed {
    work: Work,
    truth: BTreeMap<i64, TrueRow>,
    readers: BTreeMap<Strategy, Holding>,
}

async fn observe(database: &Database, conditions: Conditions) -> anyhow::Result<Observed> {
    let client = database.postgres().await?;
    let config = BusyTableConfig { seed: SEED, ..BusyTableConfig::default() };
    let table = BusyTable::create(&database.url(), config).await?;
    client.batch_execute(push::INSTALL).await?;

    let finish = watch::Sender::new(false);
    let mut reading = JoinSet::new();
    for strategy in Strategy::ALL {
        strategy.start(database, &mut reading, finish.subscribe()).await?;
    }
    let busy = conditions.size.pick(Duration::from_secs(5), Duration::from_secs(40));
    let work = table.start(busy).join().await?;
    elapse(CLOSING).await;
    finish.send_replace(true);
    let mut readers = BTreeMap::new();
    while let Some(ended) = reading.join_next().await {
        let (strategy, holding) = ended??;
        readers.insert(strategy, holding);
    }
    Ok(Observed { work, truth: table.truth().await?, readers })
}

const HEADING: [&str; 11] = [
    "strategy", "missing", "stale", "repeated", "phantoms", "stuck", "lag p50", "p99", "longest", "page p50",
    "longest",
];

fn cells(strategy: Strategy, faults: Faults, lag: &Latencies, pages: &Latencies) -> Vec<String> {
    let Faults { missing, stale, repeated, phantoms, is_stuck } = faults;
    let counts = [missing, stale, repeated, phantoms].map(|number| number.to_string());
    let stuck = if is_stuck { "yes" } else { "" }.to_owned();
    let [page_p50, _, page_longest] = if pages.is_empty() { Default::default() } else { pages.cells() };
    let times = lag.cells().into_iter().chain([page_p50, page_longest]);
    std::iter::once(strategy.name().to_owned()).chain(counts).chain([stuck]).chain(times).collect()
}
