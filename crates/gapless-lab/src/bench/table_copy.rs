//! `table-copy`: the first copy of a table of a million rows from one PostgreSQL into another.

mod peers;
mod pipe;

use std::path::PathBuf;

use super::Scale;
use super::logical_replication;
use super::replicator::Replicator;
use super::table_ends::TableEnds;
use crate::figure::{Figure, Target, median};
use crate::progress::Progress;

const BENCH: &str = "table-copy";
/// How much longer than the pipe, and than logical replication, a copy may take, and how much memory.
const PIPE_RATIO_MAX: f64 = 2.0;
const LOGICAL_RATIO_MAX: f64 = 1.0;
const PEAK_MB_MAX: f64 = 40.0;
/// Bytes of a megabyte.
const MB: f64 = 1_000_000.0;

/// Seconds of each way, in each round.
#[derive(Debug, Default)]
struct Times {
    ours: Vec<f64>,
    peak_mb: Vec<f64>,
    pipe: Vec<f64>,
    keyed_pipe: Vec<f64>,
    logical: Vec<f64>,
}

pub(super) async fn run(scale: Scale, peers: Option<PathBuf>) -> anyhow::Result<Vec<Figure>> {
    let rows = scale.pick(1_000_000, 20_000);
    let rounds = scale.pick(3, 1);
    let progress = Progress::new(1 + 4 * rounds + 2);
    progress.begin(format!("a table of {rows} rows"));
    let ends = TableEnds::ready(rows).await?;
    logical_replication::publish(&ends).await?;
    progress.step();
    let mut times = Times::default();
    for _ in 0..rounds {
        measure(&ends, &mut times, &progress).await?;
    }
    let mut figures = figures(rows, &times);
    if let Some(folder) = peers {
        for peer in peers::Peer::ALL {
            progress.begin(peer.name());
            let seconds = peer.copy(&folder, &ends, rows).await?;
            figures.push(ours(rows, &times).versus(peer.name(), seconds));
            progress.step();
        }
    }
    ends.discard().await?;
    Ok(figures)
}

/// Each way once, into a database of its own.
async fn measure(ends: &TableEnds, times: &mut Times, progress: &Progress) -> anyhow::Result<()> {
    progress.begin("a pipe");
    times.pipe.push(pipe::copy(ends, false).await?);
    progress.step();

    progress.begin("gapless replicate");
    let target = ends.targets.fresh().await?;
    ends.settle(&target).await?;
    let took = Replicator::start(ends.gateway(), &target, &["--once"])?.ended().await?;
    ends.check_equal(&target, "gapless replicate").await?;
    target.discard().await?;
    times.ours.push(took.seconds);
    times.peak_mb.push(took.peak_bytes as f64 / MB);
    progress.step();

    progress.begin("a pipe into a table with a key");
    times.keyed_pipe.push(pipe::copy(ends, true).await?);
    progress.step();

    progress.begin("logical replication");
    let target = ends.targets.fresh().await?;
    ends.settle(&target).await?;
    times.logical.push(logical_replication::copy(ends, &target).await?);
    logical_replication::unsubscribe(&target).await?;
    ends.check_equal(&target, "logical replication").await?;
    target.discard().await?;
    progress.step();
    Ok(())
}

fn ours(rows: u64, times: &Times) -> Figure {
    Figure::new(BENCH, format!("first copy of {rows} rows over HTTP"), "s", median(&times.ours))
}

fn figures(rows: u64, times: &Times) -> Vec<Figure> {
    let peak = times.peak_mb.iter().copied().fold(0.0, f64::max);
    vec![
        ours(rows, times)
            .versus("psql COPY | psql COPY, binary, no key", median(&times.pipe))
            .target(Target::RatioAtMost(PIPE_RATIO_MAX)),
        ours(rows, times).versus("the same pipe into a table with the key", median(&times.keyed_pipe)),
        ours(rows, times)
            .versus("PostgreSQL's logical replication", median(&times.logical))
            .target(Target::RatioAtMost(LOGICAL_RATIO_MAX)),
        Figure::new(BENCH, "memory of the replicator at its peak", "MB", peak)
            .target(Target::OursAtMost(PEAK_MB_MAX)),
    ]
}
