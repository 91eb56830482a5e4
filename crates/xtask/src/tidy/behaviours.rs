//! The numbered behaviours that must hold: each is named by a test.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use regex::Regex;

use super::tree::Tree;
use super::{Complaints, nothing_to_complain};

/// Behaviours that are numbered together.
struct Behaviours {
    /// What a comment calls one of them.
    name: &'static str,
    numbers: RangeInclusive<u32>,
}

const CONVERSATIONS: Behaviours = Behaviours { name: "Behaviour", numbers: 1..=20 };
const CHAINS: Behaviours = Behaviours { name: "Chain behaviour", numbers: 1..=15 };
const TABLES: Behaviours = Behaviours { name: "Table behaviour", numbers: 1..=12 };

impl Behaviours {
    fn untested(&self, tree: &Tree) -> Complaints {
        let (named, name) = (self.named(tree), self.name);
        let untested = self.numbers.clone().filter(|number| !named.contains(number));
        let complaint = |number| {
            let lower = name.to_lowercase();
            format!("{lower} {number} has no test; name it in a comment of one: `// {name} {number}`")
        };
        untested.map(complaint).collect()
    }

    /// The numbers that comments in test code name, as in `Behaviour 14`, `Behaviours 4, 6` and `Behaviours 1-3 and 5`.
    fn named(&self, tree: &Tree) -> BTreeSet<u32> {
        let mention = Regex::new(&format!(r"\b{}s? (\d+(?:(?:, | and |-|–)\d+)*)", self.name)).unwrap();
        tree.rust_files()
            .filter(|file| file.crate_name() != Some("xtask"))
            .flat_map(|file| file.lines().filter(|line| line.is_test && line.is_comment()))
            .flat_map(|line| {
                mention.captures_iter(line.text).map(|found| found.extract()).collect::<Vec<_>>()
            })
            .flat_map(|(_, [numbers])| {
                numbers.replace(" and ", ", ").split(", ").flat_map(numbers_of).collect::<Vec<_>>()
            })
            .collect()
    }
}

fn numbers_of(range: &str) -> RangeInclusive<u32> {
    let (first, last) = range.split_once(['-', '–']).unwrap_or((range, range));
    let number = |digits: &str| digits.parse().expect("only digits were matched");
    number(first)..=number(last)
}

#[test]
fn every_behaviour_is_named_by_a_test() {
    for behaviours in [CONVERSATIONS, CHAINS, TABLES] {
        nothing_to_complain(|tree| behaviours.untested(tree));
    }
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
    assert_eq!(CONVERSATIONS.named(&tree), BTreeSet::from([1, 2, 3, 5, 7, 11, 14]));
    assert_eq!(CONVERSATIONS.untested(&tree).len(), 13);
}

#[test]
fn the_behaviours_of_chains_and_of_tables_are_counted_by_themselves() {
    let tree = Tree::of([(
        "crates/a/tests/b.rs",
        "// Behaviours 1-20\n// Chain behaviours 1-4, 6\n// Chain behaviour 15\n// Table behaviours 1-11\nlet x = \"Chain behaviour 5\";\n",
    )]);
    assert_eq!(CHAINS.named(&tree), BTreeSet::from([1, 2, 3, 4, 6, 15]));
    let complaints = CHAINS.untested(&tree);
    assert_eq!(complaints.len(), 9);
    assert!(complaints[0].contains("`// Chain behaviour 5`"), "{}", complaints[0]);
    assert_eq!(CONVERSATIONS.untested(&tree), Complaints::new());
    let complaints = TABLES.untested(&tree);
    assert_eq!(complaints.len(), 1);
    assert!(complaints[0].contains("`// Table behaviour 12`"), "{}", complaints[0]);
}
