//! What the tests need from the machine, and how it gets there.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use gapless_testkit::{
    ANVIL_PACKAGE, BROWSER_PACKAGE, PostgresBinaries, anvil_binary, anvil_in, browser_folder,
    chromium_binary, has_browser_package, is_root,
};

use crate::cargo::{cargo, target_folder};

/// Installs what is missing, where that is possible without asking.
///
/// Fails with all that is still missing and how to install it.
pub(crate) fn meet(requirements: &[Requirement]) -> anyhow::Result<()> {
    let mut lacking = Vec::new();
    for requirement in requirements {
        if let Err(error) = requirement.meet() {
            lacking.push(format!("- {requirement:?}: {error:#}"));
        }
    }
    if !lacking.is_empty() {
        bail!("this machine lacks something:\n{}", lacking.join("\n"));
    }
    Ok(())
}

/// Something that is not built with the workspace.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Requirement {
    Rustfmt,
    Clippy,
    PostgreSql,
    Anvil,
    Browser,
}

impl Requirement {
    pub(crate) const ALL: [Self; 5] =
        [Self::Rustfmt, Self::Clippy, Self::PostgreSql, Self::Anvil, Self::Browser];

    fn meet(self) -> anyhow::Result<()> {
        match self {
            Self::Rustfmt => meet_component("rustfmt", &["fmt", "--version"]),
            Self::Clippy => meet_component("clippy", &["clippy", "--version"]),
            Self::PostgreSql => meet_postgres(),
            Self::Anvil => anvil().map(drop),
            Self::Browser => browser().map(drop),
        }
    }
}

fn meet_component(component: &str, check: &[&str]) -> anyhow::Result<()> {
    let is_there = || {
        let output = cargo(check).stdout(Stdio::null()).stderr(Stdio::null()).status();
        output.is_ok_and(|status| status.success())
    };
    if is_there() || (succeeds(Command::new("rustup").args(["component", "add", component])) && is_there()) {
        return Ok(());
    }
    bail!("run `rustup component add {component}`, or install it as you installed Rust")
}

fn meet_postgres() -> anyhow::Result<()> {
    let Err(missing) = PostgresBinaries::find() else {
        return Ok(());
    };
    if !is_root() || !in_path("apt-get") {
        return Err(missing);
    }
    install_postgres()?;
    PostgresBinaries::find().map(drop)
}

/// Finds the development node of a chain; installs it beside what is built if there is none.
pub(crate) fn anvil() -> anyhow::Result<PathBuf> {
    let Err(missing) = anvil_binary() else {
        return anvil_binary();
    };
    let folder = target_folder()?.join("anvil");
    let anvil = anvil_in(&folder);
    if anvil.is_file() {
        return Ok(anvil);
    }
    if !npm_install(ANVIL_PACKAGE, &folder)? {
        return Err(missing);
    }
    if !anvil.is_file() {
        bail!("`npm install {ANVIL_PACKAGE}` brought no anvil; what it says is above");
    }
    Ok(anvil)
}

/// Finds a browser, and the folder of what steers it; installs what is missing of the two.
pub(crate) fn browser() -> anyhow::Result<PathBuf> {
    if let Err(missing) = chromium_binary() {
        if !is_root() || !in_path("apt-get") {
            return Err(missing);
        }
        eprintln!("installing Chromium");
        apt_get(&["update"])?;
        apt_get(&["install", "--yes", "--no-install-recommends", "chromium"])?;
    }
    let Err(missing) = browser_folder() else {
        return browser_folder();
    };
    let folder = target_folder()?.join("browser");
    if !has_browser_package(&folder) && !npm_install(BROWSER_PACKAGE, &folder)? {
        return Err(missing);
    }
    Ok(folder)
}

/// Has npm install a package into a folder; false where there is no npm and none can be had.
fn npm_install(package: &str, folder: &Path) -> anyhow::Result<bool> {
    if !in_path("npm") && is_root() && in_path("apt-get") {
        apt_get(&["update"])?;
        apt_get(&["install", "--yes", "--no-install-recommends", "npm"])?;
    }
    if !in_path("npm") {
        return Ok(false);
    }
    eprintln!("installing {package}");
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--prefix"]).arg(folder).arg(package);
    if !succeeds(&mut npm) {
        bail!("`npm install {package}` failed; what it says is above");
    }
    Ok(true)
}

/// Installs the server alone: the cluster that Debian would make and start beside it is not wanted.
fn install_postgres() -> anyhow::Result<()> {
    eprintln!("installing PostgreSQL");
    let no_cluster = Path::new("/etc/postgresql-common/createcluster.d/gapless.conf");
    let folder = no_cluster.parent().context("the file has a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    fs::write(no_cluster, "create_main_cluster = false\n").context("telling Debian to make no cluster")?;
    let installed = apt_get(&["update"])
        .and_then(|()| apt_get(&["install", "--yes", "--no-install-recommends", "postgresql"]));
    fs::remove_file(no_cluster).with_context(|| format!("removing {}", no_cluster.display()))?;
    installed
}

fn apt_get(arguments: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new("apt-get");
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
    if !succeeds(&mut command) {
        bail!("`apt-get {}` failed; what it says is above", arguments.join(" "));
    }
    Ok(())
}

fn succeeds(command: &mut Command) -> bool {
    command.status().is_ok_and(|status| status.success())
}

fn in_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
