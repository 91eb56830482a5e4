//! `gapless migrate`: the schema, without serving.

use std::process::ExitCode;

use clap::Args;
use gapless_store::Migrated;

use crate::config_flags::{ConfigFlags, StoreFlag};
use crate::connection::block_on;
use crate::output::say;

/// Bring a database's schema up to date, without serving.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    config: ConfigFlags,
    #[command(flatten)]
    store: StoreFlag,
}

/// Brings the schema up to date and says what was done.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let store = arguments.config.gather(arguments.store.flags())?.check_store()?;
    let Migrated { version, applied } = block_on(async { Ok(gapless_store::migrate(&store).await?) })?;
    for migration in applied {
        say(format_args!("applied {migration}"))?;
    }
    say(format_args!("{store} has schema version {version}"))?;
    Ok(ExitCode::SUCCESS)
}
