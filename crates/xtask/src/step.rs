//! One step of a run, and what became of it.

use std::fmt::{self, Display, Formatter};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::bail;

use crate::interruption::Interruption;

/// A named command that must succeed.
pub(crate) struct Step {
    pub(crate) name: String,
    command: Command,
}

impl Step {
    pub(crate) fn new(name: impl Into<String>, command: Command) -> Self {
        Self { name: name.into(), command }
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
        let succeeded = self.interruption.run(&mut step.command).map(|status| status.success());
        self.finished.push(Finished {
            name: step.name.clone(),
            duration: start.elapsed(),
            succeeded: matches!(succeeded, Ok(true)),
        });
        if !succeeded? {
            bail!("{} failed; what it says is above", step.name);
        }
        Ok(())
    }

    pub(crate) fn summary(&self) -> Summary<'_> {
        Summary(&self.finished)
    }
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
}
