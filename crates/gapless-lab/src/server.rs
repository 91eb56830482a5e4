//! A real server: the `gapless` binary, as users run it.

use std::env;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail};
use gapless_testkit::{GAPLESS_BIN, Gateway};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// How long a server may take to drain.
const STOP_PATIENCE: Duration = Duration::from_secs(30);

/// Finds the `gapless` to examine: the one that the environment names, else the one beside this program.
fn gapless_binary() -> anyhow::Result<PathBuf> {
    if let Some(path) = env::var_os(GAPLESS_BIN) {
        return Ok(PathBuf::from(path));
    }
    let beside = env::current_exe().context("looking for gapless")?.with_file_name("gapless");
    if !beside.is_file() {
        bail!(
            "there is no {}; run `cargo build --package gapless` with the same profile, or set {GAPLESS_BIN}",
            beside.display()
        );
    }
    Ok(beside)
}

/// Starts a server on a store, open to everyone on this machine.
pub(crate) async fn serve(store_url: &str) -> anyhow::Result<Gateway> {
    serve_with(store_url, &[]).await
}

/// The same, with further arguments.
pub(crate) async fn serve_with(store_url: &str, arguments: &[&str]) -> anyhow::Result<Gateway> {
    let mut command = gapless_command()?;
    command.args(["serve", "--listen", "127.0.0.1:0", "--auth", "open", "--store", store_url]);
    command.args(arguments);
    tokio::task::spawn_blocking(move || Gateway::start(command)).await?
}

/// Starts one at an address, with settings by their names in the configuration, as in `chains.confirmations`.
pub(crate) async fn serve_at(
    store_url: &str,
    listen: SocketAddr,
    settings: &[(&str, String)],
) -> anyhow::Result<Gateway> {
    let mut command = gapless_command()?;
    command.args(["serve", "--auth", "open", "--store", store_url, "--listen", &listen.to_string()]);
    for (name, value) in settings {
        command.env(format!("GAPLESS_{}", name.replace('.', "_").to_uppercase()), value);
    }
    tokio::task::spawn_blocking(move || Gateway::start(command)).await?
}

/// The command `gapless`, without arguments.
pub(crate) fn gapless_command() -> anyhow::Result<Command> {
    let mut command = Command::new(gapless_binary()?);
    // Whoever runs the lab may have a server of their own configured.
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("GAPLESS_")) {
        command.env_remove(name);
    }
    Ok(command)
}

/// Stops a server as an operator would, and waits until it has ended.
pub(crate) async fn stop(mut server: Gateway) -> anyhow::Result<()> {
    let stopping = move || {
        server.terminate()?;
        server.wait_exit(STOP_PATIENCE)
    };
    let status = tokio::task::spawn_blocking(stopping).await??;
    if !status.success() {
        bail!("the server ended with {status}");
    }
    Ok(())
}

/// Lets this process, and those that it starts, have as many open files as the system permits. Returns how many.
pub(crate) fn raise_open_files() -> anyhow::Result<u64> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).context("asking for the limit of open files")?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).context("raising the limit of open files")?;
    Ok(hard)
}
