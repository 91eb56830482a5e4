//! What a comparison has come to.

use std::collections::BTreeMap;

use super::Key;
use super::suspects::{Difference, Settled};

/// What a comparison has come to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdict {
    /// How many rows of the source were compared.
    pub rows: u64,
    /// How many rows differ, however they do, those that were repaired among them.
    pub differences: BTreeMap<Difference, u64>,
    /// How many of those the copy would get by itself, if somebody went on with it.
    pub behind: u64,
    /// How many rows never stood still, so that nothing can be said about them.
    pub changing: u64,
    /// How many rows of the copy were made equal.
    pub repaired: u64,
    /// The first of them.
    pub findings: Vec<Finding>,
}

/// A row that isn't equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The texts of its key's columns.
    pub key: Vec<String>,
    /// How it differs; `None` if it never stood still.
    pub difference: Option<Difference>,
    /// Whether the copy is only behind.
    pub is_behind: bool,
}

/// How many rows are named.
const FINDINGS_MAX: usize = 20;

impl Verdict {
    /// How many rows aren't equal, or weren't before they were repaired.
    pub fn found(&self) -> u64 {
        self.differences.values().sum::<u64>() + self.changing
    }

    /// Whether each row of the copy is as at the source.
    pub fn is_equal(&self) -> bool {
        self.found() == self.repaired
    }

    /// Takes what is so about a key.
    pub(crate) fn handle_settled(&mut self, key: &Key, settled: Settled) {
        let (difference, is_behind) = match settled {
            Settled::Equal => return,
            Settled::Differs(difference) => (Some(difference), false),
            Settled::Behind(difference) => (Some(difference), true),
            Settled::Changing => (None, false),
        };
        match difference {
            Some(difference) => *self.differences.entry(difference).or_default() += 1,
            None => self.changing += 1,
        }
        self.behind += u64::from(is_behind);
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(Finding { key: key.clone(), difference, is_behind });
        }
    }
}
