//! What a statement saw of a feed, and the page that it makes.

use gapless_proto::{Entry, Epoch, Page, Seq};

use crate::{PageError, PageRequest};

/// A feed as one reader may see it after their cursor, all of it from one moment.
pub(crate) struct Seen {
    pub(crate) epoch: Epoch,
    pub(crate) head: Seq,
    pub(crate) min_seq: Seq,
    /// Where the first stretch begins that the reader may see and that reaches beyond the cursor.
    pub(crate) visible_from: Option<Seq>,
    /// The leave entry of a former member who would see what follows it if they came back (`history: all`): their cursor
    /// must not pass it, since a cursor never goes back.
    pub(crate) held_at: Option<Seq>,
    /// In seq order; one more than the page may have, if there are so many.
    pub(crate) entries: Vec<Entry>,
}

impl Seen {
    /// Makes the page of at most `limit` entries, or names why the cursor can't be served.
    pub(crate) fn into_page(mut self, request: &PageRequest, limit: usize) -> Result<Page, PageError> {
        let after = request.after;
        if request.epoch.is_some_and(|epoch| epoch != self.epoch) {
            return Err(PageError::EpochChanged { epoch: self.epoch });
        }
        if after > self.head {
            return Err(PageError::CursorAhead { head: self.head });
        }
        let head = self.held_at.map_or(self.head, |held_at| held_at.max(after).min(self.head));
        let has_more = self.entries.len() > limit;
        self.entries.truncate(limit);
        let next_after = match self.entries.last() {
            Some(last) if has_more => last.seq,
            Some(_) | None => head,
        };
        let is_seen_trimmed = self.visible_from.is_some_and(|from| from < self.min_seq);
        Ok(Page {
            epoch: self.epoch,
            min_seq: self.min_seq,
            head,
            next_after,
            has_more,
            trimmed: after.next() < self.min_seq && is_seen_trimmed,
            events: self.entries,
        })
    }
}
