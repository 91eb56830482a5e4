//! Whether the chains that this process follows keep up with their nodes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gapless_proto::{BlockNumber, ChainId};
use tokio::time;

/// Where the chains are that are followed beside a gateway, and where their nodes are. A clone is the same.
///
/// Whoever follows them tells; the gateway isn't ready while one stands still though its node moves on.
#[derive(Debug, Clone, Default)]
pub struct ChainTips(Arc<Mutex<BTreeMap<ChainId, Tip>>>);

/// How one chain is, as of what was told last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tip {
    /// It has what its node has.
    InStep,
    /// Its node has more.
    Behind {
        have: Option<BlockNumber>,
        /// Since when it has stood at that.
        since: Instant,
        /// When that was last seen.
        seen: Instant,
    },
}

impl ChainTips {
    /// A node of a chain has a block of this height, and the feed `have`.
    pub fn handle_heads(&self, chain: ChainId, head: BlockNumber, have: Option<BlockNumber>) {
        let now = time::Instant::now().into_std();
        let mut tips = self.tips();
        let tip = tips.entry(chain).or_insert(Tip::InStep);
        *tip = tip.after(head, have, now);
    }

    /// The chains whose feeds stood still for longer than that while their nodes had more.
    pub(crate) fn stalled(&self, stall_max: Duration) -> Vec<ChainId> {
        let tips = self.tips();
        let stalled = tips.iter().filter(|(_, tip)| tip.is_stalled(stall_max));
        stalled.map(|(chain, _)| *chain).collect()
    }

    fn tips(&self) -> MutexGuard<'_, BTreeMap<ChainId, Tip>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tip {
    fn after(self, head: BlockNumber, have: Option<BlockNumber>, now: Instant) -> Self {
        if have.is_some_and(|have| have >= head) {
            return Self::InStep;
        }
        match self {
            Self::Behind { have: before, since, .. } if before == have => {
                Self::Behind { have, since, seen: now }
            }
            Self::Behind { .. } | Self::InStep => Self::Behind { have, since: now, seen: now },
        }
    }

    /// A node that tells nothing any more isn't ahead any further: what it said last counts.
    fn is_stalled(&self, stall_max: Duration) -> bool {
        match self {
            Self::InStep => false,
            Self::Behind { since, seen, .. } => seen.duration_since(*since) >= stall_max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALL_MAX: Duration = Duration::from_secs(60);

    /// What the gateway thinks of a chain, given where its node and the feed were after so many seconds.
    fn is_stalled(told: &[(u64, u64, Option<u64>)]) -> bool {
        let start = time::Instant::now().into_std();
        let number = |number| BlockNumber::new(number).unwrap();
        let tip = told.iter().fold(Tip::InStep, |tip, (seconds, head, have)| {
            tip.after(number(*head), have.map(number), start + Duration::from_secs(*seconds))
        });
        tip.is_stalled(STALL_MAX)
    }

    #[test]
    fn a_feed_that_stands_still_while_its_node_has_more_has_stalled_after_a_while() {
        assert!(!is_stalled(&[(0, 10, Some(9)), (59, 12, Some(9))]));
        assert!(is_stalled(&[(0, 10, Some(9)), (59, 12, Some(9)), (60, 12, Some(9))]));
        assert!(is_stalled(&[(0, 10, None), (60, 10, None)]));
    }

    #[test]
    fn a_feed_that_moves_or_has_all_has_not() {
        assert!(!is_stalled(&[(0, 1_000, Some(9)), (50, 1_000, Some(10)), (100, 1_000, Some(11))]));
        assert!(!is_stalled(&[(0, 9, Some(9)), (3_600, 9, Some(9))]), "a quiet chain");
        assert!(!is_stalled(&[(0, 9, Some(9)), (3_600, 10, Some(9))]), "a block after a long time");
        assert!(!is_stalled(&[(0, 10, Some(9)), (70, 12, Some(9)), (80, 12, Some(12))]), "it goes on");
        assert!(!is_stalled(&[(0, 10, Some(9)), (3_600, 9, Some(9))]), "a node that fell back");
    }
}
