//! The laboratory itself, run as one would type it.

#![allow(clippy::unwrap_used, reason = "a test that can't go on ends")]

use std::process::{Command, Output};

use serde_json::Value;

#[test]
fn the_experiments_about_order_are_as_expected_on_sqlite() {
    assert_as_expected("ordering", "sqlite");
}

#[test]
fn the_experiments_about_order_are_as_expected_on_postgres() {
    assert_as_expected("ordering", "postgres");
}

// Chain behaviours 2, 3, 4, 5, 6, 7
#[test]
fn the_experiments_about_chains_are_as_expected_on_sqlite() {
    assert_as_expected("realtime", "sqlite");
}

// Chain behaviours 2, 3, 4, 5, 6, 7
#[test]
fn the_experiments_about_chains_are_as_expected_on_postgres() {
    assert_as_expected("realtime", "postgres");
}

#[test]
fn each_usual_way_to_read_a_busy_table_fails_as_predicted() {
    let report = experiment_report("tables", "postgres", &[]);
    assert_eq!(report["verdict"], "as_expected", "{report:#}");
    let strategies = &report["experiments"][0];
    let failing = strategies["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| check["observed"].as_str().is_some_and(|faults| faults.contains("missing")));
    assert_eq!(failing.count(), 8, "{report:#}");
    for drawing in [&strategies["exhibits"][1]["bars"], &report["experiments"][1]["exhibits"][0]["lines"]] {
        assert!(!drawing.as_array().unwrap().is_empty(), "{report:#}");
    }
}

#[test]
fn tables_are_not_read_on_sqlite() {
    let report = experiment_report("tables", "sqlite", &[]);
    for experiment in report["experiments"].as_array().unwrap() {
        assert_eq!(experiment["failure"], "this needs PostgreSQL");
    }
}

// Chain behaviour 2
#[test]
fn who_was_away_is_told_the_same_over_a_far_network() {
    assert_holds_over_a_far_network("02-away-and-back");
}

// Chain behaviour 7
#[test]
fn a_reorg_is_told_once_over_a_far_network() {
    assert_holds_over_a_far_network("07-reorg");
}

#[test]
fn append_hot_runs() {
    assert_figures("append-hot");
}

#[test]
fn append_spread_runs() {
    assert_figures("append-spread");
}

#[test]
fn send_latency_runs() {
    assert_figures("send-latency");
}

#[test]
fn page_runs() {
    assert_figures("page");
}

#[test]
fn idle_runs() {
    assert_figures("idle");
}

#[test]
fn chain_backfill_runs() {
    assert_figures("chain-backfill");
}

#[test]
fn chain_latency_runs() {
    assert_figures("chain-latency");
}

#[test]
fn replay_runs() {
    assert_figures("replay");
}

#[test]
fn table_cost_runs() {
    assert_figures("table-cost");
}

#[test]
fn table_copy_runs() {
    assert_figures("table-copy");
}

#[test]
fn table_increment_runs() {
    assert_figures("table-increment");
}

#[test]
fn table_page_runs() {
    assert_figures("table-page");
}

fn assert_as_expected(suite: &str, store: &str) {
    let report = experiment_report(suite, store, &[]);
    assert!(report["experiments"].as_array().unwrap().len() >= 8);
    assert_eq!(report["verdict"], "as_expected", "{report:#}");
}

fn assert_holds_over_a_far_network(experiment: &str) {
    let report = experiment_report("realtime", "sqlite", &["--network", "proxied", "--only", experiment]);
    assert_eq!(report["verdict"], "as_expected", "{report:#}");
    assert_eq!(report["network"], "far by proxy");
    assert_eq!(report["experiments"][0]["name"], experiment);
}

/// Runs the experiments of a suite on a store; their exit code, their table, their JSON and their page must agree.
fn experiment_report(suite: &str, store: &str, more: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let (json, html) = (folder.path().join("report.json"), folder.path().join("report.html"));
    let output = lab()
        .args(["experiment", suite, "--store", store])
        .args(more)
        .arg("--json")
        .arg(&json)
        .arg("--html")
        .arg(&html)
        .output()
        .unwrap();
    let table = text_of(&output);
    let report: Value =
        serde_json::from_slice(&std::fs::read(json).unwrap_or_else(|_| panic!("{table}"))).unwrap();
    assert_eq!(output.status.success(), report["verdict"] == "as_expected", "{table}");
    let page = std::fs::read_to_string(html).unwrap();
    let experiments = report["experiments"].as_array().unwrap();
    for experiment in experiments {
        let name = experiment["name"].as_str().unwrap();
        assert!(table.contains(name) && page.contains(name), "{name} is missing in:\n{table}\n{page}");
    }
    report
}

/// Runs a tiny benchmark; each JSON line must have all its fields, and a row of the table.
fn assert_figures(bench: &str) {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("figures.json");
    let output = lab().args(["bench", bench, "--tiny", "--json"]).arg(&json).output().unwrap();
    let table = text_of(&output);
    assert!(output.status.success(), "{table}");
    let lines = std::fs::read_to_string(json).unwrap();
    assert!(!lines.is_empty(), "{table}");
    for line in lines.lines() {
        let figure: Value = serde_json::from_str(line).unwrap();
        for field in ["bench", "metric", "unit", "ours", "versus", "theirs", "ratio", "target", "met"] {
            assert!(figure.get(field).is_some(), "{field} is missing in {line}");
        }
        assert_eq!(figure["bench"], bench);
        assert!(figure["ours"].as_f64().is_some(), "{line}");
        assert!(figure["met"].is_null(), "a tiny run is judged: {line}");
        assert!(table.contains(figure["metric"].as_str().unwrap()), "{line} has no row in:\n{table}");
    }
}

fn lab() -> Command {
    Command::new(env!("CARGO_BIN_EXE_gapless-lab"))
}

fn text_of(output: &Output) -> String {
    let texts = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    texts.concat()
}
