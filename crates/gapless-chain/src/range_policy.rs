//! How many blocks are asked for at once.

use gapless_proto::BlockNumber;

use crate::errors::{RangeHint, Trouble};

/// Finds the size of ranges that a node answers: it falls at each refusal and rises again, up to what the node has named as its
/// most.
#[derive(Debug, Clone)]
pub struct RangePolicy {
    blocks: u64,
    blocks_max: u64,
    /// Whether a range was ever refused; before that, sizes double.
    was_refused: bool,
}

/// A range of heights, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heights {
    /// The lowest.
    pub from: BlockNumber,
    /// The highest.
    pub to: BlockNumber,
}

/// What to do about a range that got no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RangeStep {
    /// Ask for a smaller one, as the policy has it now.
    AskForLess,
    /// Not even one height is answered: ask for its block alone.
    OneByOne,
    /// It isn't about the size; the node is in trouble.
    GiveUp,
}

/// The size of the first range.
const BLOCKS_FIRST: u64 = 100;

impl RangePolicy {
    /// Never asks for more than `blocks_max` at once.
    pub fn new(blocks_max: u64) -> Self {
        let blocks_max = blocks_max.max(1);
        Self { blocks: BLOCKS_FIRST.min(blocks_max), blocks_max, was_refused: false }
    }

    /// The next range of those that lead up to a height.
    pub fn next(&self, wanted: Heights) -> Heights {
        let last = wanted.from.get().saturating_add(self.blocks - 1);
        Heights {
            from: wanted.from,
            to: BlockNumber::new(last).map_or(wanted.to, |last| last.min(wanted.to)),
        }
    }

    /// A range was answered.
    pub fn handle_answer(&mut self) {
        let step = if self.was_refused { (self.blocks / 8).max(1) } else { self.blocks };
        self.blocks = self.blocks.saturating_add(step).min(self.blocks_max);
    }

    /// A range got no answer. Says what to do about it.
    pub fn handle_trouble(&mut self, asked: Heights, trouble: Trouble) -> RangeStep {
        let hint = match trouble {
            Trouble::RangeTooLarge(hint) => hint,
            Trouble::TimedOut => RangeHint::default(),
            // The connection may have ended because of what was asked: ask for less next time.
            Trouble::Passing => {
                self.shrink(asked, RangeHint::default());
                return RangeStep::GiveUp;
            }
            Trouble::RateLimited { .. }
            | Trouble::UnknownBlock
            | Trouble::NullRound
            | Trouble::Unsupported
            | Trouble::Untrustworthy
            | Trouble::Fatal => return RangeStep::GiveUp,
        };
        if self.shrink(asked, hint) { RangeStep::AskForLess } else { RangeStep::OneByOne }
    }

    /// A range was too large. Returns whether a smaller one can be asked for.
    ///
    /// What the node suggests counts only as a size, since its ends may be swapped, and only if it is smaller than what was asked
    /// for, since some nodes suggest the very range that they refuse.
    fn shrink(&mut self, asked: Heights, hint: RangeHint) -> bool {
        self.was_refused = true;
        let blocks = asked.blocks();
        if blocks == 1 {
            return false;
        }
        self.blocks = hint.blocks.filter(|hint| (1..blocks).contains(hint)).unwrap_or(blocks / 2);
        true
    }
}

impl Heights {
    /// How many heights there are.
    pub fn blocks(self) -> u64 {
        self.to.get().saturating_sub(self.from.get()).saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_grow_while_they_are_answered_and_end_where_wanted() {
        let mut policy = RangePolicy::new(300);
        let sizes = |policy: &RangePolicy| policy.next(heights(0, 10_000)).blocks();
        assert_eq!(sizes(&policy), 100);
        policy.handle_answer();
        assert_eq!(sizes(&policy), 200);
        policy.handle_answer();
        assert_eq!(sizes(&policy), 300);
        assert_eq!(policy.next(heights(7, 20)), heights(7, 20));
        assert_eq!(policy.next(heights(7, 7)), heights(7, 7));
    }

    // Chain behaviour 11
    #[test]
    fn a_range_that_is_too_large_shrinks_to_what_the_node_names_or_to_half() {
        for (hint, blocks) in [(None, 50), (Some(30), 30), (Some(1), 1), (Some(100), 50), (Some(500), 50)] {
            let mut policy = RangePolicy::new(100);
            let asked = policy.next(heights(0, 10_000));
            let trouble = Trouble::RangeTooLarge(RangeHint { blocks: hint });
            assert_eq!(policy.handle_trouble(asked, trouble), RangeStep::AskForLess);
            assert_eq!(policy.next(heights(0, 10_000)).blocks(), blocks, "{hint:?}");
        }
    }

    #[test]
    fn after_a_refusal_ranges_grow_in_small_steps() {
        let mut policy = RangePolicy::new(100);
        policy.handle_trouble(heights(0, 99), Trouble::RangeTooLarge(RangeHint { blocks: Some(40) }));
        policy.handle_answer();
        assert_eq!(policy.next(heights(0, 10_000)).blocks(), 45);
    }

    // Chain behaviour 11
    #[test]
    fn a_single_block_can_not_shrink() {
        let mut policy = RangePolicy::new(100);
        assert_eq!(policy.handle_trouble(heights(5, 5), Trouble::TimedOut), RangeStep::OneByOne);
        assert_eq!(RangePolicy::new(0).next(heights(5, 9)).blocks(), 1);
    }

    // Chain behaviour 11
    #[test]
    fn only_troubles_that_may_be_about_the_size_make_ranges_smaller() {
        for (trouble, step, blocks) in [
            (Trouble::TimedOut, RangeStep::AskForLess, 50),
            (Trouble::Passing, RangeStep::GiveUp, 50),
            (Trouble::UnknownBlock, RangeStep::GiveUp, 100),
            (Trouble::Untrustworthy, RangeStep::GiveUp, 100),
            (Trouble::RateLimited { retry_after: None }, RangeStep::GiveUp, 100),
        ] {
            let mut policy = RangePolicy::new(100);
            let asked = policy.next(heights(0, 10_000));
            assert_eq!(policy.handle_trouble(asked, trouble), step, "{trouble:?}");
            assert_eq!(policy.next(heights(0, 10_000)).blocks(), blocks, "{trouble:?}");
        }
    }

    fn heights(from: u64, to: u64) -> Heights {
        let [from, to] = [from, to].map(|number| BlockNumber::new(number).unwrap());
        Heights { from, to }
    }
}
