//! What a follower tells, as log lines and metrics.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal as _};

use gapless_chain::{Alarm, NodeState, Report};
use gapless_proto::ChainId;
use gapless_server::ChainTips;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use metrics::{counter, gauge, histogram};
use tracing::{debug, error, info, warn};

/// Writes down what the follower of one chain tells.
pub(super) struct Journal {
    chain: ChainId,
    /// For a gateway beside it.
    tips: ChainTips,
    /// How far a backfill is, where somebody looks.
    bar: Option<ProgressBar>,
    /// The nodes that have failed since they last answered all.
    failing: BTreeSet<usize>,
}

impl Journal {
    pub(super) fn new(chain: ChainId, tips: ChainTips) -> Self {
        Self { chain, tips, bar: None, failing: BTreeSet::new() }
    }

    pub(super) fn write_down(&mut self, report: Report) {
        let chain = self.chain;
        let label = || [("chain", chain.to_string())];
        match report {
            Report::Node { node, state } => self.node(node, state),
            Report::Heads { head, have, .. } => {
                self.tips.handle_heads(chain, head.number, have.map(|have| have.number));
                let have = have.map_or(0, |have| have.number.get());
                gauge!("gapless_chain_lag_blocks", &label())
                    .set(head.number.get().saturating_sub(have) as f64);
                gauge!("gapless_chain_head", &label()).set(have as f64);
            }
            Report::Backfill { from, at, to } => self.backfill(from.get(), at.get(), to.get()),
            Report::Ingested { head, blocks, events } => {
                if let Some(head) = head {
                    gauge!("gapless_chain_head", &label()).set(head.number.get() as f64);
                }
                counter!("gapless_chain_blocks_total", &label()).increment(blocks as u64);
                counter!("gapless_chain_events_total", &label()).increment(events as u64);
                debug!(%chain, blocks, events, "took blocks");
            }
            Report::Reorg { depth, head } => {
                histogram!("gapless_chain_reorg_blocks", &label()).record(depth as f64);
                let head = head.map(|head| head.to_string()).unwrap_or_default();
                info!(%chain, depth, head, "a reorg");
            }
            Report::Refetched { block, reason } => {
                counter!("gapless_chain_refetches_total", &label()).increment(1);
                warn!(%chain, %block, reason, "asked for a block's logs again");
            }
            Report::Undecodable { block, log } => {
                warn!(%chain, %block, ?log, "a log only looks like a topic's event");
            }
            Report::Store { reason } => warn!(%chain, reason, "the store takes no blocks; trying again"),
            Report::Alarm(Alarm::DeepReorg { head, floor, .. }) => {
                counter!("gapless_chain_alarms_total", &label()).increment(1);
                error!(
                    %chain, %head, %floor,
                    "a node contradicts what can't be taken back; remove that node, or begin the feed anew: POST /v1/admin/chains/{chain}/restart"
                );
            }
            Report::Alarm(Alarm::Refused { reason }) => {
                counter!("gapless_chain_alarms_total", &label()).increment(1);
                error!(%chain, reason, "a block is refused, so the feed stands still");
            }
        }
    }

    fn node(&mut self, node: usize, state: NodeState) {
        let chain = self.chain;
        let up = gauge!("gapless_chain_node_up", "chain" => chain.to_string(), "node" => node.to_string());
        match state {
            NodeState::Connected => {
                up.set(1.0);
                match self.failing.contains(&node) {
                    true => debug!(%chain, node, "connected to a node that failed before"),
                    false => info!(%chain, node, "connected to a node"),
                }
            }
            NodeState::Failed { reason, pause, failures, .. } => {
                up.set(0.0);
                self.failing.insert(node);
                match is_worth_a_warning(failures) {
                    true => {
                        warn!(%chain, node, reason, failures, "a node fails; it is asked again and again")
                    }
                    false => debug!(%chain, node, reason, failures, ?pause, "a node failed again"),
                }
            }
            NodeState::Recovered { failures } => {
                up.set(1.0);
                self.failing.remove(&node);
                info!(%chain, node, failures, "a node answers again");
            }
            NodeState::Stalled => {
                up.set(0.0);
                warn!(%chain, node, "the head of a node stands still; asking another");
            }
        }
    }

    fn backfill(&mut self, from: u64, at: u64, to: u64) {
        let chain = self.chain;
        if io::stderr().is_terminal() {
            let bar = self.bar.get_or_insert_with(|| progress_bar(chain));
            bar.set_length(to.saturating_sub(from));
            bar.set_position(at.saturating_sub(from));
            if at >= to {
                bar.finish_and_clear();
                self.bar = None;
            }
        }
        if at >= to {
            info!(%chain, from, to, "took the old blocks");
        }
    }
}

/// Whether one more failure in a row is told aloud: the first one, and then ever fewer, since pauses are alike in the end.
fn is_worth_a_warning(failures: u32) -> bool {
    failures.is_power_of_two()
}

fn progress_bar(chain: ChainId) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} blocks, {per_sec}, {eta} left");
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    bar.set_prefix(format!("chain {chain}"));
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar
}
