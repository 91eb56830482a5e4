//! `gapless replicate`: copies of tables that a server reads.

mod copies;
mod journal;
mod pace;

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;
use gapless_client::ServerUrl;
use gapless_proto::{ErrorCode, UserId};
use gapless_server::LogConfig;
use gapless_tables::replicate::{
    Fault, PostgresSink, Reader, ReplicaConfig, Replicator, RunError, Sink, SinkError, SourceClient,
    SourceFault, SqliteFile, SqliteSink,
};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::api::install_tls;
use crate::connection::{block_on, complain, given};
use crate::logging;
use crate::signals::Signals;

use copies::{CopiedTable, Copies, Target};
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
    /// A file that declares copies, in TOML, instead of `--from`, `--table` and `--to`.
    ///
    /// `from`: the server's address. `to`: the target, as `--to`, or `$NAME` for the environment variable that has it. `token`: likewise;
    /// GAPLESS_TOKEN by default. `[[tables]]`, once for each: `table`, and, where it shouldn't be called as at the source, `into`.
    #[arg(value_name = "FILE", conflicts_with_all = ["from", "table", "to", "into"])]
    file: Option<PathBuf>,
    /// Where the server is: http:// or https://, then its host and port
    #[arg(long, value_name = "URL", required_unless_present = "file")]
    from: Option<ServerUrl>,
    /// The table, by the name that the server declares
    #[arg(long, value_name = "NAME", required_unless_present = "file")]
    table: Option<String>,
    /// Where the copy goes: postgres://USER:PASSWORD@HOST/DATABASE or sqlite:FILE
    #[arg(long, value_name = "TARGET", required_unless_present = "file")]
    to: Option<String>,
    /// What the copy is called, as in `shop.orders`; as at the source by default
    #[arg(long, value_name = "TABLE")]
    into: Option<String>,
    /// A token that may read the table; `gapless token --user NAME --scope read:table:NAME` makes one
    #[arg(long, value_name = "TOKEN", env = "GAPLESS_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Who one is to a server that runs with `--auth open`; goes before a token
    #[arg(long, value_name = "USER")]
    user: Option<UserId>,
    /// First read once more what was changed at this time or later, as in 2026-01-31T12:00:00Z; nothing is taken back by that
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    since: Option<String>,
    /// First take all rows of the targets away, and copy them anew
    #[arg(long, conflicts_with = "since")]
    anew: bool,
    /// End when nothing more is there
    #[arg(long)]
    once: bool,
    /// The most rows of a page
    #[arg(long, value_name = "ROWS", default_value_t = gapless_tables::PAGE_ROWS_MAX, hide = true,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(gapless_tables::PAGE_ROWS_MAX)))]
    page_rows: u32,
}

/// How many reports of a table may wait to be written down.
const REPORTS_MAX: usize = 64;
const IN_USE: u8 = 3;
const GAVE_UP: u8 = 4;

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    // One thread is enough for what little there is to do beside waiting, and takes less memory than several.
    block_on(async {
        logging::start(LogConfig::default());
        install_tls();
        let copies = arguments.copies()?;
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
        for ends in copies {
            work.spawn(replicate(ends, arguments.config()));
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

impl Arguments {
    fn copies(&self) -> anyhow::Result<Copies> {
        let reader = match (&self.user, given(self.token.as_ref())) {
            (Some(user), _) => Some(Reader::User(user.to_string())),
            (None, token) => token.map(|token| Reader::Token(token.to_owned())),
        };
        if let Some(file) = &self.file {
            return Copies::read(file, reader);
        }
        let (Some(from), Some(table), Some(to)) = (&self.from, &self.table, &self.to) else {
            bail!("give `--from`, `--table` and `--to`, or a file that declares copies");
        };
        let table = CopiedTable { table: table.clone(), into: self.into.clone() };
        Ok(Copies::new(from, reader, Target::parse(to)?, vec![table]))
    }

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
async fn replicate(ends: Ends, config: ReplicaConfig) -> u8 {
    let Ends { table, source, sink } = ends;
    let (reports, told) = mpsc::channel(REPORTS_MAX);
    let is_once = config.once;
    let replicator = Replicator::new(source, sink, config, reports);
    let journal = Journal::new(table.clone()).write_down(told);
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

/// What has stopped a copy, and what mends it from here.
fn with_hint(error: &RunError) -> String {
    let RunError::Stopped(Fault::Source(fault)) = error else { return chain(error) };
    let said = chain(error);
    if fault.is_about_the_cursor() {
        return format!(
            "{said}\n`--since TIME` reads again what was changed from then on; `--anew` takes the copy away and makes it again"
        );
    }
    match fault {
        SourceFault::Refused { code: ErrorCode::Unauthenticated | ErrorCode::Forbidden, .. } => format!(
            "{said}\nmake a token with `gapless token --user NAME --scope read:table:TABLE` and a secret of the server, and give it as \
             --token or GAPLESS_TOKEN; if the server runs with `--auth open`, give `--user NAME` instead"
        ),
        SourceFault::Refused { .. }
        | SourceFault::Unreachable { .. }
        | SourceFault::Strange { .. }
        | SourceFault::Page(_)
        | SourceFault::TooLarge => said,
    }
}

/// An error and what lies below it.
fn chain(error: &RunError) -> String {
    match std::error::Error::source(error) {
        Some(below) => format!("{below}; {error}"),
        None => error.to_string(),
    }
}
