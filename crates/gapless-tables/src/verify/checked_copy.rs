//! A copy as it is compared and mended.

use std::future::Future;
use std::pin::Pin;

use async_trait::async_trait;

use crate::replicate::{Fault, Position, Records, SinkError, Values};
use crate::wire::{KeyRange, RangeDigest, RowDigest, TableDescription};

/// The copy of one table, which a replicator may be filling meanwhile.
///
/// Digests are as the source's, and so are the texts of keys.
#[async_trait]
pub trait CheckedCopy: Send {
    /// How it wants the values of rows that mend it.
    fn values(&self) -> Values;

    /// Whether it has keys in the order in which every source has them. Where it hasn't, nothing is wrong, but ranges of the source's keys aren't
    /// ranges of its own.
    fn is_in_order(&self, description: &TableDescription) -> bool;

    /// Makes sure that it is a copy of the described table. To be called first, after each failure of another method, and when it has to be
    /// known whether the copy is still there.
    async fn open(&mut self, description: &TableDescription) -> Result<(), SinkError>;

    /// The sum of a range.
    async fn digest(&mut self, range: &KeyRange) -> Result<RangeDigest, SinkError>;

    /// So many rows from the beginning of a range, in the order that it has them.
    async fn row_digests(&mut self, range: &KeyRange, rows: u32) -> Result<Vec<RowDigest>, SinkError>;

    /// How far it is, and the rows that have some keys at that very position.
    async fn look(&mut self, keys: &[Vec<String>]) -> Result<(Position, Vec<RowDigest>), SinkError>;

    /// Writes rows that are fetched while nobody else can write, so that they are as new as anything that was written before; and makes whoever
    /// fills the copy ask again for a page that may be older. All of it or nothing. Returns how many.
    async fn mend(&mut self, fetch: Fetch<'_>) -> Result<usize, Fault>;
}

/// Fetches rows.
pub type Fetch<'a> = Pin<Box<dyn Future<Output = Result<Records, Fault>> + Send + 'a>>;
