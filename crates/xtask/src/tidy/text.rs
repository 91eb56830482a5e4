//! Rules that hold for the text of every file.

use regex::Regex;

use super::tree::{File, Tree};
use super::{Complaints, nothing_to_complain};

const LINES_MAX: usize = 700;

/// Stands in a file that is longer than others for a reason, which follows.
const LONG_FOR_A_REASON: &str = "tidy: long because ";

fn long_files(tree: &Tree) -> Complaints {
    let is_code = |file: &File| matches!(file.extension(), "rs" | "ts" | "tsx" | "css" | "sql" | "md");
    tree.files()
        .filter(|file| is_code(file) && !file.text.contains(LONG_FOR_A_REASON))
        .filter(|file| file.text.lines().count() > LINES_MAX)
        .map(|file| format!("{}: over {LINES_MAX} lines; split it by its concepts", file.path))
        .collect()
}

fn unowned_tasks(tree: &Tree) -> Complaints {
    let task = Regex::new(concat!(r"\b(TO", r"DO|FIX", r"ME)\b(\([\w-]+\))?")).unwrap();
    let is_unowned = |text: &str| task.captures_iter(text).any(|found| found.get(2).is_none());
    complain_of_lines(tree, is_unowned, "an open task without an owner; write who does it in parentheses")
}

fn trailing_whitespace(tree: &Tree) -> Complaints {
    complain_of_lines(tree, |line| line.ends_with([' ', '\t', '\r']), "whitespace at the end of the line")
}

fn unfinished_last_lines(tree: &Tree) -> Complaints {
    tree.files()
        .filter(|file| !file.text.is_empty() && (!file.text.ends_with('\n') || file.text.ends_with("\n\n")))
        .map(|file| format!("{}: end the file with exactly one line feed", file.path))
        .collect()
}

fn sleeping_tests(tree: &Tree) -> Complaints {
    // Experiments are about time, too; all that pass some do it there.
    const ABOUT_TIME: &str = "crates/gapless-lab/src/elapse.rs";
    let sleep = Regex::new(r"\bsleep(_until)?\(").unwrap();
    let sleeps = |file: File<'_>| {
        let lines = file.lines().filter(|line| line.is_test && sleep.is_match(line.text));
        lines
            .map(|line| complaint(file, line.number, "a test that sleeps; wait for what must happen"))
            .collect()
    };
    let files = tree.rust_files().filter(|file| file.path != ABOUT_TIME);
    files.flat_map(|file| -> Complaints { sleeps(file) }).collect()
}

fn complain_of_lines(tree: &Tree, is_wrong: impl Fn(&str) -> bool, what: &str) -> Complaints {
    let is_wrong = &is_wrong;
    tree.files()
        .flat_map(|file| {
            // `lines()` would swallow a carriage return.
            let numbered = file.text.split('\n').enumerate();
            numbered
                .filter(|(_, text)| is_wrong(text))
                .map(move |(index, _)| complaint(file, index + 1, what))
        })
        .collect()
}

fn complaint(file: File<'_>, line: usize, what: &str) -> String {
    format!("{}:{line}: {what}", file.path)
}

#[test]
fn no_file_is_long_without_a_reason() {
    nothing_to_complain(long_files);

    let long = "x\n".repeat(LINES_MAX + 1);
    assert_eq!(long_files(&Tree::of([("a.rs", &long)])).len(), 1);
    assert!(long_files(&Tree::of([("a.rs", &format!("// {LONG_FOR_A_REASON}so\n{long}"))])).is_empty());
}

#[test]
fn every_open_task_has_an_owner() {
    nothing_to_complain(unowned_tasks);

    let [open, owned] = [concat!("// TO", "DO: later\n"), concat!("// TO", "DO(ann): later\n")];
    assert_eq!(unowned_tasks(&Tree::of([("a.rs", open), ("b.rs", owned)])).len(), 1);
}

#[test]
fn no_line_ends_with_whitespace() {
    nothing_to_complain(trailing_whitespace);

    assert_eq!(trailing_whitespace(&Tree::of([("a.md", "x \ny\r\nz\t\n")])).len(), 3);
}

#[test]
fn every_file_ends_with_one_line_feed() {
    nothing_to_complain(unfinished_last_lines);

    assert_eq!(unfinished_last_lines(&Tree::of([("a", "x"), ("b", "x\n\n"), ("c", "x\n")])).len(), 2);
}

#[test]
fn no_test_sleeps() {
    nothing_to_complain(sleeping_tests);

    for sleep in [concat!("thread::sl", "eep(second);\n"), concat!("time::sl", "eep_until(then).await;\n")] {
        assert_eq!(sleeping_tests(&Tree::of([("a.rs", sleep), ("tests/b.rs", sleep)])).len(), 1);
    }
}
