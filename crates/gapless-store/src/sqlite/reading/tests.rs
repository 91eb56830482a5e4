use std::path::Path;

use rusqlite::StatementStatus;

use super::*;
use crate::sqlite::file;

/// A log in which alice says something `rounds` times, bob being there for the odd rounds only, and each round
/// has `entries_each` entries.
fn log_of(rounds: u64, entries_each: u64) -> (tempfile::TempDir, Connection) {
    let folder = tempfile::tempdir().unwrap();
    let connection = open(&folder.path().join("gapless.db"));
    let head = rounds * entries_each;
    connection
        .execute(
            "INSERT INTO feed VALUES ('chat', 'conversation', 1, ?1, 1, 'from_join', 'alice', 1, 0)",
            [integer(head)],
        )
        .unwrap();
    connection
        .execute(
            "WITH RECURSIVE seqs (seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM seqs WHERE seq < ?1)
             INSERT INTO entry SELECT 'chat', seq, 'message', 'alice', 'k' || seq, 0, '\"hi\"' FROM seqs",
            [integer(head)],
        )
        .unwrap();
    for round in (0..rounds).filter(|round| round % 2 == 1) {
        let (from, to) = (round * entries_each + 1, (round + 1) * entries_each);
        connection
            .execute("INSERT INTO member VALUES ('chat', 'bob', ?1, ?1, ?2, 0)", [integer(from), integer(to)])
            .unwrap();
    }
    (folder, connection)
}

fn open(path: &Path) -> Connection {
    let mut connection = file::open_for_writing(path).unwrap();
    file::migrate(path, &mut connection).unwrap();
    connection
}

/// What bob reads after a cursor, and how many steps SQLite's machine takes for it.
fn read(connection: &Connection, after: u64, limit: u32) -> (Vec<u64>, i32) {
    let mut statement = connection.prepare(PAGE_OF_USER).unwrap();
    let rows = statement.query(params!["chat", "bob", integer(after), limit + 1]).unwrap();
    let page = collect_page(rows).unwrap().unwrap();
    let seqs = page.entries.iter().map(|entry| entry.seq.get());
    (seqs.collect(), statement.get_status(StatementStatus::VmStep))
}

// Behaviour 2
#[test]
fn a_page_beyond_the_readers_leave_entry_touches_no_entry() {
    let (_folder, connection) = log_of(2, 5_000);
    connection.execute("UPDATE member SET joined_seq = 1, from_seq = 1, to_seq = 64", ()).unwrap();
    let with_entries: Vec<_> = [64, 70, 5_000].map(|after| read(&connection, after, 50)).into();
    connection.execute("DELETE FROM entry", ()).unwrap();
    let without: Vec<_> = [64, 70, 5_000].map(|after| read(&connection, after, 50)).into();
    assert_eq!(with_entries, without);
}

// Behaviour 2, 14
#[test]
fn what_a_page_costs_does_not_depend_on_what_its_reader_may_not_see() {
    let (_one, short) = log_of(4, 10);
    let (_other, long) = log_of(4, 1_000);
    let (seqs, steps) = read(&short, 0, 5);
    assert_eq!(seqs, [11, 12, 13, 14, 15, 16]);
    assert_eq!(read(&long, 0, 5), (vec![1_001, 1_002, 1_003, 1_004, 1_005, 1_006], steps));
}

// Behaviour 14
#[test]
fn what_a_page_costs_does_not_depend_on_how_often_its_reader_came_and_went() {
    let (_one, few) = log_of(20, 2);
    let (_other, many) = log_of(2_000, 2);
    let (_, steps) = read(&few, 4, 10);
    for after in [0, 4, 1_999, 3_950] {
        let (seqs, many_steps) = read(&many, after, 10);
        assert_eq!(seqs.len(), 11);
        assert!(many_steps <= steps + steps / 10, "{many_steps} steps after {after}, not {steps}");
    }
}

// Behaviour 9, 14
#[test]
fn what_a_page_costs_does_not_depend_on_how_much_is_trimmed() {
    let (_one, few) = log_of(20, 2);
    let (_other, many) = log_of(2_000, 2);
    many.execute_batch("UPDATE feed SET min_seq = 3961; DELETE FROM entry WHERE seq < 3961").unwrap();
    let (_, steps) = read(&few, 4, 10);
    let (seqs, many_steps) = read(&many, 0, 10);
    assert_eq!(seqs.len(), 11);
    assert!(many_steps <= steps + steps / 10, "{many_steps} steps, not {steps}");
}

#[test]
fn every_read_walks_an_index_and_sorts_nothing() {
    let (_folder, connection) = log_of(2, 2);
    for statement in [PAGE_OF_USER, PAGE_OF_SERVICE, LOG, MEMBERSHIPS, MEMBERSHIP, MEMBERS, HEADS, INFO] {
        let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).unwrap();
        let nulls = vec![rusqlite::types::Null; plan.parameter_count()];
        let steps =
            plan.query_map(rusqlite::params_from_iter(nulls), |row| row.get::<_, String>("detail")).unwrap();
        for step in steps.map(Result::unwrap) {
            let is_bounded = !step.starts_with("SCAN")
                || step.contains("asked")
                || step.contains("joined")
                || step == "SCAN CONSTANT ROW";
            assert!(is_bounded && !step.contains("TEMP B-TREE"), "{step} in {statement}");
        }
    }
}
