//! What a read saw of a feed, and the page that it makes.

use gapless_proto::{Entry, Epoch, Page, Seq};

/// A feed as one reader may see it after their cursor, all of it from one moment.
#[derive(Debug)]
pub struct Seen {
    /// The life of the log.
    pub epoch: Epoch,
    /// The newest seq.
    pub head: Seq,
    /// The oldest seq kept.
    pub min_seq: Seq,
    /// Where the first stretch begins that the reader may see and that reaches beyond the cursor.
    pub visible_from: Option<Seq>,
    /// The leave entry of a former member who would see what follows it if they came back (`history: all`): their cursor
    /// must not pass it, since a cursor never goes back.
    pub held_at: Option<Seq>,
    /// The visible entries after the cursor in seq order; one more than the page may have, if there are so many.
    pub entries: Vec<Entry>,
}

/// Why a cursor can't be served (G5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CursorRefusal {
    /// It is from another life of the log.
    EpochChanged {
        /// The present epoch.
        epoch: Epoch,
    },
    /// It is beyond the head.
    Ahead {
        /// The head.
        head: Seq,
    },
}

impl Seen {
    /// Makes the page of at most `limit` entries after a cursor of `epoch`, if the reader has said which.
    pub fn into_page(
        mut self,
        after: Seq,
        epoch: Option<Epoch>,
        limit: usize,
    ) -> Result<Page, CursorRefusal> {
        if epoch.is_some_and(|epoch| epoch != self.epoch) {
            return Err(CursorRefusal::EpochChanged { epoch: self.epoch });
        }
        if after > self.head {
            return Err(CursorRefusal::Ahead { head: self.head });
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
