//! What the database was asked, as it counts itself.

use std::time::Duration;

use anyhow::Context as _;
use gapless_testkit::Gateway;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{interval, timeout};

use crate::database::Database;
use crate::server;

/// Counts since the database was made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reads {
    /// Reads of the chain's log: each looks up once what follows a seq in the only topic.
    pub(super) of_log: u64,
    /// Statements of all kinds; outside of transactions each is one of its own.
    pub(super) statements: u64,
}

const PATIENCE: Duration = Duration::from_secs(30);

impl Reads {
    pub(super) fn since(self, before: Self) -> Self {
        Self { of_log: self.of_log - before.of_log, statements: self.statements - before.statements }
    }
}

/// How many reads of the log a server has counted itself.
pub(super) async fn told_of_log(server: &Gateway) -> anyhow::Result<u64> {
    const COUNTER: &str = r#"gapless_chain_reads_total{of="log"} "#;
    let mut stream = TcpStream::connect(server.address()).await?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await?;
    let mut told = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut told)).await??;
    let count = told.lines().find_map(|line| line.strip_prefix(COUNTER));
    count.context("the server tells no count of its reads")?.parse().context("the count of reads")
}

/// Stops a server, and counts.
pub(super) async fn settled_after(server: Gateway, database: &Database) -> anyhow::Result<Reads> {
    server::stop(server).await?;
    settled(database).await
}

/// Counts when no server has a connection any more: each tells its counts at the latest when it ends.
pub(super) async fn settled(database: &Database) -> anyhow::Result<Reads> {
    let sql = database.postgres().await?;
    let of_servers = "SELECT 1 FROM pg_stat_activity \
        WHERE datname = current_database() AND application_name = 'gapless' LIMIT 1";
    let ending = async {
        let mut ticks = interval(Duration::from_millis(20));
        loop {
            ticks.tick().await;
            if sql.query_opt(of_servers, &[]).await?.is_none() {
                return anyhow::Ok(());
            }
        }
    };
    timeout(PATIENCE, ending).await.context("a server that was stopped keeps its connections")??;
    let counted = sql
        .query_one(
            "SELECT ( \
                 SELECT sum(idx_scan)::bigint FROM pg_stat_user_indexes \
                 WHERE indexrelname IN ('chain_entry_topic', 'chain_entry_pkey') \
             ), d.xact_commit FROM pg_stat_database d WHERE d.datname = current_database()",
            &[],
        )
        .await?;
    let count = |column| u64::try_from(counted.get::<_, i64>(column));
    Ok(Reads { of_log: count(0)?, statements: count(1)? })
}
