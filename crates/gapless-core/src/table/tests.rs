use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

mod followers;

/// A table as a database has it: transactions that begin, write and end, in any order.
#[derive(Default)]
struct Database {
    clock: i64,
    next_xid: u64,
    open: Vec<Transaction>,
    /// Key, and of the newest version that is committed: its cursor column, its transaction, and how often the row has changed.
    rows: BTreeMap<u8, Row>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    at: i64,
    xid: u64,
    version: u32,
}

struct Transaction {
    began: i64,
    xid: Option<u64>,
    keys: BTreeSet<u8>,
}

#[derive(Debug, Clone)]
enum Action {
    Begin,
    Write {
        transaction: usize,
        key: u8,
    },
    End {
        transaction: usize,
        commits: bool,
    },
    /// Of the rows behind the cursor, only so many are looked at.
    Read {
        limit: usize,
        looked_at_max: usize,
    },
}

/// What a reader has of each key.
type Held = BTreeMap<u8, Row>;
/// A row as it has become, and the cursor behind it.
type Change = ((u8, Row), TableCursor);

impl Database {
    fn snapshot(&self) -> Snapshot {
        let mut in_flight: Vec<u64> = self.open.iter().filter_map(|open| open.xid).collect();
        in_flight.sort_unstable();
        let xmin = in_flight.first().copied().unwrap_or(self.next_xid);
        let listed: Vec<String> = in_flight.iter().map(u64::to_string).collect();
        format!("{xmin}:{}:{}", self.next_xid, listed.join(",")).parse().unwrap()
    }

    fn act(&mut self, action: &Action) {
        self.clock += 1;
        match *action {
            Action::Begin => {
                self.open.push(Transaction { began: self.clock, xid: None, keys: BTreeSet::new() });
            }
            Action::Write { transaction, key } if !self.open.is_empty() => {
                let index = transaction % self.open.len();
                // Another transaction that has written the row would have to end first.
                if self
                    .open
                    .iter()
                    .enumerate()
                    .any(|(other, open)| other != index && open.keys.contains(&key))
                {
                    return;
                }
                let next = &mut self.next_xid;
                let open = &mut self.open[index];
                open.xid.get_or_insert_with(|| {
                    *next += 1;
                    *next - 1
                });
                open.keys.insert(key);
            }
            Action::End { transaction, commits } if !self.open.is_empty() => {
                let ended = self.open.swap_remove(transaction % self.open.len());
                let Some(xid) = ended.xid.filter(|_| commits) else { return };
                for key in ended.keys {
                    let version = self.rows.get(&key).map_or(1, |row| row.version + 1);
                    self.rows.insert(key, Row { at: ended.began, xid, version });
                }
            }
            Action::Write { .. } | Action::End { .. } | Action::Read { .. } => {}
        }
    }

    /// Reads a page, as a source does. `sees_late` is false for the strategy that is known to be broken.
    fn read(
        &self,
        cursor: &mut TableCursor,
        limit: usize,
        looked_at_max: usize,
        sees_late: bool,
    ) -> Vec<(u8, Row)> {
        let mark = Mark { snapshot: self.snapshot(), oldest_start: None };
        let page = self.page(cursor, limit, looked_at_max, sees_late, &mark);
        page.into_iter().map(|(change, _)| change).collect()
    }

    /// Reads a page of changes with the cursors behind them; if a pass begins with it, that is of a moment. Says whether one did.
    fn read_up_to(&self, cursor: &mut TableCursor, limit: usize, mark: &Mark) -> (Vec<Change>, bool) {
        let has_begun = cursor.step() == TableStep::Begin;
        (self.page(cursor, limit, 100, true, mark), has_begun)
    }

