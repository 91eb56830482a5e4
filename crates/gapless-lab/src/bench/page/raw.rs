//! The same query in a loop on the driver.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use tokio::task::JoinSet;
use tokio_postgres::{Client, Statement};

use super::{PAGE_ENTRIES, Place, Plan, log};
use crate::bench::reading_session::SESSION;
use crate::database::Database;

/// The page of a user, as the store asks for it; [`RawPages::are_ours`] tells if it still does.
const USER_PAGE: &str = "\
    SELECT f.epoch, f.head, f.min_seq, f.visible_from, f.held_at, \
        e.seq, e.kind, e.sender, e.key, e.ts, e.body FROM ( \
        SELECT f.epoch, f.head, f.min_seq, CASE WHEN f.history = 'all' THEN ( \
            SELECT m.to_seq FROM member m WHERE m.feed = $1 AND m.user_id = $2 \
            ORDER BY m.joined_seq DESC LIMIT 1 \
        ) END AS held_at, ( \
            SELECT m.from_seq FROM member m \
            WHERE m.feed = $1 AND m.user_id = $2 AND m.joined_seq >= \
                coalesce((SELECT s.joined_seq FROM member s \
                    WHERE s.feed = $1 AND s.user_id = $2 AND s.joined_seq <= $3 \
                    ORDER BY s.joined_seq DESC LIMIT 1), 0) \
                AND coalesce(m.to_seq, f.head) > $3 ORDER BY m.joined_seq LIMIT 1 \
        ) AS visible_from FROM feed f \
        WHERE f.feed = $1 AND EXISTS (SELECT FROM member m WHERE m.feed = $1 AND m.user_id = $2) LIMIT 1 \
    ) f LEFT JOIN LATERAL ( \
        SELECT e.* FROM ( \
            SELECT m.joined_seq, m.from_seq, coalesce(m.to_seq, f.head) AS to_seq FROM member m \
            WHERE m.feed = $1 AND m.user_id = $2 AND m.joined_seq >= \
                coalesce((SELECT s.joined_seq FROM member s \
                    WHERE s.feed = $1 AND s.user_id = $2 AND s.joined_seq <= greatest($3, f.min_seq - 1) \
                    ORDER BY s.joined_seq DESC LIMIT 1), 0) \
                AND coalesce(m.to_seq, f.head) > greatest($3, f.min_seq - 1) \
                AND f.epoch = coalesce($5, f.epoch) \
            ORDER BY m.joined_seq LIMIT $4 \
        ) m CROSS JOIN LATERAL ( \
            SELECT * FROM entry e \
            WHERE e.feed = $1 AND e.seq > $3 AND e.seq >= m.from_seq AND e.seq <= m.to_seq \
            ORDER BY e.seq LIMIT $4 \
        ) e ORDER BY m.joined_seq, e.seq LIMIT $4 \
    ) e ON true";

/// Connections that do nothing but ask for pages.
pub(super) struct RawPages {
    connections: Vec<(Arc<Client>, Statement)>,
}

impl RawPages {
    /// Connects, and prepares the query.
    pub(super) async fn connect(database: &Database, connections: usize) -> anyhow::Result<Self> {
        let mut prepared = Vec::new();
        for _ in 0..connections {
            let client = database.postgres().await?;
            client.batch_execute(SESSION).await?;
            let statement = client.prepare(USER_PAGE).await?;
            prepared.push((Arc::new(client), statement));
        }
        Ok(Self { connections: prepared })
    }

    /// Whether the server, which has just read pages, asked for them with the same statement: as far as PostgreSQL keeps its
    /// text.
    pub(super) async fn are_ours(&self) -> anyhow::Result<bool> {
        let (client, _) = self.connections.first().context("there is a connection")?;
        let asked = client
            .query(
                "SELECT query FROM pg_stat_activity WHERE datname = current_database() \
                 AND application_name = 'gapless' AND query LIKE 'SELECT f.epoch, f.head, f.min_seq, %'",
                &[],
            )
            .await?;
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let ours = words(USER_PAGE);
        Ok(asked.iter().map(|row| words(row.get(0))).any(|text| ours.starts_with(&text)))
    }

    /// How many pages a second all connections get together, the rows being counted and not looked at.
    pub(super) async fn pages_a_second(&self, plan: Plan) -> anyhow::Result<f64> {
        let start = Instant::now();
        let mut readers = JoinSet::new();
        for (number, (client, statement)) in self.connections.iter().cloned().enumerate() {
            readers.spawn(async move {
                let mut dice = SmallRng::seed_from_u64(number as u64);
                let mut pages = 0_u64;
                while start.elapsed() < plan.round {
                    let after = i64::try_from(Place::Anywhere.cursor(plan.entries, &mut dice))?;
                    let (rows_max, epoch) = (i64::from(PAGE_ENTRIES) + 1, None::<i64>);
                    let rows = client
                        .query(&statement, &[&log::CONVERSATION, &log::READER, &after, &rows_max, &epoch])
                        .await?;
                    ensure!(rows.len() >= PAGE_ENTRIES as usize, "a page has {} rows", rows.len());
                    pages += 1;
                }
                Ok(pages)
            });
        }
        let mut pages = 0;
        while let Some(read) = readers.join_next().await {
            pages += read??;
        }
        Ok(pages as f64 / start.elapsed().as_secs_f64())
    }
}
