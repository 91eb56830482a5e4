//! Two servers of PostgreSQL with a table to be copied from one into the other, and a gapless server that reads it.

use anyhow::{Context as _, ensure};
use gapless_testkit::Gateway;
use tempfile::TempDir;

use super::big_table;
use crate::database::{Database, Databases, StoreKind};
use crate::server;

/// A source with its readers' server, and a place for targets. Both servers of PostgreSQL are set so that their logs can be decoded.
pub(super) struct TableEnds {
    pub(super) source: Database,
    pub(super) targets: Databases,
    gateway: Gateway,
    store: Database,
    _declaration: TempDir,
    // Last, since its server ends with it.
    _sources: Databases,
}

/// What tells whether two tables are equal: how many rows, and the sum of their hashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Contents {
    rows: i64,
    digest: String,
}

/// The columns of the table as an application knows it.
pub(super) const COLUMNS: &str =
    "id, tenant, status, amount, payload, tags, note, created_at, updated_at, deleted_at";

impl TableEnds {
    /// Starts all servers, and makes a table of so many rows that is read in strict mode.
    pub(super) async fn ready(rows: u64) -> anyhow::Result<Self> {
        let (sources, targets) = tokio::try_join!(Databases::decodable(), Databases::decodable())?;
        let source = sources.fresh().await?;
        big_table::make(&source, rows).await?;
        let declaration = tempfile::tempdir().context("making a temporary folder")?;
        let file = declaration.path().join("tables.toml");
        let declared = format!("source = \"{}\"\n[[tables]]\nname = \"{}\"\n", source.url(), big_table::NAME);
        std::fs::write(&file, declared)?;
        let store = Databases::ready(StoreKind::Sqlite, None).await?.fresh().await?;
        let serve = format!("tables.serve={}", file.display());
        let gateway = server::serve_with(&store.url(), &["--set", &serve]).await?;
        Ok(Self { source, targets, gateway, store, _declaration: declaration, _sources: sources })
    }

    /// The server that reads the table for others.
    pub(super) fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// Leaves neither of the servers of PostgreSQL with work from before.
    pub(super) async fn settle(&self, target: &Database) -> anyhow::Result<()> {
        self.source.postgres().await?.batch_execute("CHECKPOINT").await?;
        target.postgres().await?.batch_execute("CHECKPOINT").await?;
        Ok(())
    }

    /// Makes sure that a target has all that the source has, and nothing else.
    pub(super) async fn check_equal(&self, target: &Database, who: &str) -> anyhow::Result<()> {
        let (source, target) = tokio::try_join!(contents(&self.source), contents(target))?;
        ensure!(source == target, "what {who} has made isn't equal: {target:?} instead of {source:?}");
        Ok(())
    }

    /// Stops and deletes everything.
    pub(super) async fn discard(self) -> anyhow::Result<()> {
        server::stop(self.gateway).await?;
        self.store.discard().await?;
        self.source.discard().await
    }
}

async fn contents(database: &Database) -> anyhow::Result<Contents> {
    let sql = format!(
        "SELECT count(*), coalesce(sum(hashtextextended(e::text, 0)), 0)::text FROM (SELECT {COLUMNS} FROM {}) e",
        big_table::NAME
    );
    let row = database.postgres().await?.query_one(&sql, &[]).await?;
    Ok(Contents { rows: row.get(0), digest: row.get(1) })
}
