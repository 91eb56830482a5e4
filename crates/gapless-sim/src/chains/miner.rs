//! Who makes blocks, and branches of them.

use std::time::Duration;

use gapless_proto::{BlockHash, BlockRef, ChainId};

use super::contracts::{Deed, HOLDERS, MARKS, Transaction};
use super::coverage::{ChainCoverage, ChainLandmark};
use super::reality::Reality;
use crate::dice::Dice;

/// The makers of one chain's blocks.
#[derive(Debug)]
pub(super) struct Miner {
    pub(super) reality: Reality,
    dice: Dice,
    style: Style,
    transactions: u64,
    /// The highest block there ever was.
    peak: u64,
}

/// How a chain's blocks look.
#[derive(Debug, Clone, Copy)]
struct Style {
    transactions_max: usize,
    leaves_heights_out: bool,
    /// Whether anybody sets marks; otherwise that topic is quiet.
    has_marks: bool,
    /// Where the logs of a block begin to be numbered.
    first_log: u32,
}

/// How deep a reorg may be that is no deep one, counted from the highest block there ever was.
const DEPTH_MAX: u64 = 5;

impl Miner {
    pub(super) fn new(chain: ChainId, mut dice: Dice) -> Self {
        let style = Style {
            transactions_max: 1 + dice.below(4),
            leaves_heights_out: dice.below(4) == 0,
            has_marks: dice.coin(),
            first_log: if dice.below(4) == 0 { 12_000 } else { 0 },
        };
        Self { reality: Reality::new(chain), dice, style, transactions: 0, peak: 0 }
    }

    /// Mines a few blocks on the head.
    pub(super) fn mine(&mut self, blocks: usize, coverage: &mut ChainCoverage) {
        for _ in 0..blocks {
            let transactions = self.some_transactions();
            let tip = self.mine_on(self.reality.head().hash, transactions, coverage);
            self.make_head(tip);
        }
    }

    /// Mines as many blocks that all which anybody has been told of is confirmed, the last with an event.
    pub(super) fn settle(&mut self, coverage: &mut ChainCoverage) {
        let lacking = self.peak - self.reality.head().number.get();
        self.mine(usize::try_from(lacking + DEPTH_MAX).expect("it is small"), coverage);
        let transaction = self.transaction(Deed::Mark { key: 0, value: 1 });
        let tip = self.mine_on(self.reality.head().hash, vec![transaction], coverage);
        self.make_head(tip);
    }

    /// Leaves some blocks for a branch that is as long or longer.
    pub(super) fn reorg(&mut self, coverage: &mut ChainCoverage) {
        let Some((ancestor, depth)) = self.some_ancestor() else { return };
        let longer = self.dice.below(3);
        self.fork(ancestor, depth + longer, coverage);
        coverage.note(ChainLandmark::Reorg);
    }

    /// Leaves some blocks for a branch that is shorter.
    pub(super) fn reorg_to_shorter(&mut self, coverage: &mut ChainCoverage) {
        let Some((ancestor, depth)) = self.some_ancestor().filter(|(_, depth)| *depth > 1) else { return };
        let blocks = 1 + self.dice.below(depth - 1);
        self.fork(ancestor, blocks, coverage);
        coverage.note(ChainLandmark::ReorgToShorter);
    }

    /// Leaves the head for a sibling.
    pub(super) fn swap_sibling(&mut self, coverage: &mut ChainCoverage) {
        let Some(parent) = self.parent_of_head() else { return };
        self.fork(parent, 1, coverage);
        coverage.note(ChainLandmark::Sibling);
    }

    /// Takes back some blocks, and has none in their place yet.
    pub(super) fn roll_back(&mut self, coverage: &mut ChainCoverage) {
        let Some((ancestor, _)) = self.some_ancestor() else { return };
        self.make_head(ancestor.hash);
        coverage.note(ChainLandmark::Rollback);
    }

    /// Comes back to a branch that it has left.
    pub(super) fn come_back(&mut self, coverage: &mut ChainCoverage) {
        let lowest = self.peak.saturating_sub(DEPTH_MAX);
        let mut tips = self.reality.orphan_tips();
        tips.retain(|tip| {
            let fork = self.reality.fork_point(tip.hash, self.reality.head().hash);
            fork.is_some_and(|fork| fork.number.get() >= lowest)
        });
        let Some(tip) = self.dice.pick(&tips) else { return };
        let more = self.dice.below(2);
        self.fork(tip, more, coverage);
        coverage.note(ChainLandmark::ThereAndBack);
    }

    /// Leaves empty blocks for empty ones.
    pub(super) fn reorg_empty(&mut self, coverage: &mut ChainCoverage) {
        let base = self.reality.head();
        let blocks = 1 + self.dice.below(3);
        let mut tip = base.hash;
        for _ in 0..blocks {
            tip = self.mine_on(tip, Vec::new(), coverage);
        }
        self.make_head(tip);
    }

