//! The same query in a loop on the driver.

use std::time::Instant;

use anyhow::{Context as _, ensure};
use tokio_postgres::{Client, Statement};

use super::log::{CHAIN, TOPIC_IN_FEED};
use crate::bench::reading_session::SESSION;
use crate::database::Database;

/// What follows a seq, as the store asks for it; [`RawLog::is_ours`] tells if it still does.
const LOG: &str = "\
    SELECT c.epoch, c.head, c.min_seq, c.finalized, c.gap_after, c.gap_to, b.number, b.hash, \
        e.seq, e.kind, e.block, e.log, e.hash, e.time, e.topic, e.payload, e.state, e.first FROM chain c \
    LEFT JOIN LATERAL ( \
        SELECT number, hash FROM chain_block \
        WHERE chain = $1 AND canonical ORDER BY number DESC LIMIT 1 \
    ) b ON true \
    LEFT JOIN LATERAL ( \
        SELECT x.* FROM unnest($2::text[]) AS t (topic) CROSS JOIN LATERAL ( \
            SELECT * FROM chain_entry e \
            WHERE e.chain = $1 AND e.topic = t.topic AND e.seq > $3 AND e.void_at IS NULL AND e.block <= $4 \
            ORDER BY e.seq LIMIT $5 \
        ) x \
        UNION ALL \
        SELECT x.* FROM ( \
            SELECT * FROM chain_entry r \
            WHERE r.chain = $1 AND r.kind = 'revoke' AND r.seq > $3 AND r.first <= $3 AND EXISTS ( \
                SELECT 1 FROM unnest($2::text[]) AS t (topic) CROSS JOIN LATERAL ( \
                    SELECT 1 FROM chain_entry v \
                    WHERE v.chain = $1 AND v.topic = t.topic AND v.seq >= r.first AND v.seq <= $3 \
                        AND v.void_at = r.seq LIMIT 1 \
                ) v \
            ) ORDER BY r.seq LIMIT $5 \
        ) x \
    ) e ON true WHERE c.chain = $1";

/// How many entries the server reads at a time, and one more, which tells whether there are further ones.
const LIMIT: i64 = 201;

/// A connection that does nothing but read the log.
pub(super) struct RawLog {
    client: Client,
    statement: Statement,
}

impl RawLog {
    /// Connects, and prepares the query.
    pub(super) async fn connect(database: &Database) -> anyhow::Result<Self> {
        let client = database.postgres().await?;
        client.batch_execute(SESSION).await?;
        let statement = client.prepare(LOG).await?;
        Ok(Self { client, statement })
    }

    /// Whether the server, which has just read the log, asked for it with the same statement: as far as PostgreSQL keeps its text.
    pub(super) async fn is_ours(&self) -> anyhow::Result<bool> {
        let asked = self
            .client
            .query(
                "SELECT query FROM pg_stat_activity WHERE datname = current_database() \
                 AND application_name = 'gapless' AND query LIKE '%chain_entry%'",
                &[],
            )
            .await?;
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let ours = words(LOG);
        Ok(asked.iter().map(|row| words(row.get(0))).any(|text| ours.starts_with(&text)))
    }

    /// How many events a second come, the rows being counted and no more looked at than for the next question.
    pub(super) async fn events_a_second(&self, events: u64) -> anyhow::Result<f64> {
        let start = Instant::now();
        let (chain, topics, up_to) = (CHAIN.to_string(), vec![TOPIC_IN_FEED], i64::MAX);
        let (mut after, mut read) = (0_i64, 0_u64);
        loop {
            let rows = self.client.query(&self.statement, &[&chain, &topics, &after, &up_to, &LIMIT]).await?;
            let is_last = rows.len() < LIMIT as usize;
            // The one more belongs to the next slice.
            let taken = if is_last { &rows[..] } else { &rows[..rows.len() - 1] };
            read += taken.len() as u64;
            after = taken.last().context("the log is shorter than it was made")?.get(8);
            if is_last {
                break;
            }
        }
        ensure!(read == events, "the query gave {read} events of {events}");
        Ok(events as f64 / start.elapsed().as_secs_f64())
    }
}
