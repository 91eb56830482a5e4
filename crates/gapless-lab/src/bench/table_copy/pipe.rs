//! The least that moves rows from one server to another: one `COPY` into the other.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use gapless_testkit::PostgresBinaries;

use crate::bench::big_table;
use crate::bench::table_ends::{COLUMNS, TableEnds};
use crate::database::Database;

/// How many seconds it takes into a new table, with or without the primary key.
pub(super) async fn copy(ends: &TableEnds, is_keyed: bool) -> anyhow::Result<f64> {
    let target = ends.targets.fresh().await?;
    let sql = target.postgres().await?;
    sql.batch_execute(big_table::CREATE).await?;
    if !is_keyed {
        let table = big_table::NAME;
        sql.batch_execute(&format!("ALTER TABLE {table} DROP CONSTRAINT {table}_pkey")).await?;
    }
    ends.settle(&target).await?;
    let binaries = PostgresBinaries::find()?;
    let (reading, writing) =
        (psql(&binaries, &ends.source, "TO STDOUT"), psql(&binaries, &target, "FROM STDIN"));
    let seconds = tokio::task::spawn_blocking(|| piped(reading, writing)).await??;
    ends.check_equal(&target, "the pipe").await?;
    target.discard().await?;
    Ok(seconds)
}

fn psql(binaries: &PostgresBinaries, database: &Database, how: &str) -> Command {
    let mut command = binaries.command("psql");
    let copy = format!("COPY {} ({COLUMNS}) {how} (FORMAT binary)", big_table::NAME);
    command.args(["--no-psqlrc", "--quiet", "--command", &copy]).arg(database.url());
    command
}

fn piped(mut reading: Command, mut writing: Command) -> anyhow::Result<f64> {
    let start = Instant::now();
    let mut reader = reading.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("starting psql")?;
    let rows = reader.stdout.take().context("psql has no standard output")?;
    let written = writing.stdin(rows).status().context("running psql")?;
    let read = reader.wait()?;
    ensure!(read.success() && written.success(), "psql ended with {read} and {written}");
    Ok(start.elapsed().as_secs_f64())
}
