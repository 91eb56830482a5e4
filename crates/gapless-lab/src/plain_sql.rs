//! SQL as anybody would write it, past everything that gapless does.

use anyhow::Context as _;
use tokio_postgres::SimpleQueryMessage;

/// One connection to a database of either kind.
pub(crate) enum PlainSql {
    /// To a SQLite file.
    Sqlite(rusqlite::Connection),
    /// To a PostgreSQL server.
    Postgres(tokio_postgres::Client),
}

impl PlainSql {
    /// Runs statements that return nothing.
    pub(crate) async fn run(&self, sql: &str) -> anyhow::Result<()> {
        match self {
            Self::Sqlite(connection) => connection.execute_batch(sql).with_context(|| sql.to_owned()),
            Self::Postgres(client) => client.batch_execute(sql).await.with_context(|| sql.to_owned()),
        }
    }

    /// Runs a query whose rows have one integer each.
    pub(crate) async fn numbers(&self, sql: &str) -> anyhow::Result<Vec<u64>> {
        match self {
            Self::Sqlite(connection) => {
                let mut statement = connection.prepare(sql).with_context(|| sql.to_owned())?;
                let rows = statement.query_map([], |row| row.get::<_, i64>(0))?;
                rows.map(|row| Ok(u64::try_from(row?)?)).collect()
            }
            Self::Postgres(client) => {
                let messages = client.simple_query(sql).await.with_context(|| sql.to_owned())?;
                let texts = messages.iter().filter_map(|message| {
                    if let SimpleQueryMessage::Row(row) = message { row.get(0) } else { None }
                });
                texts.map(|text| text.parse().with_context(|| sql.to_owned())).collect()
            }
        }
    }

    /// The one integer that a query returns.
    pub(crate) async fn number(&self, sql: &str) -> anyhow::Result<u64> {
        let numbers = self.numbers(sql).await?;
        numbers.first().copied().with_context(|| format!("no row: {sql}"))
    }
}
