//! A database, and whoever follows one of its tables.

use std::collections::BTreeMap;

use super::*;

/// A table as a database has it: transactions that begin, write and end, in any order.
#[derive(Default)]
pub(super) struct Database {
    clock: i64,
    next_xid: u64,
    pub(super) open: Vec<Transaction>,
    /// Key, and of the newest version that is committed: its cursor column, its transaction, and how often the row has changed. Also what
    /// is noted of deleted rows.
    pub(super) rows: BTreeMap<u8, Row>,
    pub(super) floor: Option<Floor>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) at: i64,
    xid: u64,
    pub(super) version: u32,
    pub(super) is_deleted: bool,
}

pub(super) struct Transaction {
    began: i64,
    xid: Option<u64>,
    /// The rows that it writes, and whether it deletes them.
    keys: BTreeMap<u8, bool>,
}

#[derive(Debug, Clone)]
pub(super) enum Action {
    Begin,
    Write {
        transaction: usize,
        key: u8,
        deletes: bool,
    },
    End {
        transaction: usize,
        commits: bool,
    },
    /// Of what is noted of deleted rows, only the newest so many stay.
    Purge {
        kept: usize,
    },
    /// Of the rows behind the cursor, only so many are looked at.
    Read {
        limit: usize,
        looked_at_max: usize,
    },
}

/// What a reader has of each key.
pub(super) type Held = BTreeMap<u8, Row>;
/// A row as it has become, and the cursor behind it.
pub(super) type Change = ((u8, Row), TableCursor);

/// How a source reads.
#[derive(Clone, Copy)]
pub(super) struct Care {
    pub(super) looks_for_late: bool,
    pub(super) minds_floor: bool,
}

pub(super) const CAREFUL: Care = Care { looks_for_late: true, minds_floor: true };

impl Database {
    pub(super) fn new() -> Self {
        Self { next_xid: 3, ..Self::default() }
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let mut in_flight: Vec<u64> = self.open.iter().filter_map(|open| open.xid).collect();
        in_flight.sort_unstable();
        let xmin = in_flight.first().copied().unwrap_or(self.next_xid);
        let listed: Vec<String> = in_flight.iter().map(u64::to_string).collect();
        format!("{xmin}:{}:{}", self.next_xid, listed.join(",")).parse().unwrap()
    }

    pub(super) fn act(&mut self, action: &Action) {
        self.clock += 1;
        match *action {
            Action::Begin => {
                self.open.push(Transaction { began: self.clock, xid: None, keys: BTreeMap::new() });
            }
            Action::Write { transaction, key, deletes } if !self.open.is_empty() => {
                let index = transaction % self.open.len();
                // Another transaction that has written the row would have to end first.
                if self
                    .open
                    .iter()
                    .enumerate()
                    .any(|(other, open)| other != index && open.keys.contains_key(&key))
                {
                    return;
                }
                let next = &mut self.next_xid;
                let open = &mut self.open[index];
                open.xid.get_or_insert_with(|| {
                    *next += 1;
                    *next - 1
                });
                open.keys.insert(key, deletes);
            }
            Action::End { transaction, commits } if !self.open.is_empty() => {
                let ended = self.open.swap_remove(transaction % self.open.len());
                let Some(xid) = ended.xid.filter(|_| commits) else { return };
                for (key, is_deleted) in ended.keys {
                    let before = self.rows.get(&key);
                    if is_deleted && before.is_none_or(|row| row.is_deleted) {
                        continue;
                    }
                    let version = before.map_or(1, |row| row.version + 1);
                    self.rows.insert(key, Row { at: ended.began, xid, version, is_deleted });
                }
            }
            Action::Purge { kept } => self.purge(kept),
            Action::Write { .. } | Action::End { .. } | Action::Read { .. } => {}
        }
    }

    fn purge(&mut self, kept: usize) {
        let notes = self.rows_by(|key, row| row.is_deleted.then_some((row.at, *key)));
        for (_, key, row) in &notes[..notes.len().saturating_sub(kept)] {
            self.rows.remove(key);
            let (at, last) = self.floor.as_ref().map_or((row.at, row.xid), |floor| (floor.at, floor.last));
            let floor = Floor { at: at.max(row.at), last: last.max(row.xid), ended: self.snapshot() };
            self.floor = Some(floor);
        }
    }

