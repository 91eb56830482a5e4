//! The gapless command: server, client and tools in one binary.

mod connection;
mod send;
mod tail;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Brings an application's changes to everyone who must see them: in order, none missed, none twice.
#[derive(Parser)]
#[command(name = "gapless", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Send(send::Args),
    Tail(tail::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Send(args) => send::run(args),
        Command::Tail(args) => tail::run(args),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            connection::complain(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}
