use std::collections::BTreeSet;

use proptest::prelude::*;

use self::model::{Action, CAREFUL, Care, Database, follow};
use super::*;

mod followers;
mod model;

fn action() -> impl Strategy<Value = Action> {
    let write = (any::<usize>(), 0..12_u8, prop::bool::weighted(0.3));
    prop_oneof![
        2 => Just(Action::Begin),
        4 => write.prop_map(|(transaction, key, deletes)| Action::Write { transaction, key, deletes }),
        3 => (any::<usize>(), prop::bool::weighted(0.8))
            .prop_map(|(transaction, commits)| Action::End { transaction, commits }),
        3 => (1..4_usize, 1..8_usize)
            .prop_map(|(limit, looked_at_max)| Action::Read { limit, looked_at_max }),
    ]
}

/// The same, and now and then notes of deleted rows are purged.
fn action_or_purge() -> impl Strategy<Value = Action> {
    prop_oneof![12 => action(), 1 => (0..4_usize).prop_map(|kept| Action::Purge { kept })]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn whoever_follows_holds_the_table_and_got_no_version_twice(actions in prop::collection::vec(action(), 0..120)) {
        let (database, follower) = follow(&actions, CAREFUL);
        prop_assert_eq!(follower.held(), database.live());
        let versions: BTreeSet<(u8, u32)> =
            follower.delivered.iter().map(|(key, row)| (*key, row.version)).collect();
        prop_assert_eq!(versions.len(), follower.delivered.len(), "twice: {:?}", follower.delivered);
    }

    #[test]
    fn whatever_is_purged_whoever_follows_holds_the_table_or_begins_anew(
        actions in prop::collection::vec(action_or_purge(), 0..120)
    ) {
        let (database, follower) = follow(&actions, CAREFUL);
        prop_assert_eq!(follower.held(), database.live());
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
        Action::Write { transaction: 1, key: 2, deletes: false },
        Action::End { transaction: 1, commits: true },
        Action::Read { limit: 3, looked_at_max: 100 },
        Action::Write { transaction: 0, key: 1, deletes: false },
        Action::End { transaction: 0, commits: true },
        Action::Read { limit: 3, looked_at_max: 100 },
    ];
    let (database, follower) = follow(&late, Care { looks_for_late: false, ..CAREFUL });
    assert_eq!((follower.held().len(), database.rows.len()), (1, 2));
    let (database, follower) = follow(&late, CAREFUL);
    assert_eq!(follower.held(), database.live());
}

const SOME_DELETED: [Action; 9] = [
    Action::Begin,
    Action::Write { transaction: 0, key: 1, deletes: false },
    Action::Write { transaction: 0, key: 2, deletes: false },
    Action::End { transaction: 0, commits: true },
    Action::Read { limit: 1, looked_at_max: 100 },
    Action::Begin,
    Action::Write { transaction: 0, key: 1, deletes: true },
    Action::End { transaction: 0, commits: true },
    Action::Purge { kept: 0 },
];

#[test]
fn who_does_not_mind_what_was_purged_keeps_rows_that_are_gone() {
    let (database, follower) = follow(&SOME_DELETED, Care { minds_floor: false, ..CAREFUL });
    assert_eq!((follower.held().len(), database.live().len()), (2, 1));
    let (database, follower) = follow(&SOME_DELETED, CAREFUL);
    assert_eq!((follower.held(), follower.times_expired), (database.live(), 1));
}

#[test]
fn who_has_passed_what_is_purged_goes_on_and_so_does_who_begins_later() {
    let mut actions = SOME_DELETED.to_vec();
    for _ in 0..2 {
        actions.insert(8, Action::Read { limit: 3, looked_at_max: 100 });
    }
    let (database, follower) = follow(&actions, CAREFUL);
    assert_eq!((follower.held(), follower.times_expired), (database.live(), 0));

    let at = database.floor.as_ref().unwrap().at;
    let read = |begins| database.read(&mut TableCursor::since(begins), 3, 100, CAREFUL);
    assert_eq!(read(at), None);
    assert_eq!(read(at + 1), Some(vec![]));
}

#[test]
fn exactly_as_many_rows_as_were_asked_for_leave_nothing_more() {
    let mut database = Database::new();
    database.act(&Action::Begin);
    for key in 0..4 {
        database.act(&Action::Write { transaction: 0, key, deletes: false });
    }
    database.act(&Action::End { transaction: 0, commits: true });
    let begins = [TableCursor::new(), TableCursor::since(database.rows[&0].at + 1)];
    for (mut cursor, comes) in begins.into_iter().zip([4, 0]) {
        for rows in [comes, 0] {
            let page = database.read(&mut cursor, 4, 100, CAREFUL).unwrap();
            assert_eq!((page.len(), cursor.has_more()), (rows, false));
        }
    }
}

#[test]
fn what_is_no_snapshot_is_refused() {
    for text in ["", "1:2", "1:2:3:4", "2:1:", "1:3:3", "1:3:0", "1:9:5,4", "1:9:4,4", "a:9:", "-1:9:"] {
        assert_eq!(text.parse::<Snapshot>(), Err(SnapshotError), "{text:?}");
    }
}
