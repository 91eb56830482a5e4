use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use proptest::prelude::*;

use super::*;
use crate::digest::row_hash;

proptest! {
    // Thousands of hashes each.
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn exactly_the_rows_that_differ_are_found(
        rows in 0_u32..12_000,
        changes in prop::collection::btree_map(0_u32..12_000, change(), 0..20),
        took_ms in 0_u64..3_000,
    ) {
        let (source, copy) = (table(rows), changed(rows, &changes));
        let expected: BTreeSet<u32> =
            (0..24_000).filter(|key| source.get(key) != copy.get(key)).collect();
        let compared = compare(&source, &copy, |key| key, Duration::from_millis(took_ms));
        prop_assert_eq!(&compared.found, &expected);
        // A stretch that differs is asked for again in parts at each of at most three levels, and then listed.
        let stretches = rows / LISTED_ROWS + 4;
        let within = u32::try_from(expected.len()).unwrap() * (3 * (PARTS + 1) + 1);
        prop_assert!(compared.requests <= stretches + within, "{} requests", compared.requests);
        prop_assert!(compared.depth <= 4, "{} levels", compared.depth);
    }

    #[test]
    fn a_copy_with_another_order_of_keys_hides_nothing(
        rows in 0_u32..3_000,
        changes in prop::collection::btree_map(0_u32..3_000, change(), 0..9),
        turn in 1_u32..64,
    ) {
        let (source, copy) = (table(rows), changed(rows, &changes));
        let differing = (0..16_000).filter(|key| source.get(key) != copy.get(key));
        let compared = compare(&source, &copy, |key| key.rotate_right(turn % 32), Duration::ZERO);
        for key in differing {
            prop_assert!(compared.found.contains(&key), "{key}");
        }
    }
}

#[test]
fn a_million_equal_rows_take_few_requests() {
    let (source, copy) = (table(1_000_000), table(1_000_000));
    let compared = compare(&source, &copy, |key| key, Duration::from_millis(1));
    assert!(compared.requests < 20 && compared.found.is_empty(), "{} requests", compared.requests);
}

#[test]
fn stretches_get_shorter_while_they_fail_or_take_long() {
    let mut walk = Walk::new();
    let rows = |walk: &Walk| match walk.next() {
        Some(Step::Sum(_, rows)) => rows,
        other => panic!("{other:?}"),
    };
    walk.handle_failure();
    assert_eq!(rows(&walk), FIRST_ROWS / 2);
    let sum = RangeDigest { rows: 1, digest: "1".to_owned(), up_to: Some(vec!["1".to_owned()]) };
    walk.handle_sums(&sum, &sum, LONG + SHORT);
    assert_eq!(rows(&walk), FIRST_ROWS / 4);
    (0..99).for_each(|_| walk.handle_failure());
    assert_eq!(rows(&walk), 1);
}

/// What was done to a row of the copy.
#[derive(Debug, Clone, Copy)]
enum Change {
    Lost,
    Spoilt,
    Added,
}

struct Compared {
    found: BTreeSet<u32>,
    requests: u32,
    depth: usize,
}

/// Walks through two tables, of which the copy has its keys in another order. Every range is answered truly.
fn compare(
    source: &BTreeMap<u32, u64>,
    copy: &BTreeMap<u32, u64>,
    copy_order: impl Fn(u32) -> u32,
    took: Duration,
) -> Compared {
    let [source, copy] = [Side::new(source, &|key| key), Side::new(copy, &copy_order)];
    let mut walk = Walk::new();
    let mut compared = Compared { found: BTreeSet::new(), requests: 0, depth: 0 };
    while let Some(step) = walk.next() {
        compared.requests += 1;
        compared.depth = compared.depth.max(walk.within.len());
        match step {
            Step::Sum(range, rows) => {
                let stretch = source.rows(&range, rows as usize);
                let is_full = stretch.len() == rows as usize;
                let up_to = stretch.last().filter(|_| is_full).map(|(key, _)| vec![key.to_string()]);
                let ended = KeyRange { up_to: up_to.clone().or(range.up_to), ..range };
                walk.handle_sums(&sum(&stretch, up_to), &sum(&copy.rows(&ended, usize::MAX), None), took);
            }
            Step::List(range) => {
                let [listed, copied]: [BTreeSet<_>; 2] =
                    [&source, &copy].map(|side| side.rows(&range, usize::MAX).into_iter().collect());
                compared.found.extend(listed.symmetric_difference(&copied).map(|(key, _)| *key));
                walk.handle_listed(None);
            }
        }
    }
    compared
}

/// Rows in the order of one side.
struct Side<'a> {
    rows: BTreeMap<u32, (u32, u64)>,
    order: &'a dyn Fn(u32) -> u32,
}

impl<'a> Side<'a> {
    fn new(table: &BTreeMap<u32, u64>, order: &'a dyn Fn(u32) -> u32) -> Self {
        Self { rows: table.iter().map(|(key, value)| (order(*key), (*key, *value))).collect(), order }
    }

    fn rows(&self, range: &KeyRange, limit: usize) -> Vec<(u32, u64)> {
        let place = |key: &Key| (self.order)(key[0].parse().unwrap());
        let after = range.after.as_ref().map_or(Bound::Unbounded, |key| Bound::Excluded(place(key)));
        let up_to = range.up_to.as_ref().map_or(Bound::Unbounded, |key| Bound::Included(place(key)));
        // Keys that follow each other at the source may be the other way round.
        let is_empty =
            matches!((after, up_to), (Bound::Excluded(after), Bound::Included(up_to)) if after >= up_to);
        if is_empty {
            return Vec::new();
        }
        self.rows.range((after, up_to)).map(|(_, row)| *row).take(limit).collect()
    }
}

fn sum(rows: &[(u32, u64)], up_to: Option<Key>) -> RangeDigest {
    // Changes of single bits mustn't add up to nothing.
    let hash = |(key, value): &(u32, u64)| row_hash(&[Some(&key.to_be_bytes()), Some(&value.to_be_bytes())]);
    let digest: i128 = rows.iter().map(|row| i128::from(hash(row))).sum();
    RangeDigest { rows: i64::try_from(rows.len()).unwrap(), digest: digest.to_string(), up_to }
}

fn table(rows: u32) -> BTreeMap<u32, u64> {
    (0..rows).map(|key| (key, u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect()
}

fn changed(rows: u32, changes: &BTreeMap<u32, Change>) -> BTreeMap<u32, u64> {
    let mut copy = table(rows);
    for (key, change) in changes {
        match change {
            Change::Lost => {
                copy.remove(key);
            }
            Change::Spoilt => {
                copy.entry(*key).and_modify(|value| *value ^= 1);
            }
            Change::Added => {
                copy.insert(12_000 + key, 1);
            }
        }
    }
    copy
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![Just(Change::Lost), Just(Change::Spoilt), Just(Change::Added)]
}
