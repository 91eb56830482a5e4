//! How far a copy is.

use crate::wire::PageHead;

/// How far a copy is: kept in the target, and written together with the rows that lead there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Position {
    /// The cursor up to which the copy holds everything; `None` before the first page.
    pub cursor: Option<String>,
    /// Rows that are read once more beside that.
    pub replay: Option<Replay>,
    /// Whether the first pass fills a table that nobody else has put anything into, so that no key can be there already.
    pub is_filling: bool,
    /// How often rows were repaired beside what a replicator writes. What was asked for before a repair may be older than it.
    pub repairs: i64,
}

/// Rows that are read once more from some time on. The cursor stays where it is meanwhile and goes on afterwards, so that a replay can
/// neither pass over a change nor take one back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replay {
    /// The time, as PostgreSQL reads it.
    pub since: String,
    /// How far it is; `None` before its first page.
    pub cursor: Option<String>,
}

/// A time before all others.
pub(crate) const EVER: &str = "-infinity";

impl Position {
    /// Of a table that was just made.
    pub fn of_a_new_table() -> Self {
        Self { is_filling: true, ..Self::default() }
    }

    /// The cursor to go on from.
    pub fn next_cursor(&self) -> Option<&str> {
        match &self.replay {
            Some(replay) => replay.cursor.as_deref(),
            None => self.cursor.as_deref(),
        }
    }

    /// The time to begin at, where there is no cursor yet. All rows beside a cursor of the copy's own are read as a first pass is: deletes
    /// are the matter of that cursor, and those of long ago may be purged.
    pub fn since(&self) -> Option<&str> {
        let replay = self.replay.as_ref().filter(|replay| replay.cursor.is_none())?;
        let brings_all_rows = replay.since == EVER && self.cursor.is_some();
        (!brings_all_rows).then_some(replay.since.as_str())
    }

    /// Where the copy is once it holds a page.
    pub fn after(&self, head: &PageHead) -> Self {
        let next = Some(head.next_cursor.clone());
        match &self.replay {
            Some(replay) if head.has_more => {
                let replay = Some(Replay { cursor: next, ..replay.clone() });
                Self { replay, ..self.clone() }
            }
            // A copy whose own cursor was lost goes on from its end.
            Some(_) => {
                Self { cursor: self.cursor.clone().or(next), replay: None, is_filling: false, ..*self }
            }
            None => {
                Self { cursor: next, replay: None, is_filling: self.is_filling && head.has_more, ..*self }
            }
        }
    }

    /// Whether it is the same place, and rows were repaired meanwhile.
    pub(crate) fn differs_by_repairs(&self, other: &Self) -> bool {
        self.repairs != other.repairs && *self == Self { repairs: self.repairs, ..other.clone() }
    }

    /// The time and the cursor of the replay, as they are kept.
    pub(crate) fn replay_parts(&self) -> (Option<&str>, Option<&str>) {
        let replay = self.replay.as_ref();
        (replay.map(|replay| replay.since.as_str()), replay.and_then(|replay| replay.cursor.as_deref()))
    }

    /// Whether there is more to be read at once behind a page.
    pub fn has_more_after(&self, head: &PageHead) -> bool {
        head.has_more || (self.replay.is_some() && self.cursor.is_some())
    }

    /// Begins to read rows once more from a time on, unless all of them are still to come. One that was interrupted goes on.
    pub fn replaying(&self, since: &str) -> Self {
        match &self.replay {
            Some(replay) if replay.since == since => self.clone(),
            None if self.cursor.is_none() => self.clone(),
            Some(_) | None => {
                let replay = Some(Replay { since: since.to_owned(), cursor: None });
                Self { replay, is_filling: false, ..self.clone() }
            }
        }
    }

    /// Where a copy is whose source has other columns, or others of their types: the rows it holds have other values than they should.
    pub(crate) fn reshaped(&self) -> Self {
        self.replaying(EVER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Consistency;

    #[test]
    fn the_first_pass_fills_until_nothing_more_is_there() {
        let new = Position::of_a_new_table();
        assert_eq!((new.next_cursor(), new.since()), (None, None));
        let first = new.after(&head("a", true));
        assert!(first.is_filling && first.next_cursor() == Some("a"));
        let second = first.after(&head("b", false));
        assert!(!second.is_filling && !second.after(&head("c", true)).is_filling);
    }

    // Table behaviour 11
    #[test]
    fn a_replay_leaves_the_cursor_where_it_is_and_then_goes_on_from_there() {
        let before = Position { cursor: Some("a".to_owned()), ..Position::default() };
        let begun = before.replaying("monday");
        assert_eq!((begun.next_cursor(), begun.since()), (None, Some("monday")));
        let under_way = begun.after(&head("r1", true));
        assert_eq!((under_way.next_cursor(), under_way.since()), (Some("r1"), None));
        let last = head("r2", false);
        assert!(under_way.has_more_after(&last));
        assert_eq!(under_way.after(&last), before);
    }

    #[test]
    fn an_interrupted_replay_goes_on_when_it_is_asked_for_again_and_another_begins() {
        let before = Position { cursor: Some("a".to_owned()), ..Position::default() };
        let under_way = before.replaying("monday").after(&head("r1", true));
        assert_eq!(under_way.replaying("monday"), under_way);
        assert_eq!(under_way.replaying("tuesday").since(), Some("tuesday"));
    }

    // Table behaviour 11
    #[test]
    fn a_copy_without_rows_gets_all_of_them_whatever_time_is_asked_for() {
        for new in [Position::of_a_new_table(), Position::default()] {
            assert_eq!(new.replaying("monday"), new);
        }
    }

    #[test]
    fn a_copy_whose_cursor_is_lost_goes_on_from_the_end_of_its_replay() {
        let before = Position { cursor: Some("a".to_owned()), ..Position::default() };
        let begun = Position { cursor: None, ..before.replaying("monday") };
        let last = head("r", false);
        assert!(!begun.has_more_after(&last));
        assert_eq!(begun.after(&last), Position { cursor: Some("r".to_owned()), ..Position::default() });
    }

    #[test]
    fn a_new_column_makes_all_rows_come_once_more() {
        let filling = Position::of_a_new_table().after(&head("a", true)).reshaped();
        let replay = Some(Replay { since: EVER.to_owned(), cursor: None });
        assert_eq!((&filling.replay, filling.is_filling), (&replay, false));
        assert_eq!(Position::of_a_new_table().reshaped(), Position::of_a_new_table());
    }

    #[test]
    fn all_rows_are_read_without_deletes_only_beside_a_cursor_that_brings_those() {
        let beside = Position { cursor: Some("a".to_owned()), ..Position::default() }.replaying(EVER);
        assert_eq!((beside.next_cursor(), beside.since()), (None, None));
        assert_eq!(Position { cursor: None, ..beside }.since(), Some(EVER));
    }

    fn head(next_cursor: &str, has_more: bool) -> PageHead {
        PageHead {
            records: 1,
            has_more,
            next_cursor: next_cursor.to_owned(),
            consistency: Consistency::Strict,
            lag_ms: 0,
            held_by: None,
            schema_version: "1".to_owned(),
        }
    }
}
