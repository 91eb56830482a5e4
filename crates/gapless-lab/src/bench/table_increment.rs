//! `table-increment`: rows that are changed in one transaction, until a copy has them.

use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::Scale;
use super::big_table;
use super::logical_replication;
use super::replicator::Replicator;
use super::table_ends::TableEnds;
use super::table_sync::empty_poll;
use crate::database::Database;
use crate::figure::{Figure, Target, median};
use crate::progress::Progress;

const BENCH: &str = "table-increment";
const SECONDS_MAX: f64 = 0.6;
const LOGICAL_RATIO_MAX: f64 = 0.5;
const EMPTY_POLL_MS_MAX: f64 = 2.0;
/// How often a copy is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(2);
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, Copy)]
struct Plan {
    rows: u64,
    changed: u64,
    rounds: usize,
    polls: usize,
}

/// A table and its copies: one of ours, and one of logical replication, which stands still unless it is measured.
struct Copies {
    ends: TableEnds,
    ours: Database,
    logical: Database,
    plan: Plan,
    /// How often rows were changed: each time they get another status.
    changes: u32,
}

pub(super) async fn run(scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let plan = Plan {
        rows: scale.pick(1_000_000, 20_000),
        changed: scale.pick(50_000, 1_000),
        rounds: scale.pick(5, 1),
        polls: scale.pick(400, 10),
    };
    let progress = Progress::new(2 + 3 * plan.rounds);
    progress.begin(format!("a table of {} rows", plan.rows));
    let ends = TableEnds::ready(plan.rows).await?;
    let poll_ms = empty_poll(ends.gateway().address(), plan.rows, plan.polls).await?;
    progress.step();
    progress.begin("its copies");
    let mut copies = Copies::make(ends, plan).await?;
    progress.step();
    let (mut once, mut following, mut logical) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        progress.begin("gapless replicate --once");
        once.push(copies.started_at_the_commit().await?);
        progress.step();
        progress.begin("gapless replicate, following");
        following.push(copies.followed().await?);
        progress.step();
        progress.begin("logical replication");
        logical.push(copies.replicated_logically().await?);
        progress.step();
    }
    copies.discard().await?;
    let figure = |how: &str, seconds: &[f64]| {
        Figure::new(
            BENCH,
            format!("{} updated rows at the target, {how}", plan.changed),
            "s",
            median(seconds),
        )
        .versus("PostgreSQL's logical replication", median(&logical))
        .target(Target::EitherAtMost { ours: SECONDS_MAX, ratio: LOGICAL_RATIO_MAX })
    };
    Ok(vec![
        figure("replicator following", &following),
        figure("--once, started at the commit", &once),
        Figure::new(BENCH, "empty poll over HTTP, p50", "ms", poll_ms)
            .target(Target::OursAtMost(EMPTY_POLL_MS_MAX)),
    ])
}

impl Copies {
    async fn make(ends: TableEnds, plan: Plan) -> anyhow::Result<Self> {
        let (ours, logical) = (ends.targets.fresh().await?, ends.targets.fresh().await?);
        Replicator::start(ends.gateway(), &ours, &["--once"])?.ended().await?;
        logical_replication::publish(&ends).await?;
        logical_replication::copy(&ends, &logical).await?;
        logical_replication::enable(&logical, false).await?;
        Ok(Self { ends, ours, logical, plan, changes: 0 })
    }

    /// How many seconds a replicator takes that is started when the change is committed, the start of the program included.
    async fn started_at_the_commit(&mut self) -> anyhow::Result<f64> {
        Replicator::start(self.ends.gateway(), &self.ours, &["--once"])?.ended().await?;
        self.clean(&self.ours).await?;
        let change = self.change(self.plan.changed).await?;
        let replicator = Replicator::start(self.ends.gateway(), &self.ours, &["--once"])?;
        let seconds = change.arrived(&self.ours).await?;
        replicator.ended().await?;
        Ok(seconds)
    }

