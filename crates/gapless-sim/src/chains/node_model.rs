//! A node of a chain, as it answers: it lags, falls back, serves other forks, and says that there are no logs where there are some.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use gapless_chain::{Header, Heights, Log, Receipt, Trouble};
use gapless_proto::{BlockHash, BlockNumber, BlockRef};

use super::coverage::{ChainCoverage, ChainLandmark};
use super::reality::Reality;
use crate::dice::{Dice, PerMille};

/// One node, and what it takes for the chain.
#[derive(Debug)]
pub(super) struct NodeModel {
    /// The newest block of its branch.
    head: BlockHash,
    habits: Habits,
    /// Until then its head stays where it is.
    frozen_until: Option<Instant>,
    /// Until then it can't be reached.
    down_until: Option<Instant>,
}

/// How often a node does what it shouldn't.
#[derive(Debug, Clone, Copy)]
pub(super) struct Habits {
    /// It shows a head that it has passed already, for one answer.
    pub(super) falls_back: PerMille,
    /// It says that a block has no logs.
    pub(super) denies_logs: PerMille,
    /// It tells logs of another block, logs that were taken back, or the same log twice.
    pub(super) mixes_logs: PerMille,
    /// It has no receipts for a block that it has.
    pub(super) denies_receipts: PerMille,
    /// Whether it has a method for receipts at all.
    pub(super) knows_receipts: bool,
    /// It doesn't know a block that it has shown.
    pub(super) forgets_block: PerMille,
    /// It refuses, or doesn't answer.
    pub(super) fails: PerMille,
    /// Whether it knows orphans by their hashes.
    pub(super) keeps_orphans: bool,
    /// How many heights a range may have.
    pub(super) range_max: u64,
}

/// A question to a node.
#[derive(Debug, Clone)]
pub(super) enum Ask {
    Latest,
    Finalized,
    Number(BlockNumber),
    Header(BlockHash),
    Headers(Heights),
    LogsIn(Heights),
    Logs(BlockHash),
    Receipts(BlockHash),
}

/// What it answers; it fits the question.
#[derive(Debug, Clone)]
pub(super) enum Answer {
    Header(Option<Header>),
    Headers(Vec<Option<Header>>),
    Logs(Vec<Log>),
    Receipts(Option<Vec<Receipt>>),
    Failed(Trouble),
}

impl Habits {
    /// What a node does that can be trusted.
    pub(super) fn honest() -> Self {
        let never = PerMille::NEVER;
        Self {
            falls_back: never,
            denies_logs: never,
            mixes_logs: never,
            denies_receipts: never,
            knows_receipts: true,
            forgets_block: never,
            fails: never,
            keeps_orphans: true,
            range_max: 1_000,
        }
    }

    /// What a seed draws. Somebody must know receipts, or nothing settles what a bloom promises too much.
    pub(super) fn draw(dice: &mut Dice, knows_receipts: bool) -> Self {
        let mut rate = |max: usize| match dice.below(3) {
            0 => PerMille(u32::try_from(1 + dice.below(max)).expect("it is small")),
            _ => PerMille::NEVER,
        };
        Self {
            falls_back: rate(400),
            denies_logs: rate(500),
            mixes_logs: rate(300),
            denies_receipts: rate(300),
            forgets_block: rate(150),
            fails: rate(200),
            knows_receipts: knows_receipts || dice.coin(),
            keeps_orphans: dice.coin(),
            range_max: if dice.coin() {
                1_000
            } else {
                1 + u64::try_from(dice.below(4)).expect("it is small")
            },
        }
    }
}

impl NodeModel {
    pub(super) fn new(head: BlockHash, habits: Habits) -> Self {
        Self { head, habits, frozen_until: None, down_until: None }
    }

    /// Its head stays where it is for a while.
    pub(super) fn freeze(&mut self, until: Instant) {
        self.frozen_until = Some(until);
    }

    /// It takes another branch for the chain for a while.
    pub(super) fn stray(&mut self, tip: BlockHash, until: Instant) {
        self.head = tip;
        self.frozen_until = Some(until);
    }

    /// It can't be reached for a while.
    pub(super) fn go_down(&mut self, until: Instant) {
        self.down_until = Some(until);
    }

    /// From now on it can be trusted.
    pub(super) fn become_honest(&mut self) {
        (self.habits, self.frozen_until, self.down_until) = (Habits::honest(), None, None);
    }

    /// It hears of the newest block. Returns whether it tells others.
    pub(super) fn hear(&mut self, reality: &Reality, now: Instant) -> bool {
        if self.frozen_until.is_some_and(|until| now < until) {
            return false;
        }
        let head = reality.head().hash;
        std::mem::replace(&mut self.head, head) != head
    }

