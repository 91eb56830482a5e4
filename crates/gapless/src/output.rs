//! What a command was run for, on standard output.

use std::io::{self, Write as _};

use anyhow::Context as _;

/// Says a line. Whoever waits for it has it when this returns.
pub(crate) fn say(line: impl std::fmt::Display) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}").and_then(|()| stdout.flush()).context("the output can't be written")
}
