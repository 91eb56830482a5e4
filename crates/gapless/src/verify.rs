//! `gapless verify`: compares copies of tables with what a server reads.

use std::hash::{BuildHasher as _, RandomState};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use gapless_server::LogConfig;
use gapless_tables::replicate::{PostgresCopy, RunError, SourceClient, SqliteCopy};
use gapless_tables::verify::{CheckedCopy, Verifier, VerifyConfig};

use crate::api::install_tls;
use crate::connection::{block_on, complain};
use crate::copies::{self, CopiedTable, Copies, CopyFlags, GAVE_UP, Target, with_hint};
use crate::logging;
use crate::output::show;
use crate::signals::Signals;

mod told;

/// Compare copies of tables with their source, and with `--repair` make them equal.
///
/// Both sides may be in use: the source is written, and `gapless replicate` may go on filling the copy. Digests of ranges of keys are compared,
/// and those of shorter ranges where they differ, down to the rows. A row that differs is looked at again until it stands still and the copy
/// had the time to get it. Rows are read through the server, with the rights of the token.
///
/// It ends with 0 when all copies are equal, be it since rows were repaired; with 5 when rows differ, or never stood still; with 1 when
/// something has to be mended first; and with 4 when source or copy couldn't be used for a minute.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    flags: CopyFlags,
    /// Make rows of the copy that differ equal to the source's
    #[arg(long)]
    repair: bool,
    /// How long a row may take to stand still and to arrive. A source that is read some time late, as `best_effort` is, needs more than
    /// that time
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    settle: u32,
}

const DIFFERS: u8 = 5;

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    block_on(async {
        logging::start(LogConfig::default());
        install_tls();
        let copies = arguments.flags.copies()?;
        let mut signals = Signals::catch().context("watching for SIGTERM")?;
        let mut worst = 0;
        for table in &copies.tables {
            let verifier = arguments.verifier(&copies, table)?;
            let code = tokio::select! {
                code = verify(&table.table, verifier) => code?,
                () = signals.next() => {
                    complain("it was stopped before all was compared; what was repaired stays");
                    return Ok(ExitCode::FAILURE);
                }
            };
            worst = worst.max(code);
        }
        Ok(ExitCode::from(worst))
    })
}

impl Arguments {
    fn verifier(&self, copies: &Copies, table: &CopiedTable) -> anyhow::Result<Verifier> {
        let CopiedTable { table, into } = table;
        let source = SourceClient::new(copies.from.clone(), table, copies.reader.clone())
            .context("making an HTTP client")?;
        let copy: Box<dyn CheckedCopy> = match &copies.target {
            Target::Postgres(url) => {
                let into = into.as_deref().map(copies::qualified);
                Box::new(PostgresCopy::new(url, into).context("`to`")?)
            }
            Target::Sqlite(path) => Box::new(SqliteCopy::new(path.clone(), into.clone())),
        };
        let config = VerifyConfig {
            settle: Duration::from_secs(self.settle.into()),
            repair: self.repair,
            seed: RandomState::new().hash_one(0),
        };
        Ok(Verifier::new(source, copy, config))
    }
}

/// Compares one copy, and tells what differs. Returns what the process ends with if nothing is worse.
async fn verify(table: &str, verifier: Verifier) -> anyhow::Result<u8> {
    match verifier.run().await {
        Ok(verdict) => {
            show(told::told(table, &verdict))?;
            Ok(if verdict.is_equal() { 0 } else { DIFFERS })
        }
        Err(error) => {
            complain(&format!("{table}: {}", with_hint(&error)));
            Ok(match error {
                RunError::Stopped(_) => 1,
                RunError::GaveUp(_) => GAVE_UP,
            })
        }
    }
}
