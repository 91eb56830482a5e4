//! What can be typed.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::bench::Bench;
use crate::crowd::Membership;
use crate::database::StoreKind;
use crate::experiments::Suite;
use crate::network::Network;

/// Experiments for those who doubt, and benchmarks.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// A superuser's URL of the PostgreSQL to use; without it, GAPLESS_TEST_POSTGRES, or one that is started for this run
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) postgres: Option<String>,
    /// Where to write the result for programs
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run experiments through a real server, with broken strategies as negative controls; fails if one is not as expected
    Experiment {
        /// Which experiments
        suite: Suite,
        /// On which store; without it on SQLite, and tables on PostgreSQL, the only one that has them
        #[arg(long)]
        store: Option<StoreKind>,
        /// Where to write the result as a page
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
        /// The whole size, where an experiment has one: minutes, thousands of clients
        #[arg(long)]
        long: bool,
        /// What is between clients and server
        #[arg(long, default_value = "near")]
        network: Network,
        /// That this runs in a network namespace of its own
        #[arg(long, hide = true)]
        in_namespace: bool,
        /// How many clients there are where a server restarts under many
        #[arg(long, value_name = "NUMBER")]
        clients: Option<u64>,
        /// Only the experiments with this in their names
        #[arg(long, value_name = "PART")]
        only: Option<String>,
    },
    /// Measure; each figure is one JSON line in the file of --json
    Bench {
        /// What to measure
        bench: Bench,
        /// Only see that it works, in a few seconds; nothing is judged by it
        #[arg(long)]
        tiny: bool,
        /// The environment of Python that has dlt and Sling, to measure them beside table-copy; docs/benchmarks.md tells how to make it
        #[arg(long, value_name = "FOLDER")]
        peers: Option<PathBuf>,
    },
    /// Be clients of a server for an experiment, which starts this itself
    #[command(hide = true)]
    Crowd(Membership),
}
