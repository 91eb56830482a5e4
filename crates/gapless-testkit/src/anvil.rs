//! Where the development node of a chain is, and how it is started.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::anyhow;

use crate::process::tied_command;

/// Names the program `anvil`; otherwise it is looked for in `PATH`.
pub const GAPLESS_TEST_ANVIL: &str = "GAPLESS_TEST_ANVIL";

/// The package of npm that has it.
pub const ANVIL_PACKAGE: &str = "@foundry-rs/anvil@1.7.1";

/// Finds anvil. A test that needs it must not pass without it.
pub fn anvil_binary() -> anyhow::Result<PathBuf> {
    let named = env::var_os(GAPLESS_TEST_ANVIL).map(PathBuf::from);
    let folders = env::var_os("PATH").unwrap_or_default();
    let in_path =
        || env::split_paths(&folders).map(|folder| folder.join("anvil")).find(|path| path.is_file());
    named.or_else(in_path).ok_or_else(|| {
        anyhow!(
            "there is no anvil; run `npm install {ANVIL_PACKAGE}` and set {GAPLESS_TEST_ANVIL} to \
             node_modules/@foundry-rs/anvil-linux-amd64/bin/anvil, or have it in PATH"
        )
    })
}

/// Prepares to start anvil, so that it doesn't outlive a test that is killed.
pub fn anvil_command() -> anyhow::Result<Command> {
    Ok(tied_command(&anvil_binary()?))
}

/// Where npm puts it that installs into a folder.
pub fn anvil_in(folder: &Path) -> PathBuf {
    let machine = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    folder.join(format!("node_modules/@foundry-rs/anvil-linux-{machine}/bin/anvil"))
}
