//! Rules about what a crate must know nothing of.

use regex::Regex;

use super::tree::{File, Line, Tree};
use super::{Complaints, nothing_to_complain};

/// Time, chance, the system and waiting, none of which a pure decision may see.
const IMPURE: &str = r"\b(Instant|SystemTime)::now\b|\btokio::|\brand::|\bstd::(env|fs|io|net|process|thread)\b|\.await\b|\basync (fn|move|\|)";
const PURE_CRATES: [&str; 2] = ["gapless-proto", "gapless-core"];

/// A string that begins like a statement.
const SQL: &str = r#""\s*(?i:select\b[^"]*\bfrom\b|select\s*$|insert into\b|update \w+ set\b|delete from\b|(create|alter|drop) table\b)"#;
const KNOW_SQL: [&str; 5] = ["gapless-store", "gapless-tables", "gapless-testkit", "gapless-lab", "xtask"];

fn impure_decisions(tree: &Tree) -> Complaints {
    let impure = Regex::new(IMPURE).unwrap();
    let is_impure = |line: Line<'_>| impure.is_match(line.text);
    let is_pure_crate = |name: &str| PURE_CRATES.contains(&name);
    production_lines(tree, is_pure_crate, is_impure, "decides with more than its arguments; pass it in")
}

fn foreign_sql(tree: &Tree) -> Complaints {
    let sql = Regex::new(SQL).unwrap();
    let has_no_sql = |name: &str| !KNOW_SQL.contains(&name);
    production_lines(tree, has_no_sql, |line| sql.is_match(line.text), "SQL outside the store; move it there")
}

fn production_lines(
    tree: &Tree,
    is_bound: impl Fn(&str) -> bool,
    is_wrong: impl Fn(Line<'_>) -> bool,
    what: &str,
) -> Complaints {
    let wrong_lines = |file: File<'_>| -> Complaints {
        let lines = file.lines().filter(|line| !line.is_test && !line.is_comment() && is_wrong(*line));
        lines.map(|line| format!("{}:{}: {what}", file.path, line.number)).collect()
    };
    tree.rust_files().filter(|file| file.crate_name().is_some_and(&is_bound)).flat_map(wrong_lines).collect()
}

#[test]
fn decisions_see_no_clock_and_no_system() {
    nothing_to_complain(impure_decisions);

    let wrong = "let now = Instant::now();\n// Instant::now() is a comment\nasync fn f() {}\nuse std::fs;\n\
                 #[cfg(test)]\nmod tests {\n    use tokio::time;\n}\n";
    assert_eq!(impure_decisions(&Tree::of([("crates/gapless-core/src/a.rs", wrong)])).len(), 3);
    assert_eq!(impure_decisions(&Tree::of([("crates/gapless-server/src/a.rs", wrong)])).len(), 0);
}

#[test]
fn only_the_store_knows_sql() {
    nothing_to_complain(foreign_sql);

    let wrong = "query(\"SELECT 1 FROM t\")\nquery(\"\n  insert into t\")\nquery(\"insert into t values (1)\")\n\
                 help(\"select a conversation\")\n";
    assert_eq!(foreign_sql(&Tree::of([("crates/gapless-server/src/a.rs", wrong)])).len(), 2);
    assert_eq!(foreign_sql(&Tree::of([("crates/gapless-store/src/a.rs", wrong)])).len(), 0);
}
