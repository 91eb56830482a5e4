//! `cargo xtask run`: a server to try, with a demo conversation in it.

use std::env;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::cargo::{binary, cargo, target_folder};

/// Builds gapless and becomes `gapless serve`, so that signals reach it directly.
pub(crate) fn run(arguments: Vec<String>) -> anyhow::Result<()> {
    let built = cargo(&["build", "--package", "gapless"]).status().context("starting cargo")?;
    if !built.success() {
        bail!("gapless could not be built; what cargo says is above");
    }
    let folder = target_folder()?.join("run");
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let database = from_here(folder.join("gapless.db"));
    eprintln!("the conversations are kept in {}; delete it to start afresh", database.display());

    let gapless = from_here(binary("gapless")?);
    let error = Command::new(&gapless).arg("serve").args(serve_arguments(arguments, &database)).exec();
    Err(error).with_context(|| format!("starting {}", gapless.display()))
}

/// The defaults of this command, but for those that were typed.
fn serve_arguments(typed: Vec<String>, database: &Path) -> Vec<String> {
    let store = format!("sqlite:{}", database.display());
    let defaults = [("--listen", "127.0.0.1:7700"), ("--auth", "open"), ("--store", &store)];
    let missing =
        defaults.into_iter().filter(|(flag, _)| !typed.iter().any(|argument| is_flag(argument, flag)));
    let mut arguments: Vec<_> =
        missing.flat_map(|(flag, value)| [flag.to_owned(), value.to_owned()]).collect();
    arguments.push("--demo".to_owned());
    arguments.extend(typed);
    arguments
}

fn is_flag(argument: &str, flag: &str) -> bool {
    argument.strip_prefix(flag).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
}

/// A path as one would type it in the current folder.
fn from_here(path: PathBuf) -> PathBuf {
    let here = env::current_dir().unwrap_or_default();
    path.strip_prefix(here).map(Path::to_path_buf).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_typed_serves_the_demo_on_the_embedded_store() {
        assert_eq!(
            served(&[]),
            "--listen 127.0.0.1:7700 --auth open --store sqlite:target/run/gapless.db --demo"
        );
    }

    #[test]
    fn what_was_typed_replaces_its_default() {
        assert_eq!(
            served(&["--listen=127.0.0.1:1", "--store", "postgres://", "--auth-x"]),
            "--auth open --demo --listen=127.0.0.1:1 --store postgres:// --auth-x"
        );
    }

    fn served(typed: &[&str]) -> String {
        let typed = typed.iter().map(|&argument| argument.to_owned()).collect();
        serve_arguments(typed, Path::new("target/run/gapless.db")).join(" ")
    }
}