    fn page(
        &self,
        cursor: &mut TableCursor,
        limit: usize,
        looked_at_max: usize,
        sees_late: bool,
        now: &Mark,
    ) -> Vec<Change> {
        let mut page = Vec::new();
        loop {
            let room = limit - page.len();
            let (mut rows, base, mark, is_looked_for) = match cursor.step() {
                TableStep::Begin => {
                    if cursor.is_through_at(now) {
                        return page;
                    }
                    cursor.begin(now.clone());
                    continue;
                }
                TableStep::Late { base, mark, up_to, after } => {
                    let mut rows = self.rows_by(|key, row| {
                        let is_behind = (row.at, Some(vec![*key])) <= (up_to.at, place_key(up_to));
                        is_behind.then_some((row.xid as i64, *key))
                    });
                    rows.retain(|(place, ..)| after.is_none_or(|after| is_beyond(*place, after)));
                    (rows, Some(base), mark, sees_late)
                }
                TableStep::Forward { base, mark, after, is_initial: _ } => {
                    let mut rows = self.rows_by(|key, row| Some((row.at, *key)));
                    rows.retain(|(place, ..)| after.is_none_or(|after| is_beyond(*place, after)));
                    (rows, base, mark, true)
                }
            };
            let place = |row: &((i64, u8), u8, Row)| Place { at: row.0.0, key: Some(vec![vec![row.0.1]]) };
            let fence = rows.get(looked_at_max - 1).map(place);
            rows.truncate(looked_at_max);
            let is_seen = |row: &Row| base.is_some_and(|base| base.snapshot.has_ended(row.xid));
            rows.retain(|(.., row)| is_looked_for && mark.snapshot.has_ended(row.xid) && !is_seen(row));
            let end = match (rows.len() > room, fence) {
                (true, _) => StepEnd::Full,
                (false, Some(fence)) => StepEnd::Fence(fence),
                (false, None) => StepEnd::Through,
            };
            rows.truncate(room);
            let last = rows.last().map(place);
            for row in rows {
                let mut behind = cursor.clone();
                behind.handle_rows(Some(place(&row)), StepEnd::Full);
                page.push(((row.1, row.2), behind));
            }
            if cursor.handle_rows(last, end) {
                return page;
            }
        }
    }

    fn rows_by(&self, place: impl Fn(&u8, &Row) -> Option<(i64, u8)>) -> Vec<((i64, u8), u8, Row)> {
        let mut rows: Vec<_> =
            self.rows.iter().filter_map(|(key, row)| Some((place(key, row)?, *key, *row))).collect();
        rows.sort_unstable_by_key(|(place, ..)| *place);
        rows
    }
}

fn place_key(place: &Place) -> Option<Vec<u8>> {
    place.key.as_ref().map(|key| key.concat())
}

fn is_beyond((at, key): (i64, u8), place: &Place) -> bool {
    (at, Some(vec![key])) > (place.at, place_key(place))
}

