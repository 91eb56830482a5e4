//! What a replicator tells, as log lines, metrics, and a bar.

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use gapless_tables::replicate::Report;
use indicatif::{HumanCount, HumanDuration, MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};
use tokio::sync::mpsc;
use tracing::{debug, info, warn};

use super::pace::{Milestone, Pace};
use crate::output::say;

/// Writes down what the replicator of one table tells.
pub(super) struct Journal {
    table: String,
    started_at: Instant,
    upserts: u64,
    deletes: u64,
    /// About how many rows there are to come, while the copy is made.
    rows_estimate: Option<u64>,
    /// While it catches up.
    pace: Option<Pace>,
    bar: Option<ProgressBar>,
    /// Those of all tables.
    bars: MultiProgress,
    /// When the log last told how far it is.
    told_at: Instant,
    /// When the last page came, and how far it was behind.
    last: (Instant, Duration),
    held_by: Option<String>,
}

/// How often the log tells how a long copy goes.
const TELL_EVERY: Duration = Duration::from_secs(10);
/// How often the age of the cursor is measured anew.
const AGE_EVERY: Duration = Duration::from_secs(1);
/// The bar's length.
const WHOLE: u64 = 1_000;

impl Journal {
    /// `bars` shows how far the copies of all tables are.
    pub(super) fn new(table: String, bars: MultiProgress) -> Self {
        let now = Instant::now();
        Self {
            table,
            started_at: now,
            upserts: 0,
            deletes: 0,
            rows_estimate: None,
            pace: None,
            bar: None,
            bars,
            told_at: now,
            last: (now, Duration::ZERO),
            held_by: None,
        }
    }

    /// Writes all reports down, until there are no more.
    pub(super) async fn write_down(mut self, mut reports: mpsc::Receiver<Report>) -> Self {
        let mut age = tokio::time::interval(AGE_EVERY);
        loop {
            tokio::select! {
                report = reports.recv() => match report {
                    Some(report) => self.handle(report),
                    None => break,
                },
                _ = age.tick() => {
                    let (at, lag) = self.last;
                    gauge!("gapless_replicate_cursor_age_seconds", "table" => self.table.clone())
                        .set((at.elapsed() + lag).as_secs_f64());
                }
            }
        }
        self.end_bar();
        self
    }

    /// Says what was done.
    pub(super) fn sum_up(&self, is_asked: bool) {
        if !is_asked {
            return;
        }
        let (table, upserts, deletes) = (&self.table, HumanCount(self.upserts), HumanCount(self.deletes));
        let seconds = self.started_at.elapsed().as_secs_f64();
        // Who closed stdout doesn't want to know.
        say(format_args!("{table}: up to date; {upserts} rows put, {deletes} taken away in {seconds:.1} s"))
            .ok();
    }

    fn handle(&mut self, report: Report) {
        let table = self.table.clone();
        match report {
            Report::Applied { .. } => {}
            Report::UpToDate => self.end_bar(),
            Report::Ready { .. } | Report::Reshaped | Report::Repaired | Report::Failed { .. } => {
                self.clear_bars()
            }
        }
        match report {
            Report::Ready { goes_on, rows_estimate } => {
                // A copy that goes on has some of the rows already, and nobody knows how many.
                self.rows_estimate = rows_estimate.filter(|_| !goes_on);
                info!(table, goes_on, "the target is ready");
            }
            Report::Applied { upserts, deletes, lag, has_more, held_by } => {
                counter!("gapless_replicate_pages_total", "table" => table.clone()).increment(1);
                self.count(upserts as u64, deletes as u64);
                self.last = (Instant::now(), lag);
                if held_by != self.held_by {
                    info!(table, held_by, "what keeps rows from being delivered");
                    self.held_by = held_by;
                }
                gauge!("gapless_replicate_lag_seconds", "table" => table).set(lag.as_secs_f64());
                if has_more {
                    self.catch_up((upserts + deletes) as u64, lag);
                }
            }
            Report::UpToDate => {
                self.rows_estimate = None;
                if self.pace.take().is_some() {
                    let (upserts, deletes) = (self.upserts, self.deletes);
                    info!(table, upserts, deletes, "caught up");
                }
            }
            Report::Reshaped => info!(table, "the table has changed; looking at it again"),
            Report::Repaired => info!(table, "rows were repaired meanwhile; the page is asked for again"),
            Report::Failed { side, kind, reason, pause, failures } => {
                counter!("gapless_replicate_failures_total", "table" => table.clone(), "side" => side.name(), "kind" => kind)
                    .increment(1);
                match failures.is_power_of_two() {
                    true => warn!(table, reason, failures, ?pause, "it fails, and is tried again"),
                    false => debug!(table, reason, failures, ?pause, "it failed again"),
                }
            }
        }
    }

    fn count(&mut self, upserts: u64, deletes: u64) {
        self.upserts += upserts;
        self.deletes += deletes;
        for (op, rows) in [("upsert", upserts), ("delete", deletes)] {
            counter!("gapless_replicate_rows_total", "table" => self.table.clone(), "op" => op)
                .increment(rows);
        }
    }

    fn catch_up(&mut self, rows: u64, lag: Duration) {
        let now = self.started_at.elapsed();
        let Some(pace) = &mut self.pace else {
            let first = Milestone { at: now, lag, rows };
            self.pace = Some(Pace::new(first, self.rows_estimate));
            return;
        };
        pace.handle_page(now, lag, rows);
        let pace = *pace;
        if io::stderr().is_terminal() {
            let bar = self.bar.get_or_insert_with(|| progress_bar(&self.table, &self.bars));
            bar.set_message(description(pace));
            bar.set_position((pace.share() * WHOLE as f64) as u64);
        } else if self.told_at.elapsed() >= TELL_EVERY {
            self.told_at = Instant::now();
            info!(table = self.table, progress = description(pace), "copying");
        }
    }

    fn end_bar(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
            self.clear_bars();
        }
    }

    /// Makes room for what is logged, which would stand behind a bar. They are drawn again with the next page.
    fn clear_bars(&self) {
        self.bars.clear().ok();
    }
}

/// Says what the metrics mean.
pub(super) fn describe_metrics() {
    describe_gauge!(
        "gapless_replicate_cursor_age_seconds",
        Unit::Seconds,
        "how long ago the copy was as its source is; it grows while the source can't be read or the target can't be written"
    );
    describe_gauge!(
        "gapless_replicate_lag_seconds",
        Unit::Seconds,
        "how far the last row of the last page was behind the source's clock, 0 once there was nothing more"
    );
    describe_counter!("gapless_replicate_rows_total", "rows put into the copy and taken out of it, by op");
    describe_counter!("gapless_replicate_pages_total", "pages that were applied, empty ones too");
    describe_counter!(
        "gapless_replicate_failures_total",
        "what failed and was tried again, by side (source or target) and kind"
    );
}

fn description(pace: Pace) -> String {
    let rate = HumanCount(pace.rate() as u64);
    let left = pace.remaining().filter(|left| *left >= Duration::from_secs(1));
    let left = left.map(|left| format!(", {} left", HumanDuration(left))).unwrap_or_default();
    format!("{} rows, {rate}/s{left}", HumanCount(pace.rows()))
}

fn progress_bar(table: &str, bars: &MultiProgress) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(WHOLE), ProgressDrawTarget::hidden());
    bar.set_prefix(table.to_owned());
    if let Ok(style) = ProgressStyle::with_template("{prefix} {wide_bar} {percent}% {msg}") {
        bar.set_style(style);
    }
    bars.add(bar)
}
