//! `chain-backfill`: old events from a node into PostgreSQL.

mod bare;
mod ours;

use std::time::Instant;

use super::Scale;
use super::filled_node::{self, FilledNode};
use crate::database::{Databases, StoreKind};
use crate::figure::{Figure, Target, median};
use crate::progress::Progress;

const BENCH: &str = "chain-backfill";
/// How much of the bare client's rate is asked for.
const BARE_RATIO_MIN: f64 = 0.7;
const TRANSFERS_A_TRANSACTION: u64 = 5;
/// Empty blocks above the others, so that those are old: the follower takes the newest 64 one by one.
const NEWEST_BLOCKS: u64 = 80;

#[derive(Debug, Clone, Copy)]
struct Plan {
    rounds: usize,
    blocks: u64,
    transactions_a_block: u64,
}

impl Plan {
    fn events(self) -> u64 {
        self.blocks * self.transactions_a_block * TRANSFERS_A_TRANSACTION
    }

    /// The newest block that has events; block 1 has the token, so that they begin with block 2.
    fn last_block(self) -> u64 {
        1 + self.blocks
    }
}

pub(super) async fn run(scale: Scale, postgres_url: Option<String>) -> anyhow::Result<Vec<Figure>> {
    let plan = Plan {
        rounds: scale.pick(5, 1),
        blocks: scale.pick(5_000, 150),
        transactions_a_block: scale.pick(4, 1),
    };
    let databases = Databases::ready(StoreKind::Postgres, postgres_url).await?;
    let progress = Progress::new(1 + 3 * plan.rounds);
    progress.begin(format!("{} events on a node", plan.events()));
    let mut node = FilledNode::start().await?;
    node.fill(plan.blocks, plan.transactions_a_block, TRANSFERS_A_TRANSACTION).await?;
    node.mine(NEWEST_BLOCKS).await?;
    progress.step();
    let (mut events, mut balances, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        progress.begin("events into PostgreSQL");
        events.push(ours::events_a_second(plan, &node, &databases, filled_node::TRANSFERS).await?);
        progress.step();
        progress.begin("a bare client");
        bare.push(bare::events_a_second(plan, &node).await?);
        progress.step();
        progress.begin("events and balances into PostgreSQL");
        balances.push(ours::events_a_second(plan, &node, &databases, filled_node::BALANCES).await?);
        progress.step();
    }
    let figure = |what: &str, rounds: &[f64]| {
        let metric = format!("backfill of {} events, {what}", plan.events());
        Figure::new(BENCH, metric, "1/s", median(rounds))
            .versus("a bare client that only fetches and decodes", median(&bare))
            .target(Target::RatioAtLeast(BARE_RATIO_MIN))
    };
    Ok(vec![figure("decoded", &events), figure("decoded, with balances", &balances)])
}

fn rate(plan: Plan, start: Instant) -> f64 {
    plan.events() as f64 / start.elapsed().as_secs_f64()
}