    /// How many seconds one takes that follows already.
    async fn followed(&mut self) -> anyhow::Result<f64> {
        self.clean(&self.ours).await?;
        let mut replicator = Replicator::start(self.ends.gateway(), &self.ours, &[])?;
        self.change(1).await?.arrived(&self.ours).await?;
        let seconds = self.change(self.plan.changed).await?.arrived(&self.ours).await?;
        replicator.check()?;
        Ok(seconds)
    }

    /// How many seconds logical replication takes that follows already.
    async fn replicated_logically(&mut self) -> anyhow::Result<f64> {
        logical_replication::enable(&self.logical, true).await?;
        self.change(1).await?.arrived(&self.logical).await?;
        self.clean(&self.logical).await?;
        let seconds = self.change(self.plan.changed).await?.arrived(&self.logical).await?;
        logical_replication::enable(&self.logical, false).await?;
        Ok(seconds)
    }

    /// Changes the first rows in one transaction.
    async fn change(&mut self, rows: u64) -> anyhow::Result<Change> {
        self.changes += 1;
        let status = format!("change {}", self.changes);
        let sql = format!("UPDATE {} SET status = $1, updated_at = now() WHERE id <= $2", big_table::NAME);
        let source = self.ends.source.postgres().await?;
        let changed = source.execute(&sql, &[&status, &i64::try_from(rows)?]).await?;
        let committed_at = Instant::now();
        ensure!(changed == rows, "{changed} rows were changed instead of {rows}");
        Ok(Change { status, rows, committed_at })
    }

    /// Leaves neither the source nor a copy with what changes before have left behind.
    async fn clean(&self, copy: &Database) -> anyhow::Result<()> {
        for database in [&self.ends.source, copy] {
            database.postgres().await?.batch_execute(&format!("VACUUM {}", big_table::NAME)).await?;
        }
        self.ends.settle(copy).await
    }

    /// Makes sure that both copies have ended equal, and deletes everything.
    async fn discard(self) -> anyhow::Result<()> {
        Replicator::start(self.ends.gateway(), &self.ours, &["--once"])?.ended().await?;
        self.ends.check_equal(&self.ours, "gapless replicate").await?;
        logical_replication::enable(&self.logical, true).await?;
        Change {
            status: format!("change {}", self.changes),
            rows: self.plan.changed,
            committed_at: Instant::now(),
        }
        .arrived(&self.logical)
        .await?;
        self.ends.check_equal(&self.logical, "logical replication").await?;
        logical_replication::unsubscribe(&self.logical).await?;
        self.ours.discard().await?;
        self.logical.discard().await?;
        self.ends.discard().await
    }
}

/// Rows that were changed together.
struct Change {
    status: String,
    /// How many: those with the lowest ids.
    rows: u64,
    committed_at: Instant,
}

impl Change {
    /// How many seconds after the commit a copy has all of it. The last of the rows is the last in every order that they may come in.
    async fn arrived(&self, copy: &Database) -> anyhow::Result<f64> {
        let (sql, rows) = (copy.postgres().await?, i64::try_from(self.rows)?);
        let last = format!("SELECT status = $1 FROM {} WHERE id = $2", big_table::NAME);
        let last = sql.prepare(&last).await?;
        let arriving = async {
            let mut looks = interval(LOOK_EVERY);
            looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                looks.tick().await;
                if sql.query_one(&last, &[&self.status, &rows]).await?.get(0) {
                    return anyhow::Ok(self.committed_at.elapsed().as_secs_f64());
                }
            }
        };
        let Ok(seconds) = timeout(PATIENCE, arriving).await else { bail!("the change doesn't arrive") };
        let all = format!("SELECT count(*) FROM {} WHERE id <= $2 AND status = $1", big_table::NAME);
        let found: i64 = sql.query_one(&all, &[&self.status, &rows]).await?.get(0);
        ensure!(found == rows, "only {found} of {rows} changed rows were there when the last one was");
        seconds
    }
}
