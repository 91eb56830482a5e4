//! The project's commands: run, test, ci, services.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command talks to the one who typed it")]

mod cargo;
mod interruption;
mod requirement;
mod run;
mod services;
mod sieve;
mod step;
mod test;
#[cfg(test)]
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The project's commands.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build gapless and serve a demo conversation on 127.0.0.1:7700
    Run {
        /// Further arguments for `gapless serve`
        #[arg(last = true)]
        serve: Vec<String>,
    },
    /// Start what the tests need, then check format and lints and run all tests, experiments and tiny benchmarks
    Test {
        /// Run only the tests with this in their name, and nothing else
        filter: Option<String>,
    },
    /// What continuous integration runs: the same as `test`
    Ci,
    /// Start PostgreSQL for tests that are run by hand, until Ctrl-C
    Services,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Run { serve } => run::run(serve),
        Command::Test { filter } => test::test(filter.as_deref()),
        Command::Ci => test::test(None),
        Command::Services => services::services(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
