//! A private PostgreSQL server that can be killed and brought back.

mod binaries;
pub(crate) mod database;

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use nix::sys::signal::Signal;
use nix::unistd::{Gid, Uid, User, chown};
use tempfile::TempDir;

pub use self::binaries::PostgresBinaries;
use crate::polling::poll_until;
use crate::port::free_port;
use crate::process::{self, is_root};

/// A PostgreSQL cluster of its own in a temporary folder, flushing every commit to disk.
///
/// It listens on a private port of 127.0.0.1, trusts everyone there, and is stopped and deleted on drop. Run by
/// root, it runs as the user `postgres`, since PostgreSQL refuses root.
#[derive(Debug)]
pub struct Postgres {
    binaries: PostgresBinaries,
    account: Option<Account>,
    folder: TempDir,
    port: u16,
    server: Option<Child>,
}

impl Postgres {
    /// Makes a new cluster and starts it; returns when it accepts connections.
    pub fn start() -> anyhow::Result<Self> {
        Self::start_with("")
    }

    /// The same with further settings, as they stand in `postgresql.conf`.
    pub fn start_with(settings: &str) -> anyhow::Result<Self> {
        let mut postgres = Self::create(PostgresBinaries::find()?)?;
        postgres.configure(settings)?;
        for _ in 0..PORT_ATTEMPTS {
            postgres.port = free_port();
            match postgres.start_server() {
                Err(error) if postgres.port_was_taken() => drop(error),
                Err(error) => return Err(error),
                Ok(()) => return Ok(postgres),
            }
        }
        bail!(
            "each of {PORT_ATTEMPTS} free ports was taken by another process before PostgreSQL could listen there"
        )
    }

    /// The URL of the superuser's database `postgres`.
    pub fn url(&self) -> String {
        self.url_for("postgres")
    }

