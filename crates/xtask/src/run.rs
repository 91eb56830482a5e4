//! `cargo xtask run`: a server to try, with a demo conversation in it.

use std::env;
use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::cargo::{binary, cargo, target_folder};

/// Where the server listens if nobody says otherwise.
const ADDRESS: &str = "127.0.0.1:7700";

/// Builds gapless and becomes `gapless serve`, so that signals reach it directly.
pub(crate) fn run(arguments: Vec<String>) -> anyhow::Result<()> {
    if !arguments.iter().any(|argument| is_flag(argument, "--listen")) {
        check_is_free(ADDRESS)?;
    }
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

/// Tells at once how to run beside what listens there; the server itself couldn't say how it was started.
fn check_is_free(address: &str) -> anyhow::Result<()> {
    match TcpListener::bind(address) {
        Ok(_) => Ok(()),
        Err(error) => bail!(
            "can't listen on {address} ({error}); stop what listens there, perhaps another `cargo xtask run`, or run beside it: \
             cargo xtask run -- --listen 127.0.0.1:7701 --store sqlite:target/run/second.db"
        ),
    }
}

/// The defaults of this command, but for those that were typed.
fn serve_arguments(typed: Vec<String>, database: &Path) -> Vec<String> {
    let store = format!("sqlite:{}", database.display());
    let defaults = [("--listen", ADDRESS), ("--auth", "open"), ("--store", &store)];
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

    #[test]
    fn an_address_that_is_taken_is_told_with_how_to_run_beside_it() {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = first.local_addr().unwrap().to_string();
        let error = check_is_free(&address).unwrap_err().to_string();
        assert!(error.contains(&address) && error.contains("-- --listen 127.0.0.1:7701 --store"), "{error}");
        check_is_free("127.0.0.1:0").unwrap();
    }

    fn served(typed: &[&str]) -> String {
        let typed = typed.iter().map(|&argument| argument.to_owned()).collect();
        serve_arguments(typed, Path::new("target/run/gapless.db")).join(" ")
    }
}
