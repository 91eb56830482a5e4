//! Moments of a source.

use deadpool_postgres::Object;
use gapless_core::{Mark, Snapshot};

use super::{OPEN_LISTED_MAX, Source, SourceError};
use crate::wire::Consistency;

/// A moment at which a pass begins.
pub(super) struct Begun {
    pub(super) mark: Mark,
    /// With a fixed delay: rows from this value of the cursor column on are left to a later pass.
    pub(super) before: Option<i64>,
}

/// How long the server may take to show the start of a transaction in its statistics.
const SHOWN_AFTER_MICROS: i64 = 1_000_000;

/// The moment, and which table the name means now.
const SNAPSHOT: &str = "SELECT pg_current_snapshot()::text, to_regclass($1)::oid";

/// The oldest start of a transaction of this database that is open and may write, and the clock, in microseconds since 2000-01-01 UTC;
/// and whether there are prepared transactions, whose start nobody knows.
const OLDEST_START: &str = "
    WITH epoch (at) AS (VALUES (timestamptz '2000-01-01 00:00:00+00'))
    SELECT (extract(epoch FROM least(clock_timestamp(), (
            SELECT min(xact_start) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
        )) - epoch.at) * 1000000)::bigint,
        (extract(epoch FROM clock_timestamp() - epoch.at) * 1000000)::bigint,
        EXISTS (SELECT 1 FROM pg_prepared_xacts WHERE database = current_database())
    FROM epoch";

impl Source {
    /// The moment now. What is said of open transactions is read first: whoever is open at the snapshot and isn't among them began
    /// later than they were read.
    pub(super) async fn mark(&self, client: &Object, base: Option<&Mark>) -> Result<Begun, SourceError> {
        let (mut oldest_start, mut before) = (None, None);
        if self.table.config.consistency != Consistency::Strict {
            let row = client.query_one(&client.prepare_cached(OLDEST_START).await?, &[]).await?;
            let (oldest, clock, is_prepared): (i64, i64, bool) =
                (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            let kind = self.table.found.cursor_kind;
            oldest_start = match is_prepared {
                // It was open, or not yet begun, at the moment before.
                true => base.and_then(|base| base.oldest_start),
                false => Some(kind.earliest_at(oldest.saturating_sub(SHOWN_AFTER_MICROS))),
            };
            before = self.delay().map(|delay| {
                kind.earliest_at(clock.saturating_sub(i64::try_from(delay.as_micros()).unwrap_or(i64::MAX)))
            });
        }
        let row = client.query_one(&client.prepare_cached(SNAPSHOT).await?, &[&self.table.relation]).await?;
        self.check_oid(row.try_get(1)?)?;
        let snapshot: String = row.try_get(0)?;
        let snapshot: Snapshot = snapshot
            .parse()
            .map_err(|error: gapless_core::SnapshotError| SourceError::Unavailable(error.to_string()))?;
        Ok(Begun { mark: Mark { snapshot: snapshot.capped(OPEN_LISTED_MAX), oldest_start }, before })
    }
}
