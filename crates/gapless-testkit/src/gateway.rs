//! A running gateway, as a process that can be killed and frozen.

use std::env;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::process;

/// The environment variable with the path of the built `gapless`.
pub const GAPLESS_BIN: &str = "GAPLESS_BIN";

/// The path of the built `gapless` that [`GAPLESS_BIN`] names.
///
/// # Panics
///
/// When the variable is not set.
pub fn gapless_binary() -> PathBuf {
    let Some(path) = env::var_os(GAPLESS_BIN) else {
        panic!("run `cargo xtask test`, or set {GAPLESS_BIN} to the path of the built gapless");
    };
    PathBuf::from(path)
}

/// A running `gapless serve`, killed and reaped on drop.
///
/// Its address is the one it announces on standard output, as one line `listening on http://127.0.0.1:PORT`.
#[derive(Debug)]
pub struct Gateway {
    command: Command,
    folder: TempDir,
    running: Running,
}

impl Gateway {
    /// Starts `command` and waits until it has announced its address.
    ///
    /// Give it `--listen 127.0.0.1:0` for a port of its own, or a [`crate::free_port`] to come back on the same one.
    pub fn start(mut command: Command) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("gapless-gateway-")
            .tempdir()
            .context("making a temporary folder for the log of a gateway")?;
        let running = Running::start(&mut command, &folder)?;
        Ok(Self { command, folder, running })
    }

    /// Kills the process if it still runs, and starts the same command again.
    pub fn restart(&mut self) -> anyhow::Result<()> {
        self.kill_9()?;
        self.running = Running::start(&mut self.command, &self.folder)?;
        Ok(())
    }

    /// Kills the process at once and reaps it.
    pub fn kill_9(&mut self) -> anyhow::Result<()> {
        self.running.kill()
    }

    /// Asks the process to drain and exit (SIGTERM).
    pub fn terminate(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::SIGTERM)
    }

    /// Waits for the process to exit, at most for `patience`.
    pub fn wait_exit(&mut self, patience: Duration) -> anyhow::Result<ExitStatus> {
        process::wait_for_exit(&mut self.running.child, patience)?.ok_or_else(|| {
            anyhow!("the gateway still runs after {patience:?}; its log ends with:\n{}", self.log_tail())
        })
    }

    /// Stops the process where it stands (SIGSTOP): its sockets stay open and nobody answers.
    pub fn freeze(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::SIGSTOP)
    }

    /// Lets a frozen process go on (SIGCONT).
    pub fn thaw(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::SIGCONT)
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.running.address
    }

    /// Its address as `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.running.address)
    }

    /// The id of the process.
    pub fn pid(&self) -> u32 {
        self.running.child.id()
    }

    /// The memory of the process that is in RAM now.
    pub fn resident_bytes(&self) -> anyhow::Result<u64> {
        process::resident_bytes(self.running.pid())
    }

    /// All it wrote to standard error since it was last started.
    pub fn stderr(&self) -> String {
        let log = fs::read(stderr_file(&self.folder)).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    fn signal(&mut self, signal: Signal) -> anyhow::Result<()> {
        // After it was reaped, its id may belong to another process.
        if self.running.child.try_wait().context("looking after the gateway")?.is_some() {
            return Ok(());
        }
        process::send_signal(self.running.pid(), signal)
    }

    fn log_tail(&self) -> String {
        process::log_tail(&stderr_file(&self.folder))
    }
}

#[derive(Debug)]
struct Running {
    child: Child,
    address: SocketAddr,
    /// Reads standard output to its end, so that the process never blocks on writing it.
    reader: Option<JoinHandle<()>>,
}

impl Running {
    fn start(command: &mut Command, folder: &TempDir) -> anyhow::Result<Self> {
        let log = File::create(stderr_file(folder)).context("opening the log of a gateway")?;
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .with_context(|| format!("starting {}", command.get_program().display()))?;
        let (reader, announced) =
            read_output(child.stdout.take().context("the gateway has no standard output")?);
        let mut running = Self { child, address: SocketAddr::from(([0, 0, 0, 0], 0)), reader: Some(reader) };
        running.address = announced.recv_timeout(START_PATIENCE).map_err(|_| {
            let log = process::log_tail(&stderr_file(folder));
            anyhow!("the gateway did not print `{ANNOUNCEMENT}127.0.0.1:PORT`; its log ends with:\n{log}")
        })?;
        Ok(running)
    }

    fn pid(&self) -> Pid {
        process::pid_of(&self.child)
    }

    fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill().context("killing the gateway")?;
        self.child.wait().context("reaping the gateway")?;
        if let Some(reader) = self.reader.take() {
            reader.join().map_err(|_| anyhow!("reading the output of the gateway panicked"))?;
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill().ok();
    }
}

/// Passes on the address that is announced, and swallows all else.
fn read_output(stdout: ChildStdout) -> (JoinHandle<()>, Receiver<SocketAddr>) {
    let (announce, announced) = mpsc::sync_channel(1);
    let reader = thread::spawn(move || {
        let mut stdout = BufReader::new(stdout);
        let address = stdout
            .by_ref()
            .lines()
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix(ANNOUNCEMENT)?.trim().parse().ok());
        if let Some(address) = address {
            announce.send(address).ok();
        }
        drop(announce);
        io::copy(&mut stdout, &mut io::sink()).ok();
    });
    (reader, announced)
}

fn stderr_file(folder: &TempDir) -> PathBuf {
    folder.path().join("stderr.log")
}

const ANNOUNCEMENT: &str = "listening on http://";
const START_PATIENCE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;
