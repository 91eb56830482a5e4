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
    /// The newest seq of the feed, visible to the reader or not. For a former member who would see what follows if they came
    /// back (`history: all`), their leave entry: no cursor may pass what can become visible yet.
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

impl Page {
    /// Leaves off entries at the end until the bodies have at most `bytes_max` bytes, but keeps one; the page then says that there is
    /// more.
    pub fn shorten_to(&mut self, bytes_max: usize) {
        let mut bytes = 0;
        let fitting = self.events.iter().take_while(|entry| {
            bytes += entry.body.as_str().len();
            bytes <= bytes_max
        });
        let kept = fitting.count().max(1);
        if kept < self.events.len() {
            self.events.truncate(kept);
            self.has_more = true;
            self.next_after = self.events[kept - 1].seq;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Body, Kind, Timestamp, UserId};

    #[test]
    fn a_page_that_fits_stays_as_it_is() {
        let mut shortened = page(3);
        shortened.shorten_to(30);
        assert_eq!(shortened, page(3));
    }

    #[test]
    fn a_page_that_is_too_large_ends_earlier_and_says_that_there_is_more() {
        let mut shortened = page(3);
        shortened.shorten_to(29);
        assert_eq!(shortened.events, page(3).events[..2]);
        assert_eq!((shortened.next_after, shortened.has_more), (Seq::new(2).unwrap(), true));
    }

    #[test]
    fn a_page_keeps_one_entry_however_large_so_that_its_reader_gets_on() {
        let mut shortened = page(2);
        shortened.shorten_to(1);
        assert_eq!(shortened.events, page(2).events[..1]);
    }

    /// A page of entries with bodies of ten bytes.
    fn page(entries: u64) -> Page {
        let entry = |seq| Entry {
            seq: Seq::new(seq).unwrap(),
            kind: Kind::Message,
            sender: UserId::new("alice").unwrap(),
            key: None,
            ts: Timestamp::default(),
            body: Body::from_text("1234567890".to_owned()).unwrap(),
        };
        let head = Seq::new(entries).unwrap();
        let events = (1..=entries).map(entry).collect();
        let epoch = Epoch::of_creation(Timestamp::default());
        Page { epoch, min_seq: Seq::FIRST, head, next_after: head, has_more: false, trimmed: false, events }
    }
}
