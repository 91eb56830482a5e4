//! Experiments with negative controls, and benchmarks.
//!
//! The experiments ([`mod@experiments`]) show on a real server what gapless promises, and that the strategies which others use
//! break it. The benchmarks ([`mod@bench`]) measure it against baselines in the same run.

mod arguments;
mod bench;
mod chain;
mod crowd;
mod database;
mod elapse;
mod exhibit;
mod experiments;
mod figure;
mod finding;
mod follower;
mod http;
mod latencies;
mod moment;
mod network;
mod plain_sql;
mod progress;
mod push_client;
mod push_server;
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
use self::database::Databases;
use self::experiments::{Conditions, Size};
use self::figure::Figure;
use self::network::Network;
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
        Command::Experiment { suite, store, html, long, network, in_namespace, clients, only } => {
            let network = match network {
                Network::Far if !in_namespace && network::may_have_a_namespace() => {
                    let status = network::run_in_namespace("--in-namespace")?;
                    return Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
                }
                Network::Far if !in_namespace => {
                    complain(
                        "the kernel loses no packets here: that needs root, unshare, ip and iptables; \
                         a proxy does what it can instead (--network proxied)",
                    );
                    Network::Proxied
                }
                network @ (Network::Near | Network::Far | Network::Proxied) => network,
            };
            let size = if long { Size::Long } else { Size::Short };
            let conditions = Conditions { network, size, clients };
            let store = store.unwrap_or(suite.store());
            let databases = Databases::ready(store, postgres).await?;
            let findings = experiments::run(suite, &databases, conditions, only.as_deref()).await;
            let report = Report::new(suite.name(), store.name(), findings).over(network.name());
            tell(&report, json, html.as_deref())
        }
        Command::Crowd(membership) => crowd::live(membership).await.map(|()| ExitCode::SUCCESS),
        Command::Bench { bench, tiny, peers } => {
            if bench == Bench::TableCopy && peers.is_none() {
                complain(
                    "dlt and Sling are left out; docs/benchmarks.md tells how to bring them in with --peers",
                );
            }
            let scale = if tiny { Scale::Tiny } else { Scale::Full };
            if cfg!(debug_assertions) && scale == Scale::Full {
                complain("this is a debug build; measure with `cargo run --release`");
            }
            measured(&bench::run(bench, scale, postgres, peers).await?, json)
        }
    }
}

/// Tells what the experiments came to; fails when something isn't as expected.
fn tell(report: &Report, json: Option<&Path>, html: Option<&Path>) -> anyhow::Result<ExitCode> {
    print(&report.to_string());
    write(json, &report.json()?)?;
    write(html, &report.html())?;
    Ok(if report.is_as_expected() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Tells what was measured, and succeeds whatever the figures are: they depend on the machine.
fn measured(figures: &[Figure], json: Option<&Path>) -> anyhow::Result<ExitCode> {
    let mut table = Table::new(Figure::HEADING);
    let mut lines = String::new();
    for figure in figures {
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
