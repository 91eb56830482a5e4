//! Typing commands and reading what they say.

use std::fmt;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use gapless_testkit::{Gateway, free_port};
use tempfile::TempDir;

pub(crate) const SECRET: &str = "the secret of the servers that these tests start";

/// What a command said.
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The command as nobody has configured it: none of our variables is set.
pub(crate) fn gapless(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gapless"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("GAPLESS_")) {
        command.env_remove(name);
    }
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs a command to its end.
pub(crate) fn run(arguments: &[&str]) -> Said {
    said(&mut gapless(arguments))
}

pub(crate) fn said(command: &mut Command) -> Said {
    Said::of(command.output().unwrap())
}

impl Said {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// What was printed by a command that succeeded.
    pub(crate) fn printed(&self) -> &str {
        assert_eq!(self.code, Some(0), "{self}");
        self.stdout.trim_end()
    }

    /// What was complained of by a command that failed.
    pub(crate) fn complained(&self) -> &str {
        assert_eq!(self.code, Some(1), "{self}");
        self.stderr.trim_end()
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exit code {:?}\n{}\n{}", self.code, self.stdout, self.stderr)
    }
}

/// A server on a database in `folder`, with further arguments; on a port of its own, to which it comes back.
pub(crate) fn serve(folder: &TempDir, arguments: &[&str]) -> Gateway {
    let store = store_in(folder.path());
    let listen = format!("127.0.0.1:{}", free_port());
    let mut command = gapless(&["serve", "--listen", &listen, "--store", &store]);
    command.args(arguments);
    Gateway::start(command).unwrap()
}

/// The lines that a child prints, as they come.
pub(crate) fn lines_of(child: &mut Child) -> Receiver<String> {
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let (sender, lines) = channel();
    // Ends with the pipe, or when nobody takes its lines.
    thread::spawn(move || {
        for line in stdout.lines() {
            let Ok(line) = line else { return };
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

pub(crate) fn store_in(folder: &Path) -> String {
    format!("sqlite:{}", folder.join("gapless.db").display())
}

/// Runs `gapless admin` against a server.
pub(crate) fn admin(server: &Gateway, arguments: &[&str]) -> Said {
    let url = server.url();
    let mut all = vec!["admin", "--url", &url];
    all.extend(arguments);
    run(&all)
}
