//! Where the programs of PostgreSQL are.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::anyhow;

/// The folder that holds the programs of an installed PostgreSQL server.
#[derive(Debug, Clone)]
pub struct PostgresBinaries {
    folder: PathBuf,
}

impl PostgresBinaries {
    /// Looks where `pg_config` points, where distributions install the server, and in `PATH`.
    pub fn find() -> anyhow::Result<Self> {
        let path = env::var_os("PATH").unwrap_or_default();
        configured_folder()
            .into_iter()
            .chain(installed_folders())
            .chain(env::split_paths(&path))
            .find(|folder| SERVER_PROGRAMS.iter().all(|program| folder.join(program).is_file()))
            .map(|folder| Self { folder })
            .ok_or_else(|| anyhow!("no PostgreSQL server was found; install it: {INSTALL_COMMANDS}"))
    }

    /// A command that runs one of its programs.
    pub fn command(&self, program: &str) -> Command {
        Command::new(self.folder.join(program))
    }
}

const SERVER_PROGRAMS: [&str; 3] = ["initdb", "postgres", "psql"];

const INSTALL_COMMANDS: &str = "`apt-get install postgresql` on Debian and Ubuntu, \
    `dnf install postgresql-server` on Fedora, `pacman -S postgresql` on Arch";

fn configured_folder() -> Option<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").output().ok()?;
    Some(PathBuf::from(String::from_utf8(output.stdout).ok()?.trim()))
}

/// The folders of all versions that are installed side by side, newest first.
fn installed_folders() -> Vec<PathBuf> {
    let mut versions: Vec<_> = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().collect();
    versions.sort_by_key(|entry| version_of(&entry.path()));
    versions.iter().rev().map(|entry| entry.path().join("bin")).collect()
}

fn version_of(folder: &Path) -> Option<u32> {
    folder.file_name()?.to_str()?.parse().ok()
}
