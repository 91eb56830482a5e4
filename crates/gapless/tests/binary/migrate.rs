//! `gapless migrate`.

use std::fs;

use tempfile::TempDir;

use crate::command::{run, store_in};

#[test]
fn a_schema_is_brought_up_to_date_once() {
    let folder = TempDir::new().unwrap();
    let store = store_in(folder.path());
    let first = run(&["migrate", "--store", &store]);
    assert!(first.printed().starts_with("applied V1__"), "{first}");
    let second = run(&["migrate", "--store", &store]);
    assert!(
        second.printed().starts_with("sqlite:") && second.printed().contains("schema version"),
        "{second}"
    );
}

#[test]
fn what_is_no_database_is_told_apart() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("gapless.db"), "a letter to a friend, which is longer than a header")
        .unwrap();
    let said = run(&["migrate", "--store", &store_in(folder.path())]);
    assert!(said.complained().contains("isn't a database of gapless"), "{said}");
}
