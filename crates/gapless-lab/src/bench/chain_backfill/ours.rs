//! `gapless follow`, until the last event is in the database.

use std::fs::{self, File};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use tempfile::TempDir;
use tokio::time::{interval, timeout};

use super::{Plan, rate};
use crate::bench::filled_node::FilledNode;
use crate::database::Databases;
use crate::server;

/// How often PostgreSQL is asked whether all is there.
const POLL: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(300);
const LOG: &str = "stderr.log";

/// How many events a second come into an empty database, from the start of the program until all can be read.
pub(super) async fn events_a_second(
    plan: Plan,
    node: &FilledNode,
    databases: &Databases,
    topic: &str,
) -> anyhow::Result<f64> {
    let database = databases.fresh().await?;
    database.open_store().await?.close().await;
    let sql = database.postgres().await?;
    let newest =
        sql.prepare("SELECT number FROM chain_block ORDER BY chain DESC, number DESC LIMIT 1").await?;

    let start = Instant::now();
    let mut follower = Follower::start(&node.declaration(topic), &database.url())?;
    let last = i64::try_from(plan.last_block())?;
    let arriving = async {
        let mut ticks = interval(POLL);
        loop {
            ticks.tick().await;
            let row = sql.query_opt(&newest, &[]).await?;
            if row.is_some_and(|row| row.get::<_, i64>(0) >= last) {
                return Ok(rate(plan, start));
            }
            follower.check()?;
        }
    };
    let Ok(rate) = timeout(PATIENCE, arriving).await else {
        bail!("the follower didn't come to an end:\n{}", follower.log())
    };
    let events: i64 = sql.query_one("SELECT count(*) FROM chain_entry", &[]).await?.get(0);
    ensure!(u64::try_from(events)? == plan.events(), "{events} events came in of {}", plan.events());
    drop(follower);
    drop(sql);
    database.discard().await?;
    rate
}

/// A running `gapless follow`, killed when dropped.
struct Follower {
    child: Child,
    files: TempDir,
}

impl Follower {
    fn start(declaration: &str, store_url: &str) -> anyhow::Result<Self> {
        let files = tempfile::tempdir().context("making a temporary folder")?;
        let chain = files.path().join("chain.toml");
        fs::write(&chain, declaration)?;
        let mut command = server::gapless_command()?;
        command.arg("follow").arg(chain).args(["--store", store_url]);
        let log = File::create(files.path().join(LOG))?;
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        Ok(Self { child: child.context("starting gapless follow")?, files })
    }

    /// Fails when it has ended.
    fn check(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("the follower ended with {status}:\n{}", self.log()),
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.files.path().join(LOG)).unwrap_or_default()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
