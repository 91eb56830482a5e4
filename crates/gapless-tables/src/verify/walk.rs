//! Which range of keys is compared next.

use std::time::Duration;

use super::Key;
use crate::wire::{KeyRange, RangeDigest};

/// Goes through all keys in the source's order, stretch by stretch, and once more in shorter stretches through those that differ.
///
/// Every key of both sides is in at least one of the ranges that [`next`](Self::next) gives, whatever order the copy has. What is remembered is
/// a range for each level that it is down in, of which there are few.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Walk {
    /// What is left of all; `None` when it is through.
    whole: Option<Part>,
    /// What is left of the stretches that differ, each a part of the one before.
    within: Vec<Part>,
    /// What is compared row by row.
    listed: Option<KeyRange>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    range: KeyRange,
    /// How many rows the next stretch of it has.
    rows: u32,
    /// How many it may have.
    most: u32,
}

/// What both sides are asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// The sum of so many rows at the source from the beginning of a range, and then of the same keys in the copy.
    Sum(KeyRange, u32),
    /// The rows of a range, one by one.
    List(KeyRange),
}

/// So few rows are compared one by one.
pub(crate) const LISTED_ROWS: u32 = 500;
/// In how many parts a stretch that differs is compared again.
const PARTS: u32 = 8;
const FIRST_ROWS: u32 = 2_000;
const ROWS_MAX: u32 = 200_000;
/// A stretch that took less than this may be twice as long.
const SHORT: Duration = Duration::from_millis(500);
/// One that took more than this should be half as long.
const LONG: Duration = Duration::from_secs(2);

impl Walk {
    pub(crate) fn new() -> Self {
        let whole = Some(Part { range: KeyRange::default(), rows: FIRST_ROWS, most: ROWS_MAX });
        Self { whole, within: Vec::new(), listed: None }
    }

    /// What to ask next; `None` when it is through.
    pub(crate) fn next(&self) -> Option<Step> {
        if let Some(range) = &self.listed {
            return Some(Step::List(range.clone()));
        }
        let part = self.within.last().or(self.whole.as_ref())?;
        Some(Step::Sum(part.range.clone(), part.rows))
    }

    /// Takes the sums of a stretch, the source's with the key where it ends, and how long they took.
    /// Returns whether they are equal.
    pub(crate) fn handle_sums(&mut self, source: &RangeDigest, copy: &RangeDigest, took: Duration) -> bool {
        let is_equal = source.rows == copy.rows && source.digest == copy.digest;
        let Some(range) = self.pass(source.up_to.as_ref(), took).filter(|_| !is_equal) else {
            return is_equal;
        };
        match u32::try_from(source.rows).unwrap_or(ROWS_MAX) {
            rows if rows <= LISTED_ROWS => self.listed = Some(range),
            rows => {
                let rows = (rows / PARTS).max(LISTED_ROWS);
                self.within.push(Part { range, rows, most: rows });
            }
        }
        false
    }

    /// Takes that rows were compared one by one, up to a key if the range has more.
    pub(crate) fn handle_listed(&mut self, up_to: Option<Key>) {
        self.listed = self.listed.take().zip(up_to).map(|(range, up_to)| range.behind(up_to));
    }

    /// Takes that there was no answer, perhaps since so many rows take too long.
    pub(crate) fn handle_failure(&mut self) {
        if let Some(part) = self.within.last_mut().or(self.whole.as_mut()) {
            part.rows = (part.rows / 2).max(1);
        }
    }

    /// Leaves the beginning of what is left behind, up to a key or all of it, and returns what that was.
    fn pass(&mut self, up_to: Option<&Key>, took: Duration) -> Option<KeyRange> {
        let is_within = !self.within.is_empty();
        let mut part = if is_within { self.within.pop() } else { self.whole.take() }?;
        let Some(up_to) = up_to else { return Some(part.range) };
        let range = KeyRange { up_to: Some(up_to.clone()), ..part.range.clone() };
        part.range = part.range.behind(up_to.clone());
        part.rows = match took {
            took if took < SHORT => part.rows.saturating_mul(2).min(part.most),
            took if took > LONG => part.rows.min(LISTED_ROWS.max(part.rows / 2)),
            _ => part.rows,
        };
        if is_within {
            self.within.push(part);
        } else {
            self.whole = Some(part);
        }
        Some(range)
    }
}

#[cfg(test)]
mod tests;
