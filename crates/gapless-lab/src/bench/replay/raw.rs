//! The same query in a loop on the driver.

use std::time::Instant;

use anyhow::{Context as _, ensure};
use gapless_store::measured::{CHAIN_LOG, CHAIN_LOG_SEQ};
use gapless_store::{CHAIN_ENTRIES_MAX, CHAIN_SLICE_BYTES_MAX};
use tokio_postgres::{Client, Statement};

use super::log::{CHAIN, TOPIC_IN_FEED};
use crate::bench::reading_session::SESSION;
use crate::database::Database;

/// How many entries the server reads at a time, and one more, which tells whether there are further ones.
const LIMIT: i64 = CHAIN_ENTRIES_MAX as i64 + 1;

/// A connection that does nothing but read the log.
pub(super) struct RawLog {
    client: Client,
    statement: Statement,
}

impl RawLog {
    /// Connects, and prepares the store's own query.
    pub(super) async fn connect(database: &Database) -> anyhow::Result<Self> {
        let client = database.postgres().await?;
        client.batch_execute(SESSION).await?;
        let statement = client.prepare(CHAIN_LOG).await?;
        Ok(Self { client, statement })
    }

    /// How many events a second come, the rows being counted and no more looked at than for the next question.
    pub(super) async fn events_a_second(&self, events: u64) -> anyhow::Result<f64> {
        let start = Instant::now();
        let (chain, topics, up_to) = (CHAIN.to_string(), vec![TOPIC_IN_FEED], i64::MAX);
        let bytes_max = CHAIN_SLICE_BYTES_MAX as i64;
        let (mut after, mut read) = (0_i64, 0_u64);
        loop {
            let rows = self
                .client
                .query(&self.statement, &[&chain, &topics, &after, &up_to, &LIMIT, &bytes_max])
                .await?;
            let is_last = rows.len() < LIMIT as usize;
            // The one more belongs to the next slice.
            let taken = if is_last { &rows[..] } else { &rows[..rows.len() - 1] };
            read += taken.len() as u64;
            after = taken.last().context("the log is shorter than it was made")?.get(CHAIN_LOG_SEQ);
            if is_last {
                break;
            }
        }
        ensure!(read == events, "the query gave {read} events of {events}");
        Ok(events as f64 / start.elapsed().as_secs_f64())
    }
}
