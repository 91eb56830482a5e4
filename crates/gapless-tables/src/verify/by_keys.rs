//! What is compared next where the copy hasn't its keys in the source's order.

use super::Key;
use crate::wire::{KeyRange, RangeDigest};

/// Adds all rows up, and if the copy's come to another sum, has the keys of each side looked up in the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ByKeys {
    stage: Stage,
    /// Behind which key it goes on; `None` at the beginning of a stage.
    after: Option<Key>,
    /// How many rows are added at once.
    stretch: u32,
    rows: i64,
    sum: i128,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Adding,
    Total,
    SourceKeys,
    CopyKeys,
    Done,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeyStep {
    /// The sum of so many rows at the source from the beginning of a range.
    Add(KeyRange, u32),
    /// The sum of all rows of the copy.
    Total,
    /// The first rows of a range at the source, and those of the copy that have their keys.
    SourceKeys(KeyRange),
    /// The first rows of a range in the copy, and those of the source that have their keys.
    CopyKeys(KeyRange),
}

const STRETCH: u32 = 50_000;

impl ByKeys {
    pub(crate) fn new() -> Self {
        Self { stage: Stage::Adding, after: None, stretch: STRETCH, rows: 0, sum: 0 }
    }

    /// What to ask next; `None` when it is through.
    pub(crate) fn next(&self) -> Option<KeyStep> {
        let range = KeyRange { after: self.after.clone(), up_to: None };
        match self.stage {
            Stage::Adding => Some(KeyStep::Add(range, self.stretch)),
            Stage::Total => Some(KeyStep::Total),
            Stage::SourceKeys => Some(KeyStep::SourceKeys(range)),
            Stage::CopyKeys => Some(KeyStep::CopyKeys(range)),
            Stage::Done => None,
        }
    }

    /// Takes the source's sum of a stretch. One that can't be read counts for nothing, so that the keys are looked up.
    pub(crate) fn handle_added(&mut self, source: &RangeDigest) {
        self.rows += source.rows;
        self.sum += source.digest.parse::<i128>().unwrap_or_default();
        self.go_on(source.up_to.clone(), Stage::Total);
    }

    /// Takes the sum of the copy.
    pub(crate) fn handle_total(&mut self, copy: &RangeDigest) {
        let is_equal = copy.rows == self.rows && copy.digest == self.sum.to_string();
        self.stage = if is_equal { Stage::Done } else { Stage::SourceKeys };
    }

    /// Takes that keys of one side were looked up in the other, up to one if there are more.
    pub(crate) fn handle_keys(&mut self, last: Option<Key>) {
        match self.stage {
            Stage::SourceKeys => self.go_on(last, Stage::CopyKeys),
            Stage::CopyKeys => self.go_on(last, Stage::Done),
            Stage::Adding | Stage::Total | Stage::Done => {}
        }
    }

    /// Takes that there was no answer, perhaps since so many rows take too long.
    pub(crate) fn handle_failure(&mut self) {
        self.stretch = (self.stretch / 2).max(1);
    }

    fn go_on(&mut self, after: Option<Key>, behind: Stage) {
        if after.is_none() {
            self.stage = behind;
        }
        self.after = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_that_is_the_same_is_enough() {
        let mut by_keys = ByKeys::new();
        by_keys.handle_added(&sum(2, "-5", Some("b")));
        let behind = KeyRange { after: Some(vec!["b".to_owned()]), up_to: None };
        assert_eq!(by_keys.next(), Some(KeyStep::Add(behind, STRETCH)));
        by_keys.handle_added(&sum(1, "7", None));
        assert_eq!(by_keys.next(), Some(KeyStep::Total));
        let mut other = by_keys.clone();
        by_keys.handle_total(&sum(3, "2", None));
        assert_eq!(by_keys.next(), None);
        other.handle_total(&sum(3, "3", None));
        assert_eq!(other.next(), Some(KeyStep::SourceKeys(KeyRange::default())));
    }

    #[test]
    fn the_keys_of_both_sides_are_looked_up() {
        let mut by_keys = ByKeys { stage: Stage::SourceKeys, ..ByKeys::new() };
        by_keys.handle_keys(Some(vec!["a".to_owned()]));
        by_keys.handle_keys(None);
        assert_eq!(by_keys.next(), Some(KeyStep::CopyKeys(KeyRange::default())));
        by_keys.handle_keys(None);
        assert_eq!(by_keys.next(), None);
    }

    fn sum(rows: i64, digest: &str, up_to: Option<&str>) -> RangeDigest {
        RangeDigest { rows, digest: digest.to_owned(), up_to: up_to.map(|key| vec![key.to_owned()]) }
    }
}
