use super::*;
use crate::exhibit::{Exhibit, Line};
use crate::finding::Check;

#[test]
fn the_table_has_a_row_for_every_comparison_and_a_summary() {
    let table = report().to_string();
    assert_eq!(
        table,
        "\
experiment         what             expected  observed     verdict
─────────────────  ───────────────  ────────  ───────────  ───────────────
00-order           holes            0         0            as expected
                   entries          ≥ 3       2            DIFFERS
00-control-broken  duplicates       3         0            CONTROL DIFFERS
00-paging          comes to an end  yes       <it> & died  FAILED

ordering on sqlite: 0 of 3 experiments as expected, 2 differ, 1 failed"
    );
}

#[test]
fn the_json_says_what_the_table_says() {
    let report = report();
    let json: serde_json::Value = serde_json::from_str(&report.json().unwrap()).unwrap();
    assert_eq!(json["verdict"], "failed");
    let experiments = json["experiments"].as_array().unwrap();
    let in_json: Vec<_> = experiments
        .iter()
        .flat_map(|experiment| experiment["checks"].as_array().unwrap())
        .map(|check| [&check["what"], &check["expected"], &check["observed"]].map(shown))
        .collect();
    let in_table: Vec<_> = report
        .experiments
        .iter()
        .filter(|judged| judged.finding.failure.is_none())
        .flat_map(Judged::rows)
        .map(|row| [row.what, row.expected, row.observed])
        .collect();
    assert_eq!(in_json, in_table);
    assert_eq!(experiments[1]["is_control"], true);
}

#[test]
fn the_page_shows_texts_as_they_are() {
    let page = report().html();
    assert!(page.contains("&lt;it&gt; &amp; died"), "{page}");
    assert!(!page.contains("http"), "nothing is loaded from elsewhere");
}

#[test]
fn what_was_measured_beside_is_shown_everywhere() {
    let mut measured = finding("00-a", vec![Check::exactly("holes", 0, 0)]);
    let returns = Exhibit::histogram("back <again>", &[0, 150, 160]);
    let table = Exhibit::table("latency", ["when", "p50"], vec![vec!["calm".to_owned(), "1 ms".to_owned()]]);
    measured.exhibits = vec![returns, table];
    let report = Report::new("realtime", "sqlite", vec![measured]).over(Some("far"));

    let text = report.to_string();
    assert!(text.contains("00-a: back <again>") && text.contains("calm  1 ms"), "{text}");
    assert!(text.ends_with(
        "realtime on sqlite over a network that is far: 1 of 1 experiments as expected, 0 differ, 0 failed"
    ));
    let page = report.html();
    assert!(page.contains("back &lt;again&gt;") && page.contains("2 at 100 ms"), "{page}");
    assert!(page.contains("<td>calm</td><td>1 ms</td>"), "{page}");
    let json: serde_json::Value = serde_json::from_str(&report.json().unwrap()).unwrap();
    assert_eq!(json["network"], "far");
    assert_eq!(json["experiments"][0]["exhibits"][0]["counts"], serde_json::json!([1, 2]));
}

#[test]
fn what_grows_is_drawn_and_told_in_numbers() {
    let mut measured = finding("00-a", vec![Check::exactly("holes", 0, 0)]);
    let line = Line { name: "a < b".to_owned(), values: vec![0.5, 20.0] };
    measured.exhibits = vec![
        Exhibit::Lines {
            title: "cost".to_owned(),
            across: "depth".to_owned(),
            places: vec![0, 9],
            lines: vec![line],
        },
        Exhibit::Bars { title: "lost".to_owned(), bars: vec![("c > d".to_owned(), 3)] },
    ];
    let report = Report::new("tables", "postgres", vec![measured]);

    let page = report.html();
    assert_eq!(page.matches("<polyline").count(), 1, "{page}");
    assert!(page.contains("<th>a &lt; b</th>") && page.contains("<td>9</td><td>20</td>"), "{page}");
    assert!(page.contains("c &gt; d"), "{page}");
    let json: serde_json::Value = serde_json::from_str(&report.json().unwrap()).unwrap();
    let exhibits = &json["experiments"][0]["exhibits"];
    assert_eq!(exhibits[0]["lines"][0]["values"], serde_json::json!([0.5, 20.0]));
    assert_eq!(exhibits[1]["bars"], serde_json::json!([["c > d", 3]]));
}

#[test]
fn no_experiment_is_no_success() {
    assert!(!Report::new("ordering", "sqlite", Vec::new()).is_as_expected());
}

#[test]
fn a_control_that_does_not_fail_spoils_the_run() {
    let good = Report::new("ordering", "sqlite", vec![finding("00-a", vec![Check::exactly("holes", 0, 0)])]);
    assert!(good.is_as_expected());

    let control = finding("00-control-a", vec![Check::exactly("duplicates", 3, 0)]);
    assert!(!Report::new("ordering", "sqlite", vec![control]).is_as_expected());
}

fn report() -> Report {
    let order = vec![Check::exactly("holes", 0, 0), Check::at_least("entries", 3, 2)];
    let control = vec![Check::exactly("duplicates", 3, 0)];
    let mut failed = finding("00-paging", Vec::new());
    failed.failure = Some("<it> & died".to_owned());
    let findings = vec![finding("00-order", order), finding("00-control-broken", control), failed];
    Report::new("ordering", "sqlite", findings)
}

fn finding(name: &'static str, checks: Vec<Check>) -> Finding {
    Finding {
        name,
        claim: "it works",
        is_control: name.contains("control"),
        checks,
        exhibits: Vec::new(),
        failure: None,
    }
}