    pub(super) fn answer(
        &self,
        ask: &Ask,
        reality: &Reality,
        finality: u64,
        now: Instant,
        dice: &mut Dice,
        coverage: &mut ChainCoverage,
    ) -> Answer {
        let habits = self.habits;
        if self.down_until.is_some_and(|until| now < until) {
            coverage.note(ChainLandmark::NodeFailed);
            return Answer::Failed(Trouble::Passing);
        }
        if dice.chance(habits.fails) {
            coverage.note(ChainLandmark::NodeFailed);
            let wanted = Some(Duration::from_secs(2));
            return Answer::Failed(match dice.below(4) {
                0 => Trouble::Passing,
                1 => Trouble::TimedOut,
                2 => Trouble::RateLimited { retry_after: wanted },
                _ => Trouble::RateLimited { retry_after: None },
            });
        }
        match ask {
            Ask::Latest => Answer::Header(self.latest(reality, dice, coverage)),
            Ask::Finalized => {
                let height = reality.block(self.head).map_or(0, |head| head.header.at.number.get());
                let height = BlockNumber::new(height.saturating_sub(finality)).expect("chains are short");
                Answer::Header(self.at_or_below(reality, height))
            }
            Ask::Number(number) => Answer::Header(self.at(reality, *number)),
            Ask::Header(hash) => Answer::Header(self.known(reality, *hash, dice, coverage)),
            Ask::Headers(heights) => self.headers(reality, *heights),
            Ask::LogsIn(heights) => self.logs_in(reality, *heights, dice, coverage),
            Ask::Logs(hash) => match self.known(reality, *hash, dice, coverage) {
                None => Answer::Failed(Trouble::UnknownBlock),
                Some(header) => Answer::Logs(self.logs(reality, &header, dice, coverage)),
            },
            Ask::Receipts(_) if !habits.knows_receipts => Answer::Failed(Trouble::Unsupported),
            Ask::Receipts(_) if dice.chance(habits.denies_receipts) => {
                coverage.note(ChainLandmark::ReceiptsDenied);
                Answer::Receipts(None)
            }
            Ask::Receipts(hash) => match self.known(reality, *hash, dice, coverage) {
                None => Answer::Receipts(None),
                Some(header) => {
                    let logs = true_logs(reality, &header);
                    Answer::Receipts(Some(vec![Receipt { logs }]))
                }
            },
        }
    }

    fn latest(&self, reality: &Reality, dice: &mut Dice, coverage: &mut ChainCoverage) -> Option<Header> {
        let back = match dice.chance(self.habits.falls_back) {
            true => 1 + dice.below(4),
            false => 0,
        };
        let shown = reality.branch(self.head).nth(back).or_else(|| reality.block(self.head))?;
        if shown.header.at.hash != self.head {
            coverage.note(ChainLandmark::HeadFellBack);
        }
        Some(shown.header.clone())
    }

    fn at(&self, reality: &Reality, number: BlockNumber) -> Option<Header> {
        self.at_or_below(reality, number).filter(|header| header.at.number == number)
    }

    fn at_or_below(&self, reality: &Reality, number: BlockNumber) -> Option<Header> {
        let mut branch = reality.branch(self.head);
        branch.find(|block| block.header.at.number <= number).map(|block| block.header.clone())
    }

    /// A block by its hash, if the node has it.
    fn known(
        &self,
        reality: &Reality,
        hash: BlockHash,
        dice: &mut Dice,
        coverage: &mut ChainCoverage,
    ) -> Option<Header> {
        let header = &reality.block(hash)?.header;
        let is_there = self.habits.keeps_orphans || reality.is_ancestor(header.at, self.head);
        if !is_there || dice.chance(self.habits.forgets_block) {
            coverage.note(ChainLandmark::BlockUnknown);
            return None;
        }
        Some(header.clone())
    }

    fn headers(&self, reality: &Reality, heights: Heights) -> Answer {
        if heights.to.get() - heights.from.get() >= self.habits.range_max {
            return Answer::Failed(Trouble::RangeTooLarge(gapless_chain::RangeHint::default()));
        }
        let mut found: BTreeMap<BlockNumber, Header> = reality
            .branch(self.head)
            .map(|block| block.header.clone())
            .skip_while(|header| header.at.number > heights.to)
            .take_while(|header| header.at.number >= heights.from)
            .map(|header| (header.at.number, header))
            .collect();
        let numbers =
            (heights.from.get()..=heights.to.get()).filter_map(|number| BlockNumber::new(number).ok());
        Answer::Headers(numbers.map(|number| found.remove(&number)).collect())
    }

    fn logs_in(
        &self,
        reality: &Reality,
        heights: Heights,
        dice: &mut Dice,
        coverage: &mut ChainCoverage,
    ) -> Answer {
        let Answer::Headers(headers) = self.headers(reality, heights) else {
            return Answer::Failed(Trouble::RangeTooLarge(gapless_chain::RangeHint::default()));
        };
        let headers = headers.into_iter().flatten();
        Answer::Logs(headers.flat_map(|header| self.logs(reality, &header, dice, coverage)).collect())
    }

    fn logs(
        &self,
        reality: &Reality,
        header: &Header,
        dice: &mut Dice,
        coverage: &mut ChainCoverage,
    ) -> Vec<Log> {
        let mut logs = true_logs(reality, header);
        if !logs.is_empty() && dice.chance(self.habits.denies_logs) {
            coverage.note(ChainLandmark::LogsDenied);
            return Vec::new();
        }
        if dice.chance(self.habits.mixes_logs) {
            coverage.note(ChainLandmark::LogsMixed);
            mix(&mut logs, reality, header.at, dice);
        }
        logs
    }
}

fn true_logs(reality: &Reality, header: &Header) -> Vec<Log> {
    reality.block(header.at.hash).map(|block| block.logs.clone()).unwrap_or_default()
}

/// Makes of a block's logs what they are not.
fn mix(logs: &mut Vec<Log>, reality: &Reality, at: BlockRef, dice: &mut Dice) {
    match dice.below(3) {
        0 => {
            let others = reality.orphan_tips().into_iter().find(|other| *other != at);
            let other = others.and_then(|other| reality.block(other.hash));
            logs.extend(other.into_iter().flat_map(|block| block.logs.clone()));
        }
        1 => logs.iter_mut().for_each(|log| log.removed = true),
        _ => logs.extend(logs.first().cloned()),
    }
}
