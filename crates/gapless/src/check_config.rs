//! `gapless check-config`: what counts, and where it comes from.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;

use crate::config_flags::{ConfigFlags, ServerFlags};
use crate::follow;
use crate::output::show;
use crate::tables_file;

/// Show the configuration that counts and where each value comes from, or what is wrong with it and the files of `chains.follow` and
/// `tables.serve`.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    config: ConfigFlags,
    #[command(flatten)]
    server: ServerFlags,
}

/// Prints the configuration with its secrets hidden; fails with everything that is wrong with it and the files that it
/// names.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let raw = arguments.config.gather(arguments.server.flags())?;
    show(raw.to_string().trim_end())?;
    let mut faults: Vec<String> = raw.check().err().iter().map(ToString::to_string).collect();
    if let Ok((_, chains, _)) = raw.check_following() {
        faults.extend(follow::read(&chains.follow).err().iter().map(ToString::to_string));
    }
    if let Ok(config) = raw.check() {
        faults.extend(
            tables_file::read_all(&config.tables.serve).err().iter().map(|error| format!("{error:#}")),
        );
    }
    if !faults.is_empty() {
        bail!("the configuration is wrong:\n{}", faults.join("\n"));
    }
    Ok(ExitCode::SUCCESS)
}
