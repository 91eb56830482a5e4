//! Experiments with negative controls, and benchmarks.
//!
//! The experiments ([`mod@experiments`]) show on a real server what gapless promises, and that the strategies which others use
//! break it. The benchmarks ([`mod@bench`]) measure it against baselines in the same run.

mod arguments;
mod bench;
mod database;
mod experiments;
mod figure;
mod finding;
mod follower;
mod plain_sql;
mod progress;
mod raw_client;
mod report;
mod server;
mod table;
mod world;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser as _;

use self::arguments::{Arguments, Command};
use self::bench::{Bench, Scale};
use self::database::{Databases, StoreKind};
use self::experiments::Suite;
use self::figure::Figure;
use self::report::Report;
use self::table::Table;

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(code) => code,
        Err(error) => {
            complain(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let Arguments { command, postgres, json } = arguments;
    let json = json.as_deref();
    match command {
        Command::Experiment { suite, store, html } => {
            experiment(suite, store, postgres, json, html.as_deref()).await
        }
        Command::Bench { bench, tiny } => {
            measure(bench, if tiny { Scale::Tiny } else { Scale::Full }, postgres, json).await
        }
    }
}

async fn experiment(
    suite: Suite,
    store: StoreKind,
    postgres: Option<String>,
    json: Option<&Path>,
    html: Option<&Path>,
) -> anyhow::Result<ExitCode> {
    let databases = Databases::ready(store, postgres).await?;
    let report = Report::new(suite.name(), store.name(), experiments::run(suite, &databases).await);
    print(&report.to_string());
    write(json, &report.json()?)?;
    write(html, &report.html())?;
    Ok(if report.is_as_expected() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Measures, and succeeds whatever the figures are: they depend on the machine.
async fn measure(
    bench: Bench,
    scale: Scale,
    postgres: Option<String>,
    json: Option<&Path>,
) -> anyhow::Result<ExitCode> {
    if cfg!(debug_assertions) && scale == Scale::Full {
        complain("this is a debug build; measure with `cargo run --release`");
    }
    let figures = bench::run(bench, scale, postgres).await?;
    let mut table = Table::new(Figure::HEADING);
    let mut lines = String::new();
    for figure in &figures {
        table.push(figure.cells());
        lines += &serde_json::to_string(figure)?;
        lines.push('\n');
    }
    print(&table.to_string());
    let missed = figures.iter().filter(|figure| figure.is_missed()).count();
    if missed > 0 {
        complain(&format!("targets missed: {missed}; docs/benchmarks.md tells where the time goes"));
    }
    write(json, &lines)?;
    Ok(ExitCode::SUCCESS)
}

fn write(path: Option<&Path>, text: &str) -> anyhow::Result<()> {
    match path {
        Some(path) => fs::write(path, text).with_context(|| format!("writing {}", path.display())),
        None => Ok(()),
    }
}

#[expect(clippy::print_stdout, reason = "the result is what the command was typed for")]
fn print(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "a command talks to the one who typed it")]
fn complain(text: &str) {
    eprintln!("{text}");
}
