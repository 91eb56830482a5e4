//! When a row that differs is a difference.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::Key;

/// Keys whose rows were found to differ, until it is settled what that means.
#[derive(Debug)]
pub(crate) struct Suspects {
    /// Since when each is suspected.
    since: BTreeMap<Key, Instant>,
    /// How long it may take until a row stands still and the copy has it.
    patience: Duration,
    /// Whether the source tells of rows only some time after they were changed, so that all of them get that time.
    tells_late: bool,
    /// When the copy's position was last seen to be another.
    moved_at: Instant,
}

/// How a row of the copy differs from its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    /// The source has the row, and the copy hasn't.
    Missing,
    /// The copy has a row that the source hasn't.
    Extra,
    /// Both have it, with other values.
    Other,
}

/// What a look at a key on both sides has shown. A row is given by its hash; `None` is that there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look<'a> {
    /// At the source, before the copy was looked at.
    pub(crate) before: Option<&'a str>,
    /// In the copy, at some position.
    pub(crate) copy: Option<&'a str>,
    /// Whether the source tells of the key to those who go on from that position.
    pub(crate) is_ahead: bool,
    /// At the source, when that was told.
    pub(crate) after: Option<&'a str>,
}

/// What is so about a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    Equal,
    /// The copy won't get the row by itself.
    Differs(Difference),
    /// The copy isn't where the source is, and doesn't get there.
    Behind(Difference),
    /// The row never stood still.
    Changing,
}

impl Suspects {
    pub(crate) fn new(patience: Duration, now: Instant) -> Self {
        Self { since: BTreeMap::new(), patience, tells_late: false, moved_at: now }
    }

    pub(crate) fn handle_late_source(&mut self) {
        self.tells_late = true;
    }

    pub(crate) fn handle_suspects(&mut self, keys: impl IntoIterator<Item = Key>, now: Instant) {
        for key in keys {
            self.since.entry(key).or_insert(now);
        }
    }

    pub(crate) fn handle_moved(&mut self, now: Instant) {
        self.moved_at = now;
    }

    /// Takes a look at a key, and tells what is so if that is settled.
    pub(crate) fn handle_look(&mut self, key: &Key, look: &Look<'_>, now: Instant) -> Option<Settled> {
        let waited = self.since.get(key).map_or(Duration::ZERO, |since| now - *since);
        let is_over = waited >= self.patience;
        let is_still = now - self.moved_at >= self.patience && !self.tells_late;
        let settled = settle(look, is_over, is_still)?;
        if settled != Settled::Equal && self.tells_late && !is_over {
            return None;
        }
        self.since.remove(key);
        Some(settled)
    }

    pub(crate) fn len(&self) -> usize {
        self.since.len()
    }

    pub(crate) fn keys(&self) -> Vec<Key> {
        self.since.keys().cloned().collect()
    }
}

/// What a look means; `None` where another one may show more.
///
/// A row that was the same at the source before and after, and of which whoever goes on from the copy's position isn't told, is in all
/// that a copy at that position should hold. So if it isn't there, nothing brings it.
fn settle(look: &Look<'_>, is_over: bool, is_still: bool) -> Option<Settled> {
    let Look { before, copy, is_ahead, after } = *look;
    let difference = match (after, copy) {
        (after, copy) if after == copy || before == copy => return Some(Settled::Equal),
        (Some(_), None) => Difference::Missing,
        (None, Some(_) | None) => Difference::Extra,
        (Some(_), Some(_)) => Difference::Other,
    };
    if before != after {
        return is_over.then_some(Settled::Changing);
    }
    if is_ahead {
        return (is_over || is_still).then_some(Settled::Behind(difference));
    }
    Some(Settled::Differs(difference))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_nobody_will_bring_differs() {
        for (source, copy, difference) in [
            (Some("1"), None, Difference::Missing),
            (None, Some("1"), Difference::Extra),
            (Some("1"), Some("2"), Difference::Other),
        ] {
            let look = Look { before: source, copy, is_ahead: false, after: source };
            assert_eq!(settle(&look, false, false), Some(Settled::Differs(difference)));
            let ahead = Look { is_ahead: true, ..look };
            assert_eq!(settle(&ahead, false, false), None, "the copy is behind");
            for (is_over, is_still) in [(true, false), (false, true)] {
                assert_eq!(settle(&ahead, is_over, is_still), Some(Settled::Behind(difference)));
            }
        }
    }

    #[test]
    fn a_row_that_changes_is_looked_at_again_and_never_called_equal() {
        let look = Look { before: Some("1"), copy: Some("0"), is_ahead: false, after: Some("2") };
        assert_eq!(settle(&look, false, true), None);
        assert_eq!(settle(&look, true, false), Some(Settled::Changing));
    }

    #[test]
    fn a_copy_that_has_what_the_source_had_at_either_look_is_equal() {
        for copy in ["1", "2"] {
            let look = Look { before: Some("1"), copy: Some(copy), is_ahead: true, after: Some("2") };
            assert_eq!(settle(&look, false, false), Some(Settled::Equal));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn patience_is_had_once_with_a_copy_that_nobody_fills_and_with_each_row_otherwise() {
        let patience = Duration::from_secs(10);
        let begin = Instant::now();
        let mut suspects = Suspects::new(patience, begin);
        let [first, second] = [vec!["1".to_owned()], vec!["2".to_owned()]];
        let behind = Look { before: Some("1"), copy: None, is_ahead: true, after: Some("1") };
        suspects.handle_suspects([first.clone()], begin);
        assert_eq!(suspects.handle_look(&first, &behind, begin), None);
        let later = begin + patience;
        assert_eq!(suspects.handle_look(&first, &behind, later), Some(Settled::Behind(Difference::Missing)));
        suspects.handle_suspects([second.clone()], later);
        suspects.handle_moved(later);
        assert_eq!(suspects.handle_look(&second, &behind, later), None);
        assert_eq!(
            suspects.handle_look(&second, &behind, later + patience),
            Some(Settled::Behind(Difference::Missing))
        );
        assert_eq!(suspects.len(), 0);
    }
}
