//! `table-cost`: what being read in strict mode costs the writers of a table.

use std::time::Instant;

use gapless_tables::{Consistency, Deletes, TableConfig, install};

use super::Scale;
use super::big_table;
use crate::database::{Database, Databases, StoreKind};
use crate::figure::{Figure, median};
use crate::progress::Progress;

const BENCH: &str = "table-cost";

#[derive(Debug, Clone, Copy)]
struct Plan {
    rounds: usize,
    inserted: u64,
    changed: u64,
}

/// What is done to the rows.
const WRITES: [&str; 3] = ["inserts", "updates", "deletes"];

/// Seconds of each of [`WRITES`], in each round.
type Times = [Vec<f64>; 3];

pub(super) async fn run(scale: Scale, postgres_url: Option<String>) -> anyhow::Result<Vec<Figure>> {
    let plan = Plan {
        rounds: scale.pick(5, 1),
        inserted: scale.pick(300_000, 2_000),
        changed: scale.pick(100_000, 500),
    };
    let databases = Databases::ready(StoreKind::Postgres, postgres_url).await?;
    let progress = Progress::new(2 * plan.rounds);
    let (mut plain, mut strict) = (Times::default(), Times::default());
    for _ in 0..plan.rounds {
        progress.begin("writes to a table as it is");
        write(plan, &databases, false, &mut plain).await?;
        progress.step();
        progress.begin("writes to one that is read in strict mode");
        write(plan, &databases, true, &mut strict).await?;
        progress.step();
    }
    let rows = [plan.inserted, plan.changed, plan.changed];
    let figures =
        WRITES.iter().zip(rows).zip(strict.iter().zip(&plain)).map(|((name, rows), (ours, theirs))| {
            Figure::new(
                BENCH,
                format!("{rows} {name} in one statement, read in strict mode"),
                "s",
                median(ours),
            )
            .versus("the same table as it is", median(theirs))
        });
    Ok(figures.collect())
}

async fn write(plan: Plan, databases: &Databases, is_strict: bool, times: &mut Times) -> anyhow::Result<()> {
    let database = databases.fresh().await?;
    big_table::make_plain(&database, 1).await?;
    if is_strict {
        let config = TableConfig {
            consistency: Consistency::Strict,
            deletes: Deletes::Tombstones,
            ..TableConfig::new(big_table::NAME)
        };
        install(&database.url(), config, true).await?;
    }
    let start = Instant::now();
    big_table::insert(&database, 2, 1 + plan.inserted).await?;
    times[0].push(start.elapsed().as_secs_f64());
    let chosen = format!("id <= {}", plan.changed);
    times[1].push(
        seconds(&database, &format!("UPDATE events SET status = 'paid', updated_at = now() WHERE {chosen}"))
            .await?,
    );
    times[2].push(seconds(&database, &format!("DELETE FROM events WHERE {chosen}")).await?);
    database.discard().await
}

async fn seconds(database: &Database, statement: &str) -> anyhow::Result<f64> {
    let sql = database.postgres().await?;
    let start = Instant::now();
    sql.batch_execute(statement).await?;
    Ok(start.elapsed().as_secs_f64())
}