/// Reads until nothing is under way, once all transactions have ended.
fn follow(actions: &[Action], sees_late: bool) -> (Database, Held, Vec<(u8, Row)>) {
    let (mut database, mut cursor) = (Database { next_xid: 3, ..Database::default() }, TableCursor::new());
    let mut delivered = Vec::new();
    for action in actions {
        match action {
            Action::Read { limit, looked_at_max } => {
                delivered.extend(database.read(&mut cursor, *limit, *looked_at_max, sees_late));
            }
            action @ (Action::Begin | Action::Write { .. } | Action::End { .. }) => database.act(action),
        }
    }
    while !database.open.is_empty() {
        database.act(&Action::End { transaction: 0, commits: true });
    }
    // One pass that may be under way, and one more.
    for _ in 0..2 {
        loop {
            delivered.extend(database.read(&mut cursor, 2, 3, sees_late));
            if !cursor.has_more() {
                break;
            }
        }
    }
    (database, delivered.iter().copied().collect(), delivered)
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        2 => Just(Action::Begin),
        4 => (any::<usize>(), 0..12_u8).prop_map(|(transaction, key)| Action::Write { transaction, key }),
        3 => (any::<usize>(), prop::bool::weighted(0.8))
            .prop_map(|(transaction, commits)| Action::End { transaction, commits }),
        3 => (1..4_usize, 1..8_usize)
            .prop_map(|(limit, looked_at_max)| Action::Read { limit, looked_at_max }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn whoever_follows_holds_the_table_and_got_no_version_twice(actions in prop::collection::vec(action(), 0..120)) {
        let (database, held, delivered) = follow(&actions, true);
        prop_assert_eq!(&held, &database.rows);
        let versions: BTreeSet<(u8, u32)> = delivered.iter().map(|(key, row)| (*key, row.version)).collect();
        prop_assert_eq!(versions.len(), delivered.len(), "twice: {:?}", delivered);
    }

    #[test]
    fn a_snapshot_is_read_back_as_it_was_written(
        xids in prop::collection::btree_set(10..40_u64, 0..20), xid in 0..60_u64, listed_max in 0..25_usize,
    ) {
        let listed: Vec<String> = xids.iter().map(u64::to_string).collect();
        let text = format!("10:40:{}", listed.join(","));
        let snapshot: Snapshot = text.parse().unwrap();
        prop_assert_eq!(snapshot.to_string(), text);
        prop_assert_eq!(snapshot.has_ended(xid), xid < 10 || (xid < 40 && !xids.contains(&xid)));
        let capped = snapshot.clone().capped(listed_max, None);
        prop_assert!(!capped.has_ended(xid) || snapshot.has_ended(xid));
        prop_assert!(capped.to_string().parse::<Snapshot>().is_ok());
    }

    #[test]
    fn a_bounded_snapshot_never_goes_back(
        before in prop::collection::btree_set(10..40_u64, 0..30), ended in prop::collection::btree_set(10..40_u64, 0..30),
        since in prop::collection::btree_set(40..70_u64, 0..30), listed_max in 0..8_usize, xid in 0..80_u64,
    ) {
        let snapshot = |xmax: u64, open: Vec<&u64>| {
            let listed: Vec<String> = open.iter().map(ToString::to_string).collect();
            format!("10:{xmax}:{}", listed.join(",")).parse::<Snapshot>().unwrap()
        };
        let base = snapshot(40, before.iter().collect()).capped(listed_max, None);
        let now = snapshot(70, before.difference(&ended).chain(&since).collect());
        let capped = now.clone().capped(listed_max, Some(&base));
        prop_assert!(!base.has_ended(xid) || capped.has_ended(xid));
        let is_new = capped.has_ended(xid) && !base.has_ended(xid);
        prop_assert_eq!(is_new, capped.ended_since(&base).contains(&xid) || (xid >= base.xmax() && capped.has_ended(xid)));
        prop_assert!(!capped.has_ended(xid) || now.has_ended(xid));
        prop_assert!(capped.to_string().split(',').count() <= listed_max.max(1));
    }
}

#[test]
fn without_looking_for_late_rows_some_are_lost() {
    let late = [
        Action::Begin,
        Action::Begin,
        Action::Write { transaction: 1, key: 2 },
        Action::End { transaction: 1, commits: true },
        Action::Read { limit: 3, looked_at_max: 100 },
        Action::Write { transaction: 0, key: 1 },
        Action::End { transaction: 0, commits: true },
        Action::Read { limit: 3, looked_at_max: 100 },
    ];
    let (database, held, _) = follow(&late, false);
    assert_eq!((held.len(), database.rows.len()), (1, 2));
    let (database, held, _) = follow(&late, true);
    assert_eq!(held, database.rows);
}

#[test]
fn exactly_as_many_rows_as_were_asked_for_leave_nothing_more() {
    let mut database = Database { next_xid: 3, ..Database::default() };
    database.act(&Action::Begin);
    for key in 0..4 {
        database.act(&Action::Write { transaction: 0, key });
    }
    database.act(&Action::End { transaction: 0, commits: true });
    let mut cursor = TableCursor::new();
    assert_eq!((database.read(&mut cursor, 4, 100, true).len(), cursor.has_more()), (4, false));
    assert_eq!((database.read(&mut cursor, 4, 100, true).len(), cursor.has_more()), (0, false));
    let mut since = TableCursor::since(database.rows[&0].at + 1);
    assert_eq!((database.read(&mut since, 4, 100, true).len(), since.has_more()), (0, false));
}

#[test]
fn what_is_no_snapshot_is_refused() {
    for text in ["", "1:2", "1:2:3:4", "2:1:", "1:3:3", "1:3:0", "1:9:5,4", "1:9:4,4", "a:9:", "-1:9:"] {
        assert_eq!(text.parse::<Snapshot>(), Err(SnapshotError), "{text:?}");
    }
}
