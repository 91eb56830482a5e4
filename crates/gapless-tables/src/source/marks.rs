//! Moments of a source.

use std::time::Duration;

use deadpool_postgres::Object;
use gapless_core::{Mark, Snapshot};

use super::{OPEN_LISTED_MAX, Source, SourceError};
use crate::wire::Consistency;

/// A moment of a source, at which a pass begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    pub(super) mark: Mark,
    /// With a fixed delay: rows from this value of the cursor column on are left to a later pass.
    pub(super) before: Option<i64>,
}

/// How long the server may take to show the start of a transaction in its statistics.
const SHOWN_AFTER_MICROS: i64 = 1_000_000;

/// What had ended, and how far the source's log had come by then: past the start of a page there is only its head. Whether all of that is
/// on disk, and which table the name means.
const SNAPSHOT: &str = "
    WITH log (at, page) AS (
        SELECT pg_current_wal_insert_lsn(), (pg_current_wal_insert_lsn() - '0/0') % current_setting('wal_block_size')::numeric
    ), written (at) AS (SELECT CASE WHEN page IN (24, 40) THEN at - page ELSE at END FROM log)
    SELECT pg_current_snapshot()::text, written.at::text, pg_current_wal_flush_lsn() >= written.at,
        to_regclass($1)::oid
    FROM written";

const IS_ON_DISK: &str = "SELECT pg_current_wal_flush_lsn() >= $1::text::pg_lsn";

/// A message to nobody, whose commit takes to disk all that came before it.
const FLUSH: &str = "
    BEGIN READ WRITE; SET LOCAL synchronous_commit = local; SELECT pg_logical_emit_message(true, 'gapless', ''); COMMIT";

/// How often it is looked whether the log is on disk by itself, and how long between that.
const LOOKS: u32 = 10;
const LOOKS_AGAIN_AFTER: Duration = Duration::from_millis(2);

/// The same where nothing but what is visible counts.
const VISIBLE: &str = "SELECT pg_current_snapshot()::text, to_regclass($1)::oid";

/// The oldest start of a transaction of this database that is open and may write, in microseconds since 2000-01-01 UTC; and whether
/// there are transactions whose start nobody knows: prepared ones, and those of sessions that don't tell what they do.
const OLDEST_START: &str = "
    WITH epoch (at) AS (VALUES (timestamptz '2000-01-01 00:00:00+00')), session AS MATERIALIZED (
        SELECT xact_start, state FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
    )
    SELECT (extract(epoch FROM least(clock_timestamp(), (SELECT min(xact_start) FROM session)) - epoch.at) * 1000000)::bigint,
        EXISTS (SELECT 1 FROM session WHERE state = 'disabled')
            OR EXISTS (SELECT 1 FROM pg_prepared_xacts WHERE database = current_database())
    FROM epoch";

/// The clock in microseconds since 2000-01-01 UTC, and the same of the local time that sessions of this database begin with.
const CLOCKS: &str = "
    SELECT (extract(epoch FROM clock_timestamp() - timestamptz '2000-01-01 00:00:00+00') * 1000000)::bigint,
        (extract(epoch FROM clock_timestamp() AT TIME ZONE (SELECT reset_val FROM pg_settings WHERE name = 'TimeZone')
            - timestamp '2000-01-01') * 1000000)::bigint";

impl Source {
    /// The moment now. What is said of open transactions is read first: whoever is open at the snapshot and isn't among them began
    /// later than they were read.
    pub(super) async fn moment(&self, client: &Object, base: Option<&Mark>) -> Result<Moment, SourceError> {
        let (mut oldest_start, mut before) = (None, None);
        let snapshot = match self.table.config.consistency {
            Consistency::Strict => self.durable_snapshot(client, base).await?,
            Consistency::Watched => {
                oldest_start = self.oldest_start(client, base).await?;
                self.snapshot(client).await?
            }
            Consistency::BestEffort => {
                before = self.before(client).await?;
                self.snapshot(client).await?
            }
        };
        let snapshot = snapshot.capped(OPEN_LISTED_MAX, base.map(|base| &base.snapshot));
        Ok(Moment { mark: Mark { snapshot, oldest_start }, before })
    }

    async fn snapshot(&self, client: &Object) -> Result<Snapshot, SourceError> {
        let row = client.query_one(&client.prepare_cached(VISIBLE).await?, &[&self.table.relation]).await?;
        self.check_oid(row.try_get(1)?)?;
        parsed(row.try_get(0)?)
    }

    /// What had ended, once that is on disk. After a crash, transactions whose end wasn't are undone, and others get their numbers:
    /// what those write would be taken for seen.
    async fn durable_snapshot(&self, client: &Object, base: Option<&Mark>) -> Result<Snapshot, SourceError> {
        let row = client.query_one(&client.prepare_cached(SNAPSHOT).await?, &[&self.table.relation]).await?;
        self.check_oid(row.try_get(3)?)?;
        let snapshot = parsed(row.try_get(0)?)?;
        let (end, mut is_on_disk): (String, bool) = (row.try_get(1)?, row.try_get(2)?);
        if base.is_some_and(|base| base.snapshot == snapshot) {
            return Ok(snapshot);
        }
        let look = client.prepare_cached(IS_ON_DISK).await?;
        for _ in 0..LOOKS {
            if is_on_disk {
                return Ok(snapshot);
            }
            tokio::time::sleep(LOOKS_AGAIN_AFTER).await;
            is_on_disk = client.query_one(&look, &[&end]).await?.try_get(0)?;
        }
        if !is_on_disk {
            client.batch_execute(FLUSH).await?;
        }
        Ok(snapshot)
    }

    async fn oldest_start(&self, client: &Object, base: Option<&Mark>) -> Result<Option<i64>, SourceError> {
        let row = client.query_one(&client.prepare_cached(OLDEST_START).await?, &[]).await?;
        let (oldest, is_hidden): (i64, bool) = (row.try_get(0)?, row.try_get(1)?);
        let oldest = self.table.found.cursor_kind.earliest_at(oldest.saturating_sub(SHOWN_AFTER_MICROS));
        Ok(match is_hidden {
            // It was open, or not yet begun, at the moment before.
            true => base.and_then(|base| base.oldest_start),
            false => Some(oldest),
        })
    }

    async fn before(&self, client: &Object) -> Result<Option<i64>, SourceError> {
        let Some(delay) = self.delay() else { return Ok(None) };
        let row = client.query_one(&client.prepare_cached(CLOCKS).await?, &[]).await?;
        let (utc, local): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        let delay = i64::try_from(delay.as_micros()).unwrap_or(i64::MAX);
        Ok(Some(self.table.found.cursor_kind.at(utc.saturating_sub(delay), local.saturating_sub(delay))))
    }
}

fn parsed(snapshot: &str) -> Result<Snapshot, SourceError> {
    snapshot.parse().map_err(|error: gapless_core::SnapshotError| SourceError::Unavailable(error.to_string()))
}
