//! Compares a copy with its source while both are in use, and mends it.
//!
//! [`Verifier`] asks both sides for digests of the same ranges of keys and goes down into those that differ, to the rows. A row that differs
//! is only suspected: the copy may be behind, or the row may have changed between two questions. What counts in the end is decided in
//! `suspects`; which range is asked for next, in `walk` and `by_keys`.

mod ahead;
mod by_keys;
mod checked_copy;
mod keys;
mod listing;
mod looks;
mod run;
mod steps;
mod suspects;
mod verdict;
mod walk;

pub use checked_copy::{CheckedCopy, Fetch};
pub use run::{Verifier, VerifyConfig};
pub use suspects::Difference;
pub use verdict::{Finding, Verdict};

/// The texts of a key's columns.
pub(crate) type Key = Vec<String>;
