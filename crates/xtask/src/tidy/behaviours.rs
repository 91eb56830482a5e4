//! The numbered behaviours that must hold: each is named by a test.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use regex::Regex;

use super::tree::Tree;
use super::{Complaints, nothing_to_complain};

const BEHAVIOURS: RangeInclusive<u32> = 1..=20;

fn untested_behaviours(tree: &Tree) -> Complaints {
    let named = named_behaviours(tree);
    BEHAVIOURS
        .filter(|number| !named.contains(number))
        .map(|number| {
            format!("behaviour {number} has no test; name it in a comment of one: `// Behaviour {number}`")
        })
        .collect()
}

/// The numbers that comments in test code name, as in `Behaviour 14`, `Behaviours 4, 6` and `Behaviours 1-3 and 5`.
fn named_behaviours(tree: &Tree) -> BTreeSet<u32> {
    let mention = Regex::new(r"\bBehaviours? (\d+(?:(?:, | and |-|–)\d+)*)").unwrap();
    tree.rust_files()
        .filter(|file| file.crate_name() != Some("xtask"))
        .flat_map(|file| file.lines().filter(|line| line.is_test && line.is_comment()))
        .flat_map(|line| mention.captures_iter(line.text).map(|found| found.extract()).collect::<Vec<_>>())
        .flat_map(|(_, [numbers])| {
            numbers.replace(" and ", ", ").split(", ").flat_map(numbers_of).collect::<Vec<_>>()
        })
        .collect()
}

fn numbers_of(range: &str) -> RangeInclusive<u32> {
    let (first, last) = range.split_once(['-', '–']).unwrap_or((range, range));
    let number = |digits: &str| digits.parse().expect("only digits were matched");
    number(first)..=number(last)
}

#[test]
fn every_behaviour_is_named_by_a_test() {
    nothing_to_complain(untested_behaviours);
}

#[test]
fn behaviours_are_named_in_comments_of_tests_one_by_one_or_together() {
    let tree = Tree::of([
        (
            "crates/a/tests/b.rs",
            "/// Behaviour 14\n// Behaviours 1-3, 5 and 7: all.\nlet x = \"Behaviour 9\";\n",
        ),
        ("crates/a/src/b.rs", "// Behaviour 10\n#[cfg(test)]\nmod tests {\n    //! Behaviour 11.\n}\n"),
    ]);
    assert_eq!(named_behaviours(&tree), BTreeSet::from([1, 2, 3, 5, 7, 11, 14]));
    assert_eq!(untested_behaviours(&tree).len(), 13);
}
