//! `chain-latency`: how long an event, and a reorg, takes from a node to a client.

mod arrivals;

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use hdrhistogram::Histogram;
use tokio::time::{interval, timeout};

use self::arrivals::{Arrivals, Kind};
use super::Scale;
use super::disk::{Disk, histogram};
use super::filled_node::{self, FilledNode};
use crate::database::{Database, Databases, StoreKind};
use crate::figure::{Figure, Target};
use crate::progress::Progress;
use crate::server;

const BENCH: &str = "chain-latency";
/// How far a client of ours may be behind one of the node: so many flushes, and so many milliseconds.
const FLUSHES_MAX: f64 = 2.0;
const ABOVE_MS_MAX: f64 = 3.0;
/// How long between two blocks. Chains have longer ones; with 50 ms the node's own announcements came late, so that both clients
/// measured something else.
const BLOCK_TIME: Duration = Duration::from_millis(150);
/// Empty blocks at first, so that the follower has left the beginning behind.
const FIRST_BLOCKS: u64 = 70;
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy)]
struct Plan {
    rounds: usize,
    blocks: usize,
    reorgs: usize,
    flushes: usize,
}

/// What was measured in all rounds, in microseconds.
struct Durations {
    flush: Histogram<u64>,
    mined: Compared,
    reorg: Compared,
}

/// How long news took to a client of ours and to one of the node.
struct Compared {
    ours: Histogram<u64>,
    bare: Histogram<u64>,
}

pub(super) async fn run(scale: Scale, postgres_url: Option<String>) -> anyhow::Result<Vec<Figure>> {
    let plan = Plan {
        rounds: scale.pick(5, 1),
        blocks: scale.pick(60, 5),
        reorgs: scale.pick(30, 3),
        flushes: scale.pick(300, 10),
    };
    let databases = Databases::ready(StoreKind::Postgres, postgres_url).await?;
    let database = databases.fresh().await?;
    let mut node = FilledNode::start().await?;
    node.mine(FIRST_BLOCKS).await?;
    let files = tempfile::tempdir().context("making a temporary folder")?;
    let file = files.path().join("chain.toml");
    fs::write(&file, node.declaration(filled_node::BALANCES))?;
    let follow = format!("chains.follow={}", file.display());
    let server = server::serve_with(&database.url(), &["--set", &follow]).await?;
    wait_for_feed(&database).await?;

    let mut bare = Arrivals::of_node(&node.ws_url()).await?;
    let mut ours = Arrivals::of_gapless(server.address()).await?;
    let durations = measure(plan, &mut node, &mut bare, &mut ours).await?;
    ours.stop().await?;
    bare.stop().await?;
    server::stop(server).await?;
    drop(node);
    database.discard().await?;
    Ok(figures(&durations))
}

/// Waits until the follower has begun the chain's feed and come to the newest block.
async fn wait_for_feed(database: &Database) -> anyhow::Result<()> {
    let sql = database.postgres().await?;
    // One more is the block with the token.
    let newest = i64::try_from(1 + FIRST_BLOCKS)?;
    let arriving = async {
        let mut ticks = interval(Duration::from_millis(20));
        loop {
            ticks.tick().await;
            let arrived = "SELECT 1 FROM chain_block WHERE number >= $1 LIMIT 1";
            if sql.query_opt(arrived, &[&newest]).await?.is_some() {
                return anyhow::Ok(());
            }
        }
    };
    timeout(PATIENCE, arriving).await.context("the server takes no blocks")?
}

async fn measure(
    plan: Plan,
    node: &mut FilledNode,
    bare: &mut Arrivals,
    ours: &mut Arrivals,
) -> anyhow::Result<Durations> {
    let mut durations = Durations { flush: histogram()?, mined: Compared::new()?, reorg: Compared::new()? };
    let mut disk = Disk::open()?;
    let progress = Progress::new(2 * plan.rounds);
    for _ in 0..plan.rounds {
        disk.flush(plan.flushes, &mut durations.flush)?;
        progress.begin("blocks");
        let mut blocks = interval(BLOCK_TIME);
        for _ in 0..plan.blocks {
            blocks.tick().await;
            mine(node, bare, ours, &mut durations.mined).await?;
        }
        progress.step();
        progress.begin("reorgs");
        let mut blocks = interval(BLOCK_TIME);
        for _ in 0..plan.reorgs {
            blocks.tick().await;
            reorg(node, bare, ours, &mut durations.reorg).await?;
        }
        progress.step();
    }
    Ok(durations)
}

/// Mines a transfer; its time begins when the node is told to.
async fn mine(
    node: &mut FilledNode,
    bare: &mut Arrivals,
    ours: &mut Arrivals,
    durations: &mut Compared,
) -> anyhow::Result<()> {
    node.send_transfer().await?;
    let start = Instant::now();
    node.mine(1).await?;
    let (at_bare, at_ours) = (bare.next().await?, ours.next().await?);
    ensure!(at_ours.kind == Kind::Event, "a block led to {:?}", at_ours.kind);
    durations.note(start, at_bare.at, at_ours.at);
    Ok(())
}

/// Replaces the newest block, which has a transfer, by one with another. The bare client is told of the new one.
async fn reorg(
    node: &mut FilledNode,
    bare: &mut Arrivals,
    ours: &mut Arrivals,
    durations: &mut Compared,
) -> anyhow::Result<()> {
    let start = Instant::now();
    node.reorg().await?;
    let (at_bare, at_ours) = (bare.next().await?, ours.next().await?);
    ensure!(at_ours.kind == Kind::Revoke, "a reorg led to {:?}", at_ours.kind);
    durations.note(start, at_bare.at, at_ours.at);
    let replaced = ours.next().await?;
    ensure!(replaced.kind == Kind::Event, "a revoke was followed by {:?}", replaced.kind);
    Ok(())
}

fn figures(durations: &Durations) -> Vec<Figure> {
    let ms = |histogram: &Histogram<u64>, quantile| histogram.value_at_quantile(quantile) as f64 / 1_000.0;
    let flush = ms(&durations.flush, 0.5);
    let above_max = ((ABOVE_MS_MAX + FLUSHES_MAX * flush) * 100.0).round() / 100.0;
    let compared = |what: &str, Compared { ours, bare }: &Compared| {
        let both = |name: &str, quantile| {
            Figure::new(BENCH, format!("{what}, {name}"), "ms", ms(ours, quantile))
                .versus(format!("a bare eth_subscribe client, {name}"), ms(bare, quantile))
        };
        let above = Figure::new(
            BENCH,
            format!("{what}, p50 above the bare client's"),
            "ms",
            (ms(ours, 0.5) - ms(bare, 0.5)).max(0.0),
        );
        [both("p50", 0.5), both("p99", 0.99), above.target(Target::OursAtMost(above_max))]
    };
    let mut figures = vec![Figure::new(BENCH, "flush of the disk, p50", "ms", flush)];
    figures.extend(compared("mined to event", &durations.mined));
    figures.extend(compared("reorg to revoke", &durations.reorg));
    figures
}

impl Compared {
    fn new() -> anyhow::Result<Self> {
        Ok(Self { ours: histogram()?, bare: histogram()? })
    }

    fn note(&mut self, start: Instant, bare: Instant, ours: Instant) {
        let micros = |at: Instant| u64::try_from((at - start).as_micros()).unwrap_or(u64::MAX);
        self.bare.saturating_record(micros(bare));
        self.ours.saturating_record(micros(ours));
    }
}
