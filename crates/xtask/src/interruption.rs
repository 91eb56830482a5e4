//! Ctrl-C and termination: the running step is stopped, and what was started for it is still put away.

use std::ffi::c_int;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use anyhow::{Context as _, bail};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

/// Catches signals for as long as it lives, and passes them on to the command that runs.
///
/// A second signal kills what the first did not end.
pub(crate) struct Interruption {
    state: Arc<Mutex<State>>,
    signals: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Interruption {
    pub(crate) fn watch() -> anyhow::Result<Self> {
        Self::by([SIGINT, SIGTERM])
    }

    /// Runs a command to its end, in a process group of its own so that all it started can be stopped with
    /// it.
    pub(crate) fn run(&self, command: &mut Command) -> anyhow::Result<ExitStatus> {
        let mut child = command
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
            .with_context(|| format!("starting {}", command.get_program().display()))?;
        lock(&self.state).started(Pid::from_raw(child.id().cast_signed()));
        let status = child.wait().context("waiting for a command")?;
        let interrupted = lock(&self.state).ended();
        if interrupted {
            bail!("interrupted");
        }
        Ok(status)
    }

    fn by<const COUNT: usize>(signals: [c_int; COUNT]) -> anyhow::Result<Self> {
        let mut signals = Signals::new(signals).context("watching for Ctrl-C")?;
        let state = Arc::<Mutex<State>>::default();
        let handle = signals.handle();
        let thread = thread::spawn({
            let state = state.clone();
            move || signals.forever().for_each(|_| lock(&state).interrupt())
        });
        Ok(Self { state, signals: handle, thread: Some(thread) })
    }
}

impl Drop for Interruption {
    fn drop(&mut self) {
        self.signals.close();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

#[derive(Default)]
struct State {
    interruptions: u32,
    group: Option<Pid>,
}

impl State {
    fn interrupt(&mut self) {
        self.interruptions += 1;
        self.pass_on();
    }

    fn started(&mut self, group: Pid) {
        self.group = Some(group);
        self.pass_on();
    }

    fn ended(&mut self) -> bool {
        self.group = None;
        self.interruptions > 0
    }

    fn pass_on(&self) {
        let signal = match self.interruptions {
            0 => return,
            1 => Signal::SIGINT,
            2.. => Signal::SIGKILL,
        };
        if let Some(group) = self.group {
            killpg(group, signal).ok();
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use signal_hook::consts::SIGUSR1;

    #[test]
    fn an_interruption_stops_the_running_command_and_all_it_started() {
        // Other tests of this process watch for Ctrl-C itself.
        let interruption = Interruption::by([SIGUSR1]).unwrap();
        assert!(interruption.run(&mut shell("exit 0")).unwrap().success());

        // The shell and the tail behind it would run for ever; a signal to us is what ends them.
        let error = interruption.run(&mut shell("kill -USR1 $PPID; tail -f /dev/null | cat")).unwrap_err();
        assert_eq!(error.to_string(), "interrupted");

        let error = interruption.run(&mut shell("tail -f /dev/null | cat")).unwrap_err();
        assert_eq!(error.to_string(), "interrupted", "a step after the interruption is stopped as well");
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }
}
