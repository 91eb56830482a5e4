//! When a row that differs is a difference.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::Key;

/// Keys whose rows were found to differ, until it is settled what that means.
#[derive(Debug)]
pub(crate) struct Suspects {
    suspected: BTreeMap<Key, Suspect>,
    /// How long it may take until a row stands still and the copy has it.
    patience: Duration,
    /// Whether the source tells of rows only some time after they were changed, so that all of them get that time.
    tells_late: bool,
    /// When the copy's position was last seen to be another.
    moved_at: Instant,
}

#[derive(Debug)]
struct Suspect {
    since: Instant,
    /// What the source had at the first look; `None` before it.
    first: Option<Option<String>>,
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
        Self { suspected: BTreeMap::new(), patience, tells_late: false, moved_at: now }
    }

    pub(crate) fn handle_late_source(&mut self) {
        self.tells_late = true;
    }

    pub(crate) fn handle_suspects(&mut self, keys: impl IntoIterator<Item = Key>, now: Instant) {
        for key in keys {
            self.suspected.entry(key).or_insert(Suspect { since: now, first: None });
        }
    }

    pub(crate) fn handle_moved(&mut self, now: Instant) {
        self.moved_at = now;
    }

    /// Takes a look at a key, and tells what is so if that is settled.
    pub(crate) fn handle_look(&mut self, key: &Key, look: &Look<'_>, now: Instant) -> Option<Settled> {
        let suspect = self.suspected.get_mut(key)?;
        let first = suspect.first.get_or_insert_with(|| look.before.map(str::to_owned));
        let wait = Wait {
            is_over: now - suspect.since >= self.patience,
            is_in_vain: now - self.moved_at >= self.patience && !self.tells_late,
            has_changed: first.as_deref() != look.after,
        };
        let settled = settle(look, wait)?;
        if settled != Settled::Equal && self.tells_late && !wait.is_over {
            return None;
        }
        self.suspected.remove(key);
        Some(settled)
    }

    pub(crate) fn len(&self) -> usize {
        self.suspected.len()
    }

    pub(crate) fn keys(&self) -> Vec<Key> {
        self.suspected.keys().cloned().collect()
    }
}

/// How a look at a key compares with those before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Wait {
    /// Whether it has been suspected for as long as that may take.
    is_over: bool,
    /// Whether the copy hasn't moved for as long, so that nobody seems to fill it.
    is_in_vain: bool,
    /// Whether the source had something else at the first look.
    has_changed: bool,
}

/// What a look means; `None` where another one may show more.
///
/// A row that was the same at the source before and after, and of which whoever goes on from the copy's position isn't told, is in all
/// that a copy at that position should hold. So if it isn't there, nothing brings it.
fn settle(look: &Look<'_>, wait: Wait) -> Option<Settled> {
    let Look { before, copy, is_ahead, after } = *look;
    if copy == after || copy == before {
        return Some(Settled::Equal);
    }
    let difference = match (after, copy) {
        (Some(_), None) => Difference::Missing,
        (Some(_), Some(_)) => Difference::Other,
        (None, _) => Difference::Extra,
    };
    match (before == after, is_ahead) {
        (true, false) => Some(Settled::Differs(difference)),
        (true, true) if wait.is_in_vain => Some(Settled::Behind(difference)),
        (true, true) if wait.is_over && !wait.has_changed => Some(Settled::Behind(difference)),
        (true | false, _) => wait.is_over.then_some(Settled::Changing),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);
    const OVER: Wait = Wait { is_over: true, is_in_vain: false, has_changed: false };

    #[test]
    fn a_row_that_nobody_will_bring_differs() {
        for (source, copy, difference) in [
            (Some("1"), None, Difference::Missing),
            (None, Some("1"), Difference::Extra),
            (Some("1"), Some("2"), Difference::Other),
        ] {
            let look = Look { before: source, copy, is_ahead: false, after: source };
            assert_eq!(settle(&look, Wait::default()), Some(Settled::Differs(difference)));
            let ahead = Look { is_ahead: true, ..look };
            assert_eq!(settle(&ahead, Wait::default()), None, "the copy is behind");
            for wait in [OVER, Wait { is_in_vain: true, ..Wait::default() }] {
                assert_eq!(settle(&ahead, wait), Some(Settled::Behind(difference)));
            }
        }
    }

    #[test]
    fn a_row_that_changes_is_looked_at_again_and_never_called_equal() {
        let look = Look { before: Some("1"), copy: Some("0"), is_ahead: false, after: Some("2") };
        assert_eq!(settle(&look, Wait { is_in_vain: true, ..Wait::default() }), None);
        assert_eq!(settle(&look, OVER), Some(Settled::Changing));
        let between_changes = Look { after: Some("1"), is_ahead: true, ..look };
        assert_eq!(settle(&between_changes, Wait { has_changed: true, ..OVER }), Some(Settled::Changing));
    }

    #[test]
    fn a_copy_that_has_what_the_source_had_at_either_look_is_equal() {
        for copy in ["1", "2"] {
            let look = Look { before: Some("1"), copy: Some(copy), is_ahead: true, after: Some("2") };
            assert_eq!(settle(&look, Wait::default()), Some(Settled::Equal));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_that_tells_late_gets_its_time_with_each_row() {
        let begin = Instant::now();
        let mut suspects = Suspects::new(PATIENCE, begin);
        suspects.handle_late_source();
        let key = vec!["1".to_owned()];
        suspects.handle_suspects([key.clone()], begin + PATIENCE);
        let look = Look { before: Some("1"), copy: None, is_ahead: false, after: Some("1") };
        assert_eq!(suspects.handle_look(&key, &look, begin + PATIENCE), None);
        let differs = Some(Settled::Differs(Difference::Missing));
        assert_eq!(suspects.handle_look(&key, &look, begin + PATIENCE * 2), differs);
    }

    #[tokio::test(start_paused = true)]
    async fn patience_is_had_once_with_a_copy_that_nobody_fills_and_with_each_row_otherwise() {
        let begin = Instant::now();
        let mut suspects = Suspects::new(PATIENCE, begin);
        let [first, second] = [vec!["1".to_owned()], vec!["2".to_owned()]];
        let behind = Look { before: Some("1"), copy: None, is_ahead: true, after: Some("1") };
        suspects.handle_suspects([first.clone()], begin);
        assert_eq!(suspects.handle_look(&first, &behind, begin), None);
        let later = begin + PATIENCE;
        assert_eq!(suspects.handle_look(&first, &behind, later), Some(Settled::Behind(Difference::Missing)));
        suspects.handle_suspects([second.clone()], later);
        suspects.handle_moved(later);
        assert_eq!(suspects.handle_look(&second, &behind, later), None);
        assert_eq!(
            suspects.handle_look(&second, &behind, later + PATIENCE),
            Some(Settled::Behind(Difference::Missing))
        );
        assert_eq!(suspects.len(), 0);
    }
}
