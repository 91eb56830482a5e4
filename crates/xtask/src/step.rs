//! One step of a run, and what became of it.

use std::fmt::{self, Display, Formatter};
use std::io::{self, BufReader};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};

use crate::interruption::Interruption;
use crate::sieve::{self, Sieve};

/// A named command that must succeed.
pub(crate) struct Step {
    pub(crate) name: String,
    command: Command,
    kind: Kind,
}

enum Kind {
    Plain,
    /// It is `cargo test`, of the tests that this selects.
    Tests {
        filter: Option<String>,
    },
}

impl Step {
    pub(crate) fn new(name: impl Into<String>, command: Command) -> Self {
        Self { name: name.into(), command, kind: Kind::Plain }
    }

    /// Runs `cargo test`, which must find something to run.
    pub(crate) fn of_tests(command: Command, filter: Option<&str>) -> Self {
        let filter = filter.map(str::to_owned);
        Self { name: "test".to_owned(), command, kind: Kind::Tests { filter } }
    }
}

/// Carries out steps one by one, and remembers how long each took.
pub(crate) struct Run {
    interruption: Interruption,
    finished: Vec<Finished>,
}

impl Run {
    pub(crate) fn start() -> anyhow::Result<Self> {
        Ok(Self { interruption: Interruption::watch()?, finished: Vec::new() })
    }

    pub(crate) fn carry_out(&mut self, mut step: Step) -> anyhow::Result<()> {
        eprintln!("\n=== {}: {}", step.name, shown(&step.command));
        let start = Instant::now();
        let outcome = match &step.kind {
            Kind::Plain => self.run_plainly(&step.name, &mut step.command),
            Kind::Tests { filter } => self.run_tests(filter.as_deref(), &mut step.command),
        };
        self.finished.push(Finished {
            name: step.name,
            duration: start.elapsed(),
            succeeded: outcome.is_ok(),
        });
        outcome
    }

    fn run_plainly(&self, name: &str, command: &mut Command) -> anyhow::Result<()> {
        if !self.interruption.run(command)?.success() {
            bail!("{name} failed; what it says is above");
        }
        Ok(())
    }

    fn run_tests(&self, filter: Option<&str>, command: &mut Command) -> anyhow::Result<()> {
        let (output, input) = io::pipe().context("making a pipe for the output of the tests")?;
        let sifting = thread::spawn(|| sieve::sift(BufReader::new(output)));
        let stdout = input.try_clone().context("making a pipe for the output of the tests")?;
        let stderr = input.try_clone().context("making a pipe for the output of the tests")?;
        let status = self.interruption.run(command.stdout(stdout).stderr(stderr));
        sieve::end(input).context("ending the output of the tests")?;
        let sieve = sifting.join().map_err(|_| anyhow!("reading the output of the tests panicked"))?;
        judge(status?.success(), &sieve, filter)
    }

    pub(crate) fn summary(&self) -> Summary<'_> {
        Summary(&self.finished)
    }
}

/// What became of the tests.
fn judge(succeeded: bool, sieve: &Sieve, filter: Option<&str>) -> anyhow::Result<()> {
    if !succeeded && !sieve.failed().is_empty() {
        bail!("these tests failed; what they say is above:\n  {}", sieve.failed().join("\n  "));
    }
    if !succeeded {
        bail!("test failed; what it says is above");
    }
    if sieve.tests() == 0 {
        let filter = filter.unwrap_or_default();
        bail!(
            "no test has `{filter}` in its name; `cargo test --workspace -- --list` lists the names there are"
        );
    }
    Ok(())
}

struct Finished {
    name: String,
    duration: Duration,
    succeeded: bool,
}

/// A line for each step that was carried out, and one for all.
pub(crate) struct Summary<'a>(&'a [Finished]);

impl Display for Summary<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        for step in self.0 {
            let outcome = if step.succeeded { "ok" } else { "FAILED" };
            writeln!(formatter, "{:<28} {:>9}  {outcome}", step.name, seconds(step.duration))?;
        }
        let total = self.0.iter().map(|step| step.duration).sum();
        write!(formatter, "{:<28} {:>9}", "total", seconds(total))
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

fn shown(command: &Command) -> String {
    let program = command.get_program().as_ref() as &std::path::Path;
    let name = program.file_name().unwrap_or(command.get_program());
    [name]
        .into_iter()
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_ends_the_run_and_stands_in_the_summary() {
        let mut run = Run::start().unwrap();
        run.carry_out(Step::new("first", Command::new("true"))).unwrap();
        let error = run.carry_out(Step::new("second", Command::new("false"))).unwrap_err();
        assert_eq!(error.to_string(), "second failed; what it says is above");

        let summary = run.summary().to_string();
        let outcomes: Vec<_> = summary.lines().filter_map(|line| line.split_whitespace().nth(3)).collect();
        assert_eq!(outcomes, ["ok", "FAILED"]);
    }

    #[test]
    fn a_filter_that_selects_no_test_fails_and_says_so() {
        let error = tests("printf 'running 0 tests\n'").unwrap_err().to_string();
        assert!(error.contains("no test has `pagin` in its name"), "{error}");
        tests("printf 'running 1 test\n'").unwrap();
    }

    #[test]
    fn tests_that_failed_are_named_at_the_end() {
        let error =
            tests("printf 'running 2 tests\ntest a::b ... FAILED\n'; echo noise >&2; exit 1").unwrap_err();
        let error = error.to_string();
        assert_eq!(error.lines().nth(1).map(str::trim), Some("a::b ()"), "{error}");
        let error = tests("exit 1").unwrap_err().to_string();
        assert_eq!(error, "test failed; what it says is above");
    }

    fn tests(script: &str) -> anyhow::Result<()> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Run::start()?.carry_out(Step::of_tests(command, Some("pagin")))
    }
}
