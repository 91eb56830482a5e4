//! PostgreSQL's own logical replication of the table.

use std::time::{Duration, Instant};

use anyhow::bail;
use tokio::time::{interval, timeout};

use super::big_table;
use super::table_ends::{COLUMNS, TableEnds};
use crate::database::Database;

/// How often it is looked whether the first copy is through.
const LOOK_EVERY: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(600);
/// What publication, subscription and slot are called.
const NAME: &str = "lab";

/// Offers the table to subscribers, without what reading it in strict mode has added.
pub(super) async fn publish(ends: &TableEnds) -> anyhow::Result<()> {
    let table = big_table::NAME;
    let sql = format!("CREATE PUBLICATION {NAME} FOR TABLE {table} ({COLUMNS})");
    ends.source.postgres().await?.batch_execute(&sql).await?;
    Ok(())
}

/// Subscribes to it with a new table, and waits until that has all rows. Returns how many seconds that took.
pub(super) async fn copy(ends: &TableEnds, target: &Database) -> anyhow::Result<f64> {
    let sql = target.postgres().await?;
    let start = Instant::now();
    sql.batch_execute(big_table::CREATE).await?;
    let subscription =
        format!("CREATE SUBSCRIPTION {NAME} CONNECTION '{}' PUBLICATION {NAME}", ends.source.url());
    sql.batch_execute(&subscription).await?;
    let states = sql.prepare("SELECT bool_and(srsubstate IN ('s', 'r')) FROM pg_subscription_rel").await?;
    let copying = async {
        let mut looks = interval(LOOK_EVERY);
        loop {
            looks.tick().await;
            if sql.query_one(&states, &[]).await?.get::<_, Option<bool>>(0) == Some(true) {
                return anyhow::Ok(start.elapsed().as_secs_f64());
            }
        }
    };
    match timeout(PATIENCE, copying).await {
        Ok(seconds) => seconds,
        Err(_) => bail!("logical replication didn't come to an end"),
    }
}

/// Lets it go on, or stand still.
pub(super) async fn enable(target: &Database, is_enabled: bool) -> anyhow::Result<()> {
    let how = if is_enabled { "ENABLE" } else { "DISABLE" };
    target.postgres().await?.batch_execute(&format!("ALTER SUBSCRIPTION {NAME} {how}")).await?;
    Ok(())
}

/// Ends it, with its slot at the source.
pub(super) async fn unsubscribe(target: &Database) -> anyhow::Result<()> {
    target.postgres().await?.batch_execute(&format!("DROP SUBSCRIPTION {NAME}")).await?;
    Ok(())
}
