//! A stretch of a feed, as one reader may see it.

use serde::{Deserialize, Serialize};

use crate::{Entry, Epoch, Seq};

/// What the store answers to "what comes after this cursor?": all of it from one moment.
///
/// The page covers every seq in `after + 1 ..= next_after`: what isn't among `events` there, the reader may not see or is
/// trimmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// The life of the log that the page is from.
    pub epoch: Epoch,
    /// The oldest seq that is kept; `head + 1` when all is trimmed.
    pub min_seq: Seq,
    /// The newest seq of the feed, visible to the reader or not.
    pub head: Seq,
    /// Where the next page starts: the last seq returned while `has_more`, else `max(after, head)`.
    pub next_after: Seq,
    /// Whether the reader may see more entries beyond `next_after`, as of this page.
    pub has_more: bool,
    /// Whether entries after the cursor are gone that the reader may have seen; then also `after + 1 < min_seq`. Someone who came
    /// later than what was trimmed misses nothing, and isn't told that they do.
    pub trimmed: bool,
    /// The visible entries in seq order; 200 at most.
    pub events: Vec<Entry>,
}
