//! `replay`: what a client that was away is told, and what it costs the database when many come back at once.

mod catch_up;
mod log;
mod raw;
mod reads;

use anyhow::ensure;

use super::Scale;
use crate::database::{Databases, StoreKind};
use crate::figure::{Figure, Target, median};
use crate::progress::Progress;
use crate::server;

const BENCH: &str = "replay";
/// How much of the raw query's rate is asked for, and how many reads of the log a client may cost when many come back at once.
const RAW_RATIO_MIN: f64 = 0.5;
const READS_A_CLIENT_MAX: f64 = 0.1;

#[derive(Debug, Clone, Copy)]
struct Plan {
    rounds: usize,
    events: u64,
    clients: usize,
    /// How far behind each of the clients is that come back at once.
    missed: u64,
}

pub(super) async fn run(scale: Scale, postgres_url: Option<String>) -> anyhow::Result<Vec<Figure>> {
    let plan = Plan {
        rounds: scale.pick(5, 1),
        events: scale.pick(100_000, 3_000),
        clients: scale.pick(1_000, 20),
        missed: scale.pick(1_000, 500),
    };
    server::raise_open_files()?;
    let databases = Databases::ready(StoreKind::Postgres, postgres_url).await?;
    let database = databases.fresh().await?;
    let progress = Progress::new(2 + plan.rounds);
    progress.begin(format!("making {} events", plan.events));
    log::fill(&database, plan.events).await?;
    progress.step();

    let raw = raw::RawLog::connect(&database).await?;
    let server = server::serve(&database.url()).await?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        progress.begin("one client behind");
        ours.push(catch_up::events_a_second(server.address(), plan.events).await?);
        theirs.push(raw.events_a_second(plan.events).await?);
        progress.step();
    }
    server::stop(server).await?;

    progress.begin(format!("{} clients come back", plan.clients));
    let before = reads::settled(&database).await?;
    // One of its own, so that it remembers nothing.
    let server = server::serve(&database.url()).await?;
    let idle = reads::settled_after(server, &database).await?.since(before);
    let before = reads::settled(&database).await?;
    let server = server::serve(&database.url()).await?;
    let rate = catch_up::all_at_once(server.address(), plan).await?;
    let told = reads::told_of_log(&server).await?;
    let cost = reads::settled_after(server, &database).await?.since(before);
    ensure!(
        told == cost.of_log,
        "the server tells of {told} reads of the log, PostgreSQL of {}",
        cost.of_log
    );
    progress.step();
    drop(raw);
    database.discard().await?;

    let a_client = |reads: u64| reads as f64 / plan.clients as f64;
    let crowd = format!("{} clients, each {} events behind", plan.clients, plan.missed);
    Ok(vec![
        Figure::new(BENCH, format!("one client, {} events behind", plan.events), "1/s", median(&ours))
            .versus("the same query on the driver", median(&theirs))
            .target(Target::RatioAtLeast(RAW_RATIO_MIN)),
        Figure::new(BENCH, format!("{crowd}, events to all of them"), "1/s", rate),
        Figure::new(BENCH, format!("{crowd}, reads of the log a client"), "reads", a_client(cost.of_log))
            .target(Target::OursAtMost(READS_A_CLIENT_MAX)),
        Figure::new(BENCH, format!("{crowd}, statements a client"), "statements", {
            a_client(cost.statements.saturating_sub(idle.statements))
        }),
    ])
}