    /// Reads a page, as a source does; none if the cursor is too old. Who isn't careful is known to be broken.
    pub(super) fn read(
        &self,
        cursor: &mut TableCursor,
        limit: usize,
        looked_at_max: usize,
        care: Care,
    ) -> Option<Vec<(u8, Row)>> {
        let mark = Mark { snapshot: self.snapshot(), oldest_start: None };
        let page = self.page(cursor, limit, looked_at_max, care, &mark)?;
        Some(page.into_iter().map(|(change, _)| change).collect())
    }

    /// Reads a page of changes with the cursors behind them; if a pass begins with it, that is of a moment. Says whether one did.
    pub(super) fn read_up_to(
        &self,
        cursor: &mut TableCursor,
        limit: usize,
        mark: &Mark,
    ) -> (Vec<Change>, bool) {
        let has_begun = cursor.step() == TableStep::Begin;
        (self.page(cursor, limit, 100, CAREFUL, mark).unwrap_or_default(), has_begun)
    }

    fn page(
        &self,
        cursor: &mut TableCursor,
        limit: usize,
        looked_at_max: usize,
        care: Care,
        now: &Mark,
    ) -> Option<Vec<Change>> {
        let mut page = Vec::new();
        loop {
            let room = limit - page.len();
            let (mut rows, base, mark, is_looked_for) = match cursor.step() {
                TableStep::Begin => {
                    if cursor.is_through_at(now) {
                        return Some(page);
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
                    (rows, Some(base), mark, care.looks_for_late)
                }
                TableStep::Forward { base, mark, after, is_initial } => {
                    let mut rows =
                        self.rows_by(|key, row| (!is_initial || !row.is_deleted).then_some((row.at, *key)));
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
            if care.minds_floor && self.floor.as_ref().is_some_and(|floor| !cursor.has_passed(floor)) {
                return None;
            }
            if cursor.handle_rows(last, end) {
                return Some(page);
            }
        }
    }

    pub(super) fn live(&self) -> Held {
        self.rows.iter().filter(|(_, row)| !row.is_deleted).map(|(key, row)| (*key, *row)).collect()
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

/// Someone who follows a table, and begins anew when their cursor is too old.
pub(super) struct Follower {
    begins: TableCursor,
    cursor: TableCursor,
    pub(super) delivered: Vec<(u8, Row)>,
    pub(super) times_expired: usize,
}

impl Follower {
    fn new(begins: TableCursor) -> Self {
        Self { cursor: begins.clone(), begins, delivered: Vec::new(), times_expired: 0 }
    }

    fn read(&mut self, database: &Database, limit: usize, looked_at_max: usize, care: Care) {
        match database.read(&mut self.cursor, limit, looked_at_max, care) {
            Some(page) => self.delivered.extend(page),
            None => {
                let times_expired = self.times_expired + 1;
                *self = Self { times_expired, ..Self::new(self.begins.clone()) };
            }
        }
    }

    pub(super) fn held(&self) -> Held {
        let mut held: Held = self.delivered.iter().copied().collect();
        held.retain(|_, row| !row.is_deleted);
        held
    }
}

/// Reads until nothing is under way, once all transactions have ended.
pub(super) fn follow(actions: &[Action], care: Care) -> (Database, Follower) {
    let mut database = Database::new();
    let mut follower = Follower::new(TableCursor::new());
    for action in actions {
        match action {
            Action::Read { limit, looked_at_max } => follower.read(&database, *limit, *looked_at_max, care),
            action @ (Action::Begin | Action::Write { .. } | Action::End { .. } | Action::Purge { .. }) => {
                database.act(action);
            }
        }
    }
    while !database.open.is_empty() {
        database.act(&Action::End { transaction: 0, commits: true });
    }
    // One pass that may be under way, and one more.
    for _ in 0..2 {
        loop {
            follower.read(&database, 2, 3, care);
            if !follower.cursor.has_more() && follower.cursor.base().is_some() {
                break;
            }
        }
    }
    (database, follower)
}
