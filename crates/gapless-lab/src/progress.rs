//! What goes on, for somebody who watches.

use std::io::{IsTerminal as _, stderr};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A line on standard error that tells what is being done. Silent where nobody watches.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Begins with `total` steps to do.
    pub(crate) fn new(total: usize) -> Self {
        let target =
            if stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(total as u64), target);
        let style = ProgressStyle::with_template("{bar:20} {pos}/{len}  {elapsed}  {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self(bar)
    }

    /// Says what is done now.
    pub(crate) fn begin(&self, what: impl Into<String>) {
        self.0.set_message(what.into());
        self.0.tick();
    }

    /// A step is done.
    pub(crate) fn step(&self) {
        self.0.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
