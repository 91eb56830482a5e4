//! Other tools that copy tables, where they are installed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};

use crate::bench::big_table;
use crate::bench::table_ends::TableEnds;
use crate::database::Database;

/// A tool that copies by the same column and key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    /// dlt with pyarrow.
    Dlt,
    /// Sling.
    Sling,
}

/// What dlt is told.
const DLT: &str = include_str!("peers/dlt_copy.py");
/// What Sling's package holds.
const SLING_PACKAGE: &str = "sling_linux_amd64/bin/sling-linux-amd64";

impl Peer {
    pub(super) const ALL: [Self; 2] = [Self::Dlt, Self::Sling];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Dlt => "dlt, pyarrow, merge",
            Self::Sling => "Sling, incremental",
        }
    }

    /// The schema that it copies into.
    const fn schema(self) -> &'static str {
        match self {
            Self::Dlt => "dlt_copy",
            Self::Sling => "public",
        }
    }

    /// How many seconds it takes from the environment of Python in a folder. Types aren't all kept by it, so that only rows and keys
    /// are looked at.
    pub(super) async fn copy(self, folder: &Path, ends: &TableEnds, rows: u64) -> anyhow::Result<f64> {
        let target = ends.targets.fresh().await?;
        ends.settle(&target).await?;
        let home = tempfile::tempdir().context("making a temporary folder")?;
        let mut command = self.command(folder, &ends.source, &target)?;
        command.env("HOME", home.path()).current_dir(home.path()).stdin(Stdio::null());
        let start = Instant::now();
        let output = tokio::task::spawn_blocking(move || command.output()).await?;
        let seconds = start.elapsed().as_secs_f64();
        let output = output.with_context(|| format!("starting {}", self.name()))?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{} ended with {}:\n{said}", self.name(), output.status);
        let keys = format!("SELECT count(DISTINCT id) FROM {}.{}", self.schema(), big_table::NAME);
        let found: i64 = target.postgres().await?.query_one(&keys, &[]).await?.get(0);
        ensure!(u64::try_from(found)? == rows, "{} has copied {found} rows of {rows}", self.name());
        target.discard().await?;
        Ok(seconds)
    }

    fn command(self, folder: &Path, source: &Database, target: &Database) -> anyhow::Result<Command> {
        match self {
            Self::Dlt => {
                let mut command = Command::new(folder.join("bin/python"));
                command.args(["-c", DLT, &source.url(), &target.url()]);
                command.env("RUNTIME__DLTHUB_TELEMETRY", "false");
                Ok(command)
            }
            Self::Sling => {
                let plain = |database: &Database| format!("{}?sslmode=disable", database.url());
                let table = format!("public.{}", big_table::NAME);
                let mut command = Command::new(sling_binary(folder)?);
                command.args([
                    "run",
                    "--mode",
                    "incremental",
                    "--primary-key",
                    "id",
                    "--update-key",
                    "updated_at",
                ]);
                command.args(["--src-conn", &plain(source), "--src-stream", &table]);
                command.args(["--tgt-conn", &plain(target), "--tgt-object", &table]);
                command.env("SLING_DISABLE_TELEMETRY", "true");
                Ok(command)
            }
        }
    }
}

fn sling_binary(folder: &Path) -> anyhow::Result<PathBuf> {
    let libraries = folder.join("lib");
    let versions = std::fs::read_dir(&libraries)
        .with_context(|| format!("{} is no environment of Python", folder.display()))?;
    let mut binaries =
        versions.flatten().map(|version| version.path().join("site-packages").join(SLING_PACKAGE));
    binaries.find(|binary| binary.is_file()).with_context(|| {
        format!("{} has no Sling; run `{0}/bin/pip install sling-linux-amd64`", folder.display())
    })
}
