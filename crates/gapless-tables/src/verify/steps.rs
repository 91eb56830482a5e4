//! What each step of a comparison asks of both sides.

use tokio::time::Instant;

use super::Key;
use super::by_keys::{ByKeys, KeyStep};
use super::keys::{LOOKED_UP, by_key, parts};
use super::listing::Listing;
use super::run::Verifier;
use super::walk::{LISTED_ROWS, Step, Walk};
use crate::replicate::{Fault, SourceClient};
use crate::source::PAGE_ROWS_MAX;
use crate::wire::{KeyRange, RangeDigest, RowDigest};

impl Verifier {
    /// Takes a step where ranges are the same on both sides. Returns whether there is none.
    pub(super) async fn walk(&mut self, walk: &mut Walk) -> Result<bool, Fault> {
        match walk.next() {
            None => return Ok(true),
            Some(Step::Sum(range, rows)) => {
                let begun_at = Instant::now();
                let source = match self.fetched.take().filter(|(fetched, _)| *fetched == range) {
                    Some((_, source)) => source,
                    None => self.source.digest(&range, Some(rows)).await?,
                };
                let next = source.up_to.clone().map(|up_to| range.clone().behind(up_to));
                let stretch = KeyRange { up_to: source.up_to.clone().or(range.up_to), after: range.after };
                // The source adds the next stretch up while the copy does this one.
                let (copy, fetched) =
                    tokio::join!(self.copy.digest(&stretch), fetch(&self.source, next, rows));
                let copy = copy?;
                self.fetched = fetched;
                if walk.handle_sums(&source, &copy, begun_at.elapsed()) {
                    self.verdict.rows += u64::try_from(source.rows).unwrap_or_default();
                }
            }
            Some(Step::List(range)) => {
                let copied = self.copy.row_digests(&range, LISTED_ROWS * 2).await?;
                let copied_to = last_if_full(&copied, LISTED_ROWS * 2);
                let range = KeyRange { up_to: copied_to.clone().or(range.up_to), after: range.after };
                let rows = self.source.row_digests(&range, PAGE_ROWS_MAX).await?;
                let up_to = last_if_full(&rows, PAGE_ROWS_MAX).or(copied_to);
                self.verdict.rows += rows.len() as u64;
                let mut listing = Listing::new(rows);
                let now = Instant::now();
                self.suspects.handle_suspects(listing.handle_copy(copied), now);
                self.suspects.handle_suspects(listing.finish(), now);
                walk.handle_listed(up_to);
            }
        }
        Ok(false)
    }

    /// Takes a step where they aren't. Returns whether there is none.
    pub(super) async fn look_up(&mut self, by_keys: &mut ByKeys) -> Result<bool, Fault> {
        match by_keys.next() {
            None => return Ok(true),
            Some(KeyStep::Add(range, rows)) => {
                let source = self.source.digest(&range, Some(rows)).await?;
                self.verdict.rows += u64::try_from(source.rows).unwrap_or_default();
                by_keys.handle_added(&source);
            }
            Some(KeyStep::Total) => by_keys.handle_total(&self.copy.digest(&KeyRange::default()).await?),
            Some(KeyStep::SourceKeys(range)) => {
                let rows = self.source.row_digests(&range, LOOKED_UP).await?;
                let last = last_if_full(&rows, LOOKED_UP);
                let keys: Vec<Key> = rows.iter().map(|row| row.key.clone()).collect();
                let (_, copied) = self.copy.look(&keys).await?;
                let mut listing = Listing::new(rows);
                let now = Instant::now();
                self.suspects.handle_suspects(listing.handle_copy(copied), now);
                self.suspects.handle_suspects(listing.finish(), now);
                by_keys.handle_keys(last);
            }
            Some(KeyStep::CopyKeys(range)) => {
                let rows = self.copy.row_digests(&range, LOOKED_UP).await?;
                let last = last_if_full(&rows, LOOKED_UP);
                let keys: Vec<Key> = rows.into_iter().map(|row| row.key).collect();
                let mut extra = Vec::new();
                for keys in parts(&keys) {
                    let found = by_key(self.source.key_digests(keys).await?);
                    extra.extend(keys.iter().filter(|key| !found.contains_key(*key)).cloned());
                }
                self.suspects.handle_suspects(extra, Instant::now());
                by_keys.handle_keys(last);
            }
        }
        Ok(false)
    }
}

/// The sum of the beginning of a range, if there is one. Whoever needs it asks again if it isn't to be had.
async fn fetch(source: &SourceClient, range: Option<KeyRange>, rows: u32) -> Option<(KeyRange, RangeDigest)> {
    let range = range?;
    let digest = source.digest(&range, Some(rows)).await.ok()?;
    Some((range, digest))
}

/// The key of the last of some rows, if there are as many as were asked for.
fn last_if_full(rows: &[RowDigest], asked: u32) -> Option<Key> {
    rows.last().filter(|_| rows.len() >= asked as usize).map(|row| row.key.clone())
}
