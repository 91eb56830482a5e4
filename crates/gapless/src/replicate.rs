//! `gapless replicate`: copies of tables that a server reads.

mod journal;
mod pace;

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use gapless_server::{LogConfig, MetricsListener};
use gapless_tables::replicate::{
    Fault, PostgresSink, ReplicaConfig, Replicator, RunError, Sink, SinkError, SourceClient, SqliteFile,
    SqliteSink,
};
use indicatif::MultiProgress;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::info;

use crate::api::install_tls;
use crate::connection::{block_on, complain};
use crate::copies::{self, CopiedTable, Copies, CopyFlags, GAVE_UP, Target, with_hint};
use crate::logging;
use crate::signals::Signals;

use journal::Journal;

/// Copy tables from a server into PostgreSQL or SQLite, and keep the copies equal.
///
/// A target table that isn't there is made with the source's exact types. Each page is written together with its position, so that it may
/// be stopped and killed at any time. A column that is new at the source is added; what can't be followed stops the copy with its name.
///
/// It ends with 0 when it was told to stop, or with `--once` when the copies are up to date; with 1 when something has to be mended; with
/// 3 when another replicator fills the target; and with 4 when, with `--once`, source or target couldn't be used for a minute.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    flags: CopyFlags,
    /// First read once more what was changed at this time or later, as in 2026-01-31T12:00:00Z; nothing is taken back by that
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    since: Option<String>,
    /// First take all rows of the targets away, and copy them anew
    #[arg(long, conflicts_with = "since")]
    anew: bool,
    /// End when nothing more is there
    #[arg(long)]
    once: bool,
    /// Serve metrics for Prometheus here, as in 127.0.0.1:7710, at /metrics
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
    /// The most rows of a page
    #[arg(long, value_name = "ROWS", default_value_t = gapless_tables::PAGE_ROWS_MAX, hide = true,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(gapless_tables::PAGE_ROWS_MAX)))]
    page_rows: u32,
}

/// How many reports of a table may wait to be written down.
const REPORTS_MAX: usize = 64;
const IN_USE: u8 = 3;

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    // One thread is enough for what little there is to do beside waiting, and takes less memory than several.
    block_on(async {
        logging::start(LogConfig::default());
        install_tls();
        let copies = arguments.flags.copies()?;
        let mut watched = JoinSet::new();
        if let Some(address) = arguments.metrics {
            watched.spawn(listen(address).await?.serve());
        }
        let mut signals = Signals::catch().context("watching for SIGTERM")?;
        let mut work = JoinSet::new();
        let copies = match connect(copies) {
            Ok(copies) => copies,
            Err(error) if matches!(error.downcast_ref(), Some(SinkError::InUse(_))) => {
                complain(&format!("{error:#}"));
                return Ok(ExitCode::from(IN_USE));
            }
            Err(error) => return Err(error),
        };
        let bars = MultiProgress::new();
        for ends in copies {
            work.spawn(replicate(ends, arguments.config(), bars.clone()));
        }
        let mut worst = 0;
        loop {
            tokio::select! {
                () = signals.next() => {
                    // A page that is under way is in the target as a whole or not at all.
                    work.shutdown().await;
                    return Ok(ExitCode::SUCCESS);
                }
                ended = work.join_next() => match ended {
                    None => return Ok(ExitCode::from(worst)),
                    Some(ended) => worst = worst.max(ended.context("a copy was aborted")?),
                },
            }
        }
    })
}

async fn listen(address: SocketAddr) -> anyhow::Result<MetricsListener> {
    let listener = MetricsListener::bind(address)
        .await
        .with_context(|| format!("can't listen on {address}; choose another with `--metrics`"))?;
    journal::describe_metrics();
    info!(address = %listener.address()?, "serving metrics");
    Ok(listener)
}

impl Arguments {
    fn config(&self) -> ReplicaConfig {
        ReplicaConfig {
            page_rows: self.page_rows,
            since: self.since.clone(),
            anew: self.anew,
            once: self.once,
            seed: RandomState::new().hash_one(0),
        }
    }
}

/// Both ends of a copy.
struct Ends {
    table: String,
    source: SourceClient,
    sink: Box<dyn Sink>,
}

/// Prepares both ends of each copy.
fn connect(copies: Copies) -> anyhow::Result<Vec<Ends>> {
    let mut files: BTreeMap<PathBuf, SqliteFile> = BTreeMap::new();
    let mut ends = Vec::new();
    for CopiedTable { table, into } in copies.tables {
        let source = SourceClient::new(copies.from.clone(), &table, copies.reader.clone())
            .context("making an HTTP client")?;
        let origin = source.server();
        let sink: Box<dyn Sink> = match &copies.target {
            Target::Postgres(url) => {
                let into = into.as_deref().map(copies::qualified);
                Box::new(PostgresSink::new(url, into, &origin).context("`to`")?)
            }
            Target::Sqlite(path) => {
                let file = match files.get(path) {
                    Some(file) => file.clone(),
                    None => SqliteFile::take(path)?,
                };
                files.insert(path.clone(), file.clone());
                Box::new(SqliteSink::new(file, into, &origin))
            }
        };
        ends.push(Ends { table, source, sink });
    }
    Ok(ends)
}

/// Keeps one copy equal, and tells how it goes. Returns what the process ends with if nothing is worse.
async fn replicate(ends: Ends, config: ReplicaConfig, bars: MultiProgress) -> u8 {
    let Ends { table, source, sink } = ends;
    let (reports, told) = mpsc::channel(REPORTS_MAX);
    let is_once = config.once;
    let replicator = Replicator::new(source, sink, config, reports);
    let journal = Journal::new(table.clone(), bars).write_down(told);
    let (ended, journal) = tokio::join!(replicator.run(), journal);
    match ended {
        Ok(()) => {
            journal.sum_up(is_once);
            0
        }
        Err(error) => {
            complain(&format!("{table}: {}", with_hint(&error)));
            exit_code(&error)
        }
    }
}

fn exit_code(error: &RunError) -> u8 {
    match error {
        RunError::Stopped(Fault::Target(SinkError::InUse(_))) => IN_USE,
        RunError::Stopped(Fault::Source(_) | Fault::Target(_)) => 1,
        RunError::GaveUp(_) => GAVE_UP,
    }
}
