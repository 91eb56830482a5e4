//! The cargo that started this command, and where it puts what it builds.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

/// The root of the workspace.
pub(crate) fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("a crate lies two folders below the workspace")
}

/// A cargo command, run at the root of the workspace.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(workspace());
    command
}

/// The target folder: the one this command itself was built into.
pub(crate) fn target_folder() -> anyhow::Result<PathBuf> {
    let xtask = env::current_exe().context("looking for the target folder")?;
    let target = xtask.ancestors().nth(2).context("run this as `cargo xtask`, from its target folder")?;
    Ok(target.to_path_buf())
}

/// Where a binary of the workspace is after `cargo build`.
pub(crate) fn binary(name: &str) -> anyhow::Result<PathBuf> {
    Ok(target_folder()?.join("debug").join(name))
}
