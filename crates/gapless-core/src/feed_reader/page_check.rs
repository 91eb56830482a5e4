//! Whether a page can be an answer at all.

use gapless_proto::{Epoch, Page, Seq};

use super::SyncRequest;

/// Why a page is refused as a whole. Only a faulty server sends such.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// It is from an older life of the log than the cursor.
    #[error("the page is from epoch {page}, but the cursor is from {asked}")]
    OldEpoch {
        /// The page's epoch.
        page: Epoch,
        /// The cursor's epoch.
        asked: Epoch,
    },
    /// The log ends before the cursor, which should have been answered with `CURSOR_AHEAD`.
    #[error("the page's head is {head}, before the cursor {after}")]
    HeadBehind {
        /// The page's head.
        head: Seq,
        /// The cursor.
        after: Seq,
    },
    /// It ends before it begins, or beyond the log's head.
    #[error("the page goes from {after} to {next_after}, but the head is {head}")]
    Range {
        /// The cursor.
        after: Seq,
        /// Where the page ends.
        next_after: Seq,
        /// The page's head.
        head: Seq,
    },
    /// It says that there is more but doesn't come nearer to it.
    #[error("the page has more but ends at the cursor {after} itself")]
    NoProgress {
        /// The cursor.
        after: Seq,
    },
    /// An entry is out of order, twice there, or outside what the page covers.
    #[error("the page holds {seq} at a wrong place")]
    Entry {
        /// The entry's seq.
        seq: Seq,
    },
}

pub(super) fn check(asked: SyncRequest, page: &Page) -> Result<(), PageError> {
    let after = asked.after;
    let (head, next_after) = (page.head, page.next_after);
    match asked.epoch {
        Some(epoch) if epoch > page.epoch => {
            return Err(PageError::OldEpoch { page: page.epoch, asked: epoch });
        }
        // Another life: the reader starts over and uses nothing of the page.
        Some(epoch) if epoch < page.epoch => return Ok(()),
        Some(_) | None => {}
    }
    if head < after {
        return Err(PageError::HeadBehind { head, after });
    }
    if next_after < after || next_after > head {
        return Err(PageError::Range { after, next_after, head });
    }
    if page.has_more && next_after == after {
        return Err(PageError::NoProgress { after });
    }

    let mut last = after;
    for entry in &page.events {
        if entry.seq <= last || entry.seq > next_after {
            return Err(PageError::Entry { seq: entry.seq });
        }
        last = entry.seq;
    }
    Ok(())
}
