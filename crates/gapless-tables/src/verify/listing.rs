//! Rows of the same range on both sides, compared one by one.

use std::collections::BTreeMap;

use super::Key;
use crate::wire::RowDigest;

/// The rows of the source, less those that the copy has as well.
#[derive(Debug)]
pub(crate) struct Listing {
    left: BTreeMap<Key, String>,
}

impl Listing {
    pub(crate) fn new(source: Vec<RowDigest>) -> Self {
        Self { left: source.into_iter().map(|row| (row.key, row.digest)).collect() }
    }

    /// Takes rows of the copy, and gives the keys of those that aren't the same at the source.
    pub(crate) fn handle_copy(&mut self, rows: Vec<RowDigest>) -> Vec<Key> {
        let differs = |row: RowDigest| match self.left.remove(&row.key) {
            Some(digest) if digest == row.digest => None,
            Some(_) | None => Some(row.key),
        };
        rows.into_iter().filter_map(differs).collect()
    }

    /// The keys of the rows that the copy hasn't had.
    pub(crate) fn finish(self) -> impl Iterator<Item = Key> {
        self.left.into_keys()
    }
}
