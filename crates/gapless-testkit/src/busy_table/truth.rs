//! What the table really holds.

use std::collections::BTreeMap;

use anyhow::Context as _;
use tokio_postgres::Client;

use super::schema;

/// A row as it is, without its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrueRow {
    /// How far the order is.
    pub status: String,
    /// The number of the write that made it so. Who holds another one is behind.
    pub version: i64,
    /// When the transaction of that write began, in microseconds since 1970.
    pub updated_at_us: i64,
}

pub(super) async fn read(client: &Client) -> anyhow::Result<BTreeMap<i64, TrueRow>> {
    let rows = client.query(schema::TRUTH, &[]).await.context("reading the busy table")?;
    let row = |row: &tokio_postgres::Row| {
        (row.get(0), TrueRow { status: row.get(1), version: row.get(2), updated_at_us: row.get(3) })
    };
    Ok(rows.iter().map(row).collect())
}
