//! What a world has done, step by step.

use std::fmt::Display;

use crate::clock::Elapsed;

/// The steps of one world, in words; empty unless it is told to listen, since words take time.
#[derive(Debug)]
pub(crate) struct Trace {
    lines: Option<Vec<String>>,
}

impl Trace {
    pub(crate) fn new(listens: bool) -> Self {
        Self { lines: listens.then(Vec::new) }
    }

    pub(crate) fn note<D: Display>(&mut self, at: Elapsed, line: impl FnOnce() -> D) {
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{at} {}", line()));
        }
    }

    pub(crate) fn into_lines(self) -> Vec<String> {
        self.lines.unwrap_or_default()
    }
}
