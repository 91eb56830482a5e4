//! `gapless check-config`: what counts, and where it comes from.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;

use crate::config_flags::{ConfigFlags, ServerFlags};
use crate::output::show;

/// Show the configuration that counts and where each value comes from, or what is wrong with it.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    config: ConfigFlags,
    #[command(flatten)]
    server: ServerFlags,
}

/// Prints the configuration with its secrets hidden; fails with everything that is wrong with it.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let raw = arguments.config.gather(arguments.server.flags())?;
    show(raw.to_string().trim_end())?;
    if let Err(errors) = raw.check() {
        bail!("the configuration is wrong:\n{errors}");
    }
    Ok(ExitCode::SUCCESS)
}
