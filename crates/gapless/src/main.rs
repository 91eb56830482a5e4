//! The gapless command: server, client and tools in one binary.

mod admin;
mod api;
mod chain_file;
mod check_config;
mod config_flags;
mod connection;
mod copies;
mod demo;
mod follow;
mod logging;
mod migrate;
mod open_files;
mod output;
mod replicate;
mod send;
mod serve;
mod signals;
mod table;
mod tables_file;
mod tail;
mod token;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Brings an application's changes to everyone who must see them: in order, none missed, none twice.
#[derive(Parser)]
#[command(name = "gapless", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Serve(serve::Arguments),
    Send(send::Args),
    Tail(tail::Args),
    Follow(follow::Arguments),
    Table(table::Arguments),
    Replicate(replicate::Arguments),
    Verify(verify::Arguments),
    Token(token::Arguments),
    Admin(admin::Arguments),
    Migrate(migrate::Arguments),
    CheckConfig(check_config::Arguments),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Serve(arguments) => serve::run(arguments),
        Command::Send(arguments) => send::run(arguments),
        Command::Tail(arguments) => tail::run(arguments),
        Command::Follow(arguments) => follow::run(&arguments),
        Command::Table(arguments) => table::run(arguments),
        Command::Replicate(arguments) => replicate::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Token(arguments) => token::run(arguments),
        Command::Admin(arguments) => admin::run(arguments),
        Command::Migrate(arguments) => migrate::run(arguments),
        Command::CheckConfig(arguments) => check_config::run(arguments),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            connection::complain(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}
