//! `gapless replicate` as a process.

use std::fs::{self, File};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use gapless_testkit::{Gateway, peak_resident_bytes};
use tempfile::TempDir;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::big_table;
use crate::database::Database;
use crate::server;

/// A running `gapless replicate`, killed when dropped.
pub(super) struct Replicator {
    child: Child,
    files: TempDir,
    started_at: Instant,
}

/// What one that ended by itself took.
pub(super) struct Took {
    pub(super) seconds: f64,
    /// The most memory it had at any time, as it was seen last before its end.
    pub(super) peak_bytes: u64,
}

/// How often it is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(2);
const PATIENCE: Duration = Duration::from_secs(600);
const LOG: &str = "stderr.log";

impl Replicator {
    /// Starts one that copies the table of a server into a database; with `--once` it ends when nothing more is there.
    pub(super) fn start(from: &Gateway, to: &Database, arguments: &[&str]) -> anyhow::Result<Self> {
        let files = tempfile::tempdir().context("making a temporary folder")?;
        let mut command = server::gapless_command()?;
        command.args(["replicate", "--user", "lab", "--table", big_table::NAME]);
        command.args(["--from", &from.url(), "--to", &to.url()]).args(arguments);
        let log = File::create(files.path().join(LOG))?;
        let started_at = Instant::now();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        Ok(Self { child: child.context("starting gapless replicate")?, files, started_at })
    }

    /// Waits until it has ended by itself.
    pub(super) async fn ended(mut self) -> anyhow::Result<Took> {
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut peak_bytes = 0;
        let ending = async {
            loop {
                looks.tick().await;
                if let Some(status) = self.child.try_wait()? {
                    return anyhow::Ok(status);
                }
                // One that has just ended has none any more.
                peak_bytes = peak_resident_bytes(self.child.id()).unwrap_or(peak_bytes);
            }
        };
        let Ok(status) = timeout(PATIENCE, ending).await else {
            bail!("the replicator didn't come to an end:\n{}", self.log())
        };
        let (status, seconds) = (status?, self.started_at.elapsed().as_secs_f64());
        ensure!(status.success(), "the replicator ended with {status}:\n{}", self.log());
        Ok(Took { seconds, peak_bytes })
    }

    /// Fails when it has ended.
    pub(super) fn check(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("the replicator ended with {status}:\n{}", self.log()),
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.files.path().join(LOG)).unwrap_or_default()
    }
}

impl Drop for Replicator {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
