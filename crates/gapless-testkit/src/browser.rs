//! Where a browser is, and what steers it.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};

/// Names the folder into which npm has installed [`BROWSER_PACKAGE`].
pub const GAPLESS_TEST_BROWSER: &str = "GAPLESS_TEST_BROWSER";

/// The package of npm that steers a browser from Node.
pub const BROWSER_PACKAGE: &str = "playwright-core@1.65.1";

/// Finds Chromium in `PATH`. A test that needs it must not pass without it.
pub fn chromium_binary() -> anyhow::Result<PathBuf> {
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders)
        .map(|folder| folder.join("chromium"))
        .find(|path| path.is_file())
        .ok_or_else(|| anyhow!("there is no chromium; install it (Debian: `apt-get install chromium`)"))
}

/// The folder of the package that steers a browser. A test that needs it must not pass without it.
pub fn browser_folder() -> anyhow::Result<PathBuf> {
    let folder = env::var_os(GAPLESS_TEST_BROWSER).map(PathBuf::from).with_context(|| {
        format!("run `npm install --prefix FOLDER {BROWSER_PACKAGE}` and set {GAPLESS_TEST_BROWSER} to that folder")
    })?;
    match has_browser_package(&folder) {
        true => Ok(folder),
        false => {
            Err(anyhow!("{GAPLESS_TEST_BROWSER} is {}, which has no {BROWSER_PACKAGE}", folder.display()))
        }
    }
}

/// Whether npm has installed the package into a folder.
pub fn has_browser_package(folder: &Path) -> bool {
    folder.join("node_modules/playwright-core/package.json").is_file()
}
