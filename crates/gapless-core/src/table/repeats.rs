//! Changes that come again though nothing has changed.

use std::collections::HashMap;

use sha2::{Digest as _, Sha256};

/// How many rows are remembered.
const ROWS_MAX: usize = 100_000;

/// Recognises changes that come again though nothing has changed: a *watched* table repeats whatever was written while some transaction was
/// open, again and again. What was told last of a row holds for all who follow, as long as nobody has read the table for themselves: they may
/// have seen a row become another, and it be again what it was before the next look here.
#[derive(Debug, Default)]
pub struct Repeats {
    /// How many had begun to read for themselves, and whether one was at it, when this was asked last.
    reads: (u64, bool),
    /// The digests of the rows' keys, and of what was told of them last.
    told: HashMap<[u8; 32], [u8; 32]>,
}

impl Repeats {
    /// Takes in how many have begun to read for themselves until now, and whether one is at it.
    pub fn handle_reads(&mut self, reads: (u64, bool)) {
        let (_, was_at_it) = self.reads;
        if reads != self.reads || was_at_it {
            self.told.clear();
        }
        self.reads = reads;
    }

    /// Whether a change is another one than the last of its row, which is named by a digest of its key; as far as that is remembered.
    pub fn is_new(&mut self, key: [u8; 32], record: &str) -> bool {
        if self.told.len() >= ROWS_MAX && !self.told.contains_key(&key) {
            // To tell something again does no harm.
            self.told.clear();
        }
        let digest: [u8; 32] = Sha256::digest(record).into();
        self.told.insert(key, digest) != Some(digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_counts_only_until_somebody_reads_for_themselves() {
        let mut repeats = Repeats::default();
        let mut look = |reads| {
            repeats.handle_reads(reads);
            repeats.is_new([1; 32], "a")
        };
        let looks =
            [(0, false), (0, false), (1, true), (1, true), (1, false), (1, false), (2, false), (2, false)];
        assert_eq!(looks.map(&mut look), [true, false, true, true, true, false, true, false]);
    }

    #[test]
    fn only_what_a_row_was_last_counts_as_a_repetition() {
        let mut repeats = Repeats::default();
        let told = [(1, "a"), (2, "a"), (1, "a"), (1, "b"), (1, "a"), (2, "a")];
        let is_new: Vec<bool> = told.iter().map(|(key, record)| repeats.is_new([*key; 32], record)).collect();
        assert_eq!(is_new, [true, true, false, true, true, false]);
    }
}
