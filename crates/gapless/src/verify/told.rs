//! What is said about a copy.

use gapless_tables::verify::{Difference, Finding, Verdict};
use indicatif::HumanCount;

use crate::output::visible;

/// The lines that say what a comparison has come to.
pub(super) fn told(table: &str, verdict: &Verdict) -> String {
    let mut lines: Vec<String> = verdict.findings.iter().map(finding).collect();
    let unnamed = verdict.found() - verdict.findings.len() as u64;
    if unnamed > 0 {
        lines.push(format!("… and {} more", HumanCount(unnamed)));
    }
    lines.push(sum(verdict));
    let lines: Vec<String> = lines.into_iter().map(|line| format!("{table}: {line}")).collect();
    lines.join("\n")
}

fn finding(finding: &Finding) -> String {
    let key = visible(&finding.key.join(", "));
    let what = match finding.difference {
        Some(Difference::Missing) => "is missing in the copy",
        Some(Difference::Extra) => "is only in the copy",
        Some(Difference::Other) => "has other values in the copy",
        None => "never stood still",
    };
    let behind = if finding.is_behind { ", which is behind" } else { "" };
    format!("row {key} {what}{behind}")
}

fn sum(verdict: &Verdict) -> String {
    let rows = HumanCount(verdict.rows);
    if verdict.found() == 0 {
        return format!("equal: {rows} rows");
    }
    let repaired = HumanCount(verdict.repaired);
    if verdict.is_equal() {
        return format!("equal: {rows} rows, {repaired} of them repaired");
    }
    let count = |difference| verdict.differences.get(&difference).copied().unwrap_or_default();
    let parts = [
        (count(Difference::Missing), "missing"),
        (count(Difference::Extra), "only in the copy"),
        (count(Difference::Other), "with other values"),
        (verdict.changing, "never stood still"),
        (verdict.repaired, "repaired"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts.map(|(count, what)| format!("{} {what}", HumanCount(*count))).collect();
    let hint = match (verdict.repaired, verdict.behind) {
        (1.., _) => "",
        (0, 0) => "; `--repair` makes rows equal",
        (0, _) => "; the copy is behind: let `gapless replicate` run, or give `--repair`",
    };
    format!("not equal: of {rows} rows {}{hint}", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_named_and_counted() {
        let key = vec!["7".to_owned(), "a\u{1b}b".to_owned()];
        let finding = |difference, is_behind| Finding { key: key.clone(), difference, is_behind };
        let mut verdict = Verdict { rows: 1_000, ..Verdict::default() };
        assert_eq!(told("t", &verdict), "t: equal: 1,000 rows");
        verdict.differences = [(Difference::Missing, 2), (Difference::Other, 1)].into();
        verdict.findings =
            vec![finding(Some(Difference::Missing), false), finding(Some(Difference::Other), true)];
        verdict.behind = 1;
        assert_eq!(
            told("t", &verdict),
            "t: row 7, a\\u{1b}b is missing in the copy\nt: row 7, a\\u{1b}b has other values in the copy, which is behind\nt: … and 1 more\n\
             t: not equal: of 1,000 rows 2 missing, 1 with other values; the copy is behind: let `gapless replicate` run, or give `--repair`"
        );
        verdict.repaired = 3;
        assert!(told("t", &verdict).ends_with("t: equal: 1,000 rows, 3 of them repaired"));
        verdict.changing = 1;
        assert!(told("t", &verdict).contains(
            "not equal: of 1,000 rows 2 missing, 1 with other values, 1 never stood still, 3 repaired"
        ));
    }
}
