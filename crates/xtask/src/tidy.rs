//! Rules about the files of the project that no compiler checks.
//!
//! Each check looks at a [`Tree`] and returns complaints. Beside the test of the real tree, each has one of a small tree that
//! breaks the rule.

mod behaviours;
mod crates;
mod knowledge;
mod links;
mod text;
mod tree;

use self::tree::Tree;

/// What is wrong, where, and what to do.
type Complaints = Vec<String>;

fn nothing_to_complain(check: impl FnOnce(&Tree) -> Complaints) {
    let complaints = check(&Tree::of_the_project());
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}
