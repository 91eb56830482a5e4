//! `gapless table`: what tables need so that they can be read for others.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use gapless_tables::{DeclaredTables, Purged, TableConfig, install, lacks, purge, uninstall};

use crate::output::say;
use crate::tables_file;

/// See to it that tables can be read for others.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Say what the tables lack, and how they get it
    Check(Which),
    /// Add what they lack: the column that stamps rows with their transaction, and triggers. It waits for writers that are at work
    Install {
        #[command(flatten)]
        which: Which,
        /// Also make the indexes, without locking anybody out; that takes a while for large tables
        #[arg(long)]
        index: bool,
    },
    /// Delete the notes of rows that were deleted long ago, a few at a time while others write and read; for a job that runs every day
    Purge {
        #[command(flatten)]
        which: Which,
        /// How long ago the rows were deleted whose notes go, as in `30d`. Who hasn't read for so long has to begin anew, and is told so
        #[arg(long, value_name = "AGE", value_parser = humantime::parse_duration)]
        older_than: Duration,
    },
    /// Take away what `install` has added, but for the index of cursor and key
    Uninstall(Which),
}

#[derive(Args)]
struct Which {
    /// The file that declares the tables, in TOML: `source`, the URL of the database, and `[[tables]]`, once for each.
    ///
    /// `name`: what it goes by. Where it isn't the usual: `table`, as in `shop.orders`; `cursor`, the column of the last change,
    /// `updated_at` by default; `key`, the primary key by default; `columns`, all by default; `filter`, a condition in SQL; `deletes`,
    /// `tombstones`, `soft` (with `soft_column`) or `none`; `consistency`, `strict`, `watched` or `best_effort`.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Only this table of the file
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Runtime::new().context("starting the runtime")?;
    runtime.block_on(async {
        match arguments.command {
            Command::Check(which) => check(&which).await,
            Command::Install { which, index } => {
                for (url, table) in which.tables()? {
                    let done = install(&url, table.clone(), index).await?;
                    tell(&table, &done)?;
                    if !index {
                        check_one(&url, table).await?;
                    }
                }
                Ok(ExitCode::SUCCESS)
            }
            Command::Purge { which, older_than } => {
                for (url, table) in which.tables()? {
                    let name = table.name.clone();
                    tell_purged(&name, &purge(&url, table, older_than).await?)?;
                }
                Ok(ExitCode::SUCCESS)
            }
            Command::Uninstall(which) => {
                for (url, table) in which.tables()? {
                    tell(&table, &uninstall(&url, table.clone()).await?)?;
                }
                Ok(ExitCode::SUCCESS)
            }
        }
    })
}

async fn check(which: &Which) -> anyhow::Result<ExitCode> {
    let mut is_ready = true;
    for (url, table) in which.tables()? {
        is_ready &= check_one(&url, table).await?;
    }
    Ok(if is_ready { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Says what a table lacks. Returns whether it lacks nothing.
async fn check_one(url: &str, table: TableConfig) -> anyhow::Result<bool> {
    let name = table.name.clone();
    let found = lacks(url, table).await?;
    if found.is_empty() {
        say(format_args!("{name}: can be read"))?;
    }
    for lack in &found {
        say(format_args!("{name}: {}\n  {}", lack.what, lack.remedy))?;
    }
    Ok(found.is_empty())
}

fn tell(table: &TableConfig, done: &[String]) -> anyhow::Result<()> {
    for statement in done {
        say(format_args!("{}: {statement}", table.name))?;
    }
    Ok(())
}

fn tell_purged(table: &str, purged: &Purged) -> anyhow::Result<()> {
    match purged {
        Purged { notes, up_to: Some(up_to) } => {
            say(format_args!("{table}: notes of deleted rows that were purged: {notes}, up to {up_to}"))
        }
        Purged { up_to: None, .. } => say(format_args!("{table}: nothing to purge")),
    }
}

impl Which {
    /// The tables, each with the URL of its database.
    fn tables(&self) -> anyhow::Result<Vec<(String, TableConfig)>> {
        let DeclaredTables { url, tables, .. } = tables_file::read(&self.file)?;
        let is_wanted = |table: &TableConfig| self.table.as_ref().is_none_or(|name| table.name == *name);
        let tables: Vec<_> = tables.into_iter().filter(is_wanted).map(|table| (url.clone(), table)).collect();
        match (&self.table, tables.is_empty()) {
            (Some(name), true) => bail!("{} declares no table `{name}`", self.file.display()),
            _ => Ok(tables),
        }
    }
}