    /// The superuser's URL of a database.
    pub fn url_for(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// The port of 127.0.0.1 it listens on, for its whole life.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where the server's log is written.
    pub fn log_file(&self) -> PathBuf {
        self.folder.path().join("postgres.log")
    }

    /// Creates an empty database with a name of its own and returns its URL.
    pub fn create_database(&self) -> anyhow::Result<String> {
        database::create(&self.binaries, &self.url())
    }

    /// Kills the server and all its processes, as if the power had failed; they are gone when this returns.
    pub fn kill_9(&mut self) -> anyhow::Result<()> {
        let Some(mut server) = self.server.take() else {
            return Ok(());
        };
        let pid = process::pid_of(&server);
        // A stopped postmaster starts no further children while they are listed.
        process::send_signal(pid, Signal::SIGSTOP)?;
        let children = process::children_of(pid)?;
        process::send_signal(pid, Signal::SIGKILL)?;
        for child in &children {
            process::send_signal(*child, Signal::SIGKILL)?;
        }
        server.wait().context("reaping PostgreSQL")?;
        poll_until(STOP_PATIENCE, || {
            Ok((!children.iter().any(|child| process::is_running(*child))).then_some(()))
        })?
        .ok_or_else(|| anyhow!("processes of PostgreSQL outlived SIGKILL by {STOP_PATIENCE:?}"))
    }

    /// Starts the server again on the same port and data, after stopping it if it runs.
    ///
    /// Returns when it has recovered and accepts connections.
    pub fn restart(&mut self) -> anyhow::Result<()> {
        self.stop()?;
        self.start_server()
    }

    /// Starts the server again so that it also takes encrypted connections, with a certificate and its key in PEM.
    pub fn restart_with_tls(&mut self, certificate: &str, key: &str) -> anyhow::Result<()> {
        self.stop()?;
        for (name, text) in [("server.crt", certificate), ("server.key", key)] {
            let path = self.data_folder().join(name);
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
            file.write_all(text.as_bytes())?;
            if let Some(account) = self.account {
                chown(&path, Some(account.user), Some(account.group))?;
            }
        }
        self.configure("ssl = on\n")?;
        self.start_server()
    }

    /// Shuts the server down; open transactions are rolled back and connections closed.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        let Some(server) = &mut self.server else {
            return Ok(());
        };
        process::send_signal(process::pid_of(server), Signal::SIGINT)?;
        match process::wait_for_exit(server, STOP_PATIENCE)? {
            Some(_) => self.server = None,
            None => self.kill_9()?,
        }
        Ok(())
    }

    fn create(binaries: PostgresBinaries) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("gapless-postgres-")
            .tempdir()
            .context("making a temporary folder for PostgreSQL")?;
        let account = if is_root() { Some(Account::find()?) } else { None };
        if let Some(account) = account {
            chown(folder.path(), Some(account.user), Some(account.group))
                .context("giving PostgreSQL its folder")?;
        }
        let postgres = Self { binaries, account, folder, port: 0, server: None };
        postgres.initialise()?;
        Ok(postgres)
    }

    fn initialise(&self) -> anyhow::Result<()> {
        let output = self
            .command("initdb")
            .args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"])
            .args(["--no-sync", "--no-instructions", "--pgdata"])
            .arg(self.data_folder())
            .output()
            .context("running initdb")?;
        if !output.status.success() {
            bail!("initdb failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        self.configure(SETTINGS)
    }

    fn configure(&self, settings: &str) -> anyhow::Result<()> {
        OpenOptions::new()
            .append(true)
            .open(self.data_folder().join("postgresql.conf"))
            .and_then(|mut file| file.write_all(settings.as_bytes()))
            .context("writing postgresql.conf")
    }

    fn start_server(&mut self) -> anyhow::Result<()> {
        let log = File::create(self.log_file()).context("opening the log of PostgreSQL")?;
        let server = self
            .command("postgres")
            .arg("-D")
            .arg(self.data_folder())
            .arg("-p")
            .arg(self.port.to_string())
            .stdout(log.try_clone().context("opening the log of PostgreSQL")?)
            .stderr(log)
            .spawn()
            .context("starting PostgreSQL")?;
        let server = self.server.insert(server);
        let pid_file = self.folder.path().join("data/postmaster.pid");
        let ready = poll_until(START_PATIENCE, || {
            if let Some(status) = server.try_wait().context("waiting for PostgreSQL")? {
                bail!("PostgreSQL ended while starting, with {status}");
            }
            Ok(is_ready(&pid_file, server.id()).then_some(()))
        });
        match ready {
            Ok(Some(())) => Ok(()),
            Ok(None) => {
                Err(self.start_failure(&anyhow!("PostgreSQL was not ready after {START_PATIENCE:?}")))
            }
            Err(error) => Err(self.start_failure(&error)),
        }
    }

    fn start_failure(&mut self, error: &anyhow::Error) -> anyhow::Error {
        let log = process::log_tail(&self.log_file());
        match self.kill_9() {
            Ok(()) => anyhow!("{error}; its log ends with:\n{log}"),
            Err(kill) => anyhow!("{error}, and could not be killed: {kill}; its log ends with:\n{log}"),
        }
    }

    fn port_was_taken(&self) -> bool {
        process::log_tail(&self.log_file()).contains("Address already in use")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = self.binaries.command(program);
        if let Some(account) = self.account {
            command.uid(account.user.as_raw()).gid(account.group.as_raw());
        }
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    fn data_folder(&self) -> PathBuf {
        self.folder.path().join("data")
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if self.stop().is_err() {
            self.kill_9().ok();
        }
    }
}

/// The user that PostgreSQL runs as when root starts it.
#[derive(Debug, Clone, Copy)]
struct Account {
    user: Uid,
    group: Gid,
}

impl Account {
    fn find() -> anyhow::Result<Self> {
        let user =
            User::from_name("postgres").context("looking for the user postgres")?.ok_or_else(|| {
                anyhow!("PostgreSQL refuses root and there is no user postgres; run `useradd postgres`")
            })?;
        Ok(Self { user: user.uid, group: user.gid })
    }
}

/// Whether the server wrote into its pid file that it accepts connections; one that crashed leaves its file behind.
fn is_ready(pid_file: &Path, pid: u32) -> bool {
    let file = fs::read_to_string(pid_file).unwrap_or_default();
    let mut lines = file.lines();
    lines.next() == Some(&pid.to_string()) && lines.last().is_some_and(|status| status.trim() == "ready")
}

const PORT_ATTEMPTS: u32 = 5;
const START_PATIENCE: Duration = Duration::from_secs(60);
const STOP_PATIENCE: Duration = Duration::from_secs(30);

const SETTINGS: &str = "
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 200
fsync = on
synchronous_commit = on
";

#[cfg(test)]
mod tests;