    /// What [`Self::reorg_empty`] has begun goes over to another branch.
    pub(super) fn end_empty(&mut self, coverage: &mut ChainCoverage) {
        let head = self.reality.head();
        let is_empty = |at: &BlockRef| self.reality.block(at.hash).is_some_and(|block| block.logs.is_empty());
        let Some(parent) = Some(head).filter(is_empty).and_then(|_| self.parent_of_head()) else { return };
        let mut tip = parent.hash;
        for _ in 0..=self.dice.below(2) {
            tip = self.mine_on(tip, Vec::new(), coverage);
        }
        self.make_head(tip);
        coverage.note(ChainLandmark::ReorgOfEmptyBlocks);
    }

    /// The transactions of the head are mined again one block later.
    pub(super) fn mine_again_later(&mut self, coverage: &mut ChainCoverage) {
        let (Some(parent), Some(transactions)) = (self.parent_of_head(), self.head_transactions()) else {
            return;
        };
        let between = self.mine_on(parent.hash, Vec::new(), coverage);
        let tip = self.mine_on(between, transactions, coverage);
        self.make_head(tip);
        coverage.note(ChainLandmark::MinedAgainLater);
    }

    /// The transactions of the head are mined again in the same place of another block.
    pub(super) fn mine_again_in_place(&mut self, coverage: &mut ChainCoverage) {
        let (Some(parent), Some(transactions)) = (self.parent_of_head(), self.head_transactions()) else {
            return;
        };
        let gap = self.reality.head().number.get() - parent.number.get() - 1;
        let tip = self.reality.mine_on(parent.hash, gap, transactions, self.style.first_log);
        self.make_head(tip);
        coverage.note(ChainLandmark::MinedAgainInPlace);
    }

    /// Leaves more blocks than can be taken back.
    pub(super) fn reorg_deep(&mut self, depth: u64, coverage: &mut ChainCoverage) {
        let Some(number) = self.reality.head().number.get().checked_sub(depth) else { return };
        let ancestor = self.reality.canonical_at(number);
        self.fork(ancestor, usize::try_from(depth).expect("it is small") + 1, coverage);
        coverage.note(ChainLandmark::DeepReorg);
    }

    /// How long two reorgs are apart that come at once.
    pub(super) fn moment(&mut self) -> Duration {
        Duration::from_millis(u64::try_from(self.dice.below(50)).expect("it is small"))
    }

    fn fork(&mut self, ancestor: BlockRef, blocks: usize, coverage: &mut ChainCoverage) {
        let mut tip = ancestor.hash;
        for _ in 0..blocks {
            let transactions = self.some_transactions();
            tip = self.mine_on(tip, transactions, coverage);
        }
        self.make_head(tip);
    }

    /// A block some way below the head, and how many blocks are above it.
    fn some_ancestor(&mut self) -> Option<(BlockRef, usize)> {
        let lowest = self.peak.saturating_sub(DEPTH_MAX);
        let head = self.reality.head().hash;
        let below = self.reality.branch(head).skip(1).map(|block| block.header.at);
        let below: Vec<_> = below.take_while(|at| at.number.get() >= lowest).collect();
        let depth = 1 + self.dice.below(below.len().max(1));
        below.get(depth - 1).map(|ancestor| (*ancestor, depth))
    }

    fn parent_of_head(&self) -> Option<BlockRef> {
        let lowest = self.peak.saturating_sub(DEPTH_MAX);
        let parent = self.reality.branch(self.reality.head().hash).nth(1)?.header.at;
        (parent.number.get() >= lowest).then_some(parent)
    }

    fn head_transactions(&self) -> Option<Vec<Transaction>> {
        let head = self.reality.block(self.reality.head().hash)?;
        (!head.events.is_empty()).then(|| head.transactions.clone())
    }

    fn mine_on(
        &mut self,
        parent: BlockHash,
        transactions: Vec<Transaction>,
        coverage: &mut ChainCoverage,
    ) -> BlockHash {
        let gap = match self.style.leaves_heights_out && self.dice.below(5) == 0 {
            true => 1,
            false => 0,
        };
        coverage.add(ChainLandmark::HeightsLeftOut, gap);
        self.reality.mine_on(parent, gap, transactions, self.style.first_log)
    }

    fn make_head(&mut self, tip: BlockHash) {
        self.reality.make_head(tip);
        self.peak = self.peak.max(self.reality.head().number.get());
    }

    fn some_transactions(&mut self) -> Vec<Transaction> {
        let count = self.dice.below(self.style.transactions_max + 1);
        (0..count)
            .map(|_| {
                let amount = 1 + u64::try_from(self.dice.below(9)).expect("it is small");
                let deed = match self.dice.below(8) {
                    0 => Deed::Noise,
                    1 | 2 if self.style.has_marks => {
                        Deed::Mark { key: self.dice.below(MARKS), value: amount }
                    }
                    _ => Deed::Transfer {
                        from: self.dice.below(HOLDERS),
                        to: self.dice.below(HOLDERS),
                        amount,
                    },
                };
                self.transaction(deed)
            })
            .collect()
    }

    fn transaction(&mut self, deed: Deed) -> Transaction {
        self.transactions += 1;
        Transaction { number: self.transactions, deed }
    }
}
