//! Signals to processes, and what `/proc` tells of them.

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use nix::errno::Errno;
use nix::sys::signal::{self, Signal};
use nix::unistd::{Pid, geteuid};

use crate::polling::poll_until;

/// Whether this process may act as any user.
pub fn is_root() -> bool {
    geteuid().is_root()
}

/// A command whose process is killed once the thread that starts it is no more, however that ended: nobody else would, when a test is
/// killed. Where util-linux is missing, it is the plain command.
pub fn tied_command(program: &Path) -> Command {
    let folders = env::var_os("PATH").unwrap_or_default();
    let Some(setpriv) =
        env::split_paths(&folders).map(|folder| folder.join("setpriv")).find(|at| at.is_file())
    else {
        return Command::new(program);
    };
    let mut command = Command::new(setpriv);
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// The id of a child that has not been waited for.
pub(crate) fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed())
}

/// Sends `signal`; a process that is gone already is no error.
pub(crate) fn send_signal(pid: Pid, signal: Signal) -> anyhow::Result<()> {
    match signal::kill(pid, signal) {
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(errno) => Err(errno).with_context(|| format!("sending {signal} to process {pid}")),
    }
}

/// The processes whose parent is `parent`.
pub(crate) fn children_of(parent: Pid) -> anyhow::Result<Vec<Pid>> {
    let processes = fs::read_dir("/proc").context("listing /proc")?;
    Ok(processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .map(Pid::from_raw)
        .filter(|pid| status_of(*pid).is_some_and(|status| status.parent == parent))
        .collect())
}

/// Whether a process still runs code; one that is dead and waits for its parent doesn't.
pub(crate) fn is_running(pid: Pid) -> bool {
    status_of(pid).is_some_and(|status| !matches!(status.state, 'Z' | 'X'))
}

/// The memory of a process that is in RAM now.
pub(crate) fn resident_bytes(pid: Pid) -> anyhow::Result<u64> {
    memory(pid, "VmRSS:")
}

/// The most memory that a process has had in RAM at any time until now.
pub fn peak_resident_bytes(pid: u32) -> anyhow::Result<u64> {
    memory(Pid::from_raw(pid.cast_signed()), "VmHWM:")
}

fn memory(pid: Pid, field: &str) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))
        .with_context(|| format!("process {pid} is not running"))?;
    let kibibytes: u64 = status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.trim().strip_suffix(" kB")?.parse().ok())
        .ok_or_else(|| anyhow!("/proc/{pid}/status has no {field} the process has exited"))?;
    Ok(kibibytes * 1024)
}

/// Waits for `child` to exit, at most for `patience`.
pub(crate) fn wait_for_exit(child: &mut Child, patience: Duration) -> anyhow::Result<Option<ExitStatus>> {
    poll_until(patience, || child.try_wait().context("waiting for a process"))
}

/// The end of a log file, for an error message.
pub(crate) fn log_tail(path: &Path) -> String {
    let log = fs::read(path).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let lines: Vec<_> = log.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

struct Status {
    state: char,
    parent: Pid,
}

fn status_of(pid: Pid) -> Option<Status> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program, in parentheses, may itself contain spaces and parentheses.
    let (_, after_name) = stat.rsplit_once(") ")?;
    let mut fields = after_name.split(' ');
    Some(Status {
        state: fields.next()?.chars().next()?,
        parent: Pid::from_raw(fields.next()?.parse().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader};
    use std::process::Stdio;

    #[test]
    fn a_killed_child_is_not_running_even_before_it_is_reaped() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = pid_of(&child);
        assert!(is_running(pid));
        assert!(children_of(Pid::this()).unwrap().contains(&pid));

        send_signal(pid, Signal::SIGKILL).unwrap();
        let died = poll_until(Duration::from_secs(10), || Ok((!is_running(pid)).then_some(()))).unwrap();
        assert_eq!(died, Some(()));

        child.wait().unwrap();
        assert!(!children_of(Pid::this()).unwrap().contains(&pid));
    }

    #[test]
    fn a_signal_to_a_process_that_is_gone_is_no_error() {
        let mut child = Command::new("true").spawn().unwrap();
        let pid = pid_of(&child);
        child.wait().unwrap();
        send_signal(pid, Signal::SIGTERM).unwrap();
    }

    #[test]
    fn waiting_for_a_process_that_stays_ends_without_an_answer() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert_eq!(wait_for_exit(&mut child, Duration::ZERO).unwrap(), None);

        drop(child.stdin.take());
        let status = wait_for_exit(&mut child, Duration::from_secs(10)).unwrap().unwrap();
        assert!(status.success());
    }

    #[test]
    fn a_tied_process_does_not_outlive_a_parent_that_is_killed() {
        let mut tied = tied_command(Path::new("tail"));
        tied.args(["-f", "/dev/null"]);
        let mut parent = Command::new("bash");
        parent.args(["-c", "\"$@\" & echo $!; wait", "bash"]).arg(tied.get_program()).args(tied.get_args());
        let mut parent = parent.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(parent.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let child = Pid::from_raw(line.trim().parse().unwrap());
        let is_tied = || {
            let program = fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
            Ok(program.starts_with("tail").then_some(()))
        };
        poll_until(Duration::from_secs(10), is_tied).unwrap().unwrap();

        parent.kill().unwrap();
        parent.wait().unwrap();
        let died = poll_until(Duration::from_secs(10), || Ok((!is_running(child)).then_some(()))).unwrap();
        assert_eq!(died, Some(()));
    }

    #[test]
    fn resident_memory_of_this_process_is_known() {
        assert!(resident_bytes(Pid::this()).unwrap() > 100 * 1024);
    }
}
