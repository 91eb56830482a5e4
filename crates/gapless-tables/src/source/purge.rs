//! Forgets deleted keys, so that the notes of them don't grow for ever.

use std::time::Duration;

use gapless_postgres::Connector;
use tokio_postgres::Client;

use super::catalog::SetupError;
use super::declaration::TableConfig;
use super::raw::{Bytes, Raw};
use super::table::{DELETED_AT, STAMP, SourceTable};
use super::{OpenError, SourceError, install};

/// What was purged of the notes of deleted rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Purged {
    /// How many notes.
    pub notes: u64,
    /// When the last of those rows was deleted, as PostgreSQL writes it; none if there is no note.
    pub up_to: Option<String>,
}

/// So many notes go in one transaction, which takes milliseconds.
const BATCH_ROWS: i64 = 5_000;

/// The clock in microseconds since 2000-01-01 UTC.
const CLOCK: &str = "
    SELECT (extract(epoch FROM clock_timestamp() - timestamptz '2000-01-01 00:00:00+00') * 1000000)::bigint";

/// Deletes the notes of rows that were deleted longer ago than an age, and notes up to where. A cursor that hasn't passed them all is
/// refused from then on. Writers and readers go on meanwhile; a note that a writer holds is left to the next time.
///
/// Nothing is done where deletes aren't noted. It may be stopped at any time and repeated.
pub async fn purge(url: &str, config: TableConfig, age: Duration) -> Result<Purged, OpenError> {
    let (mut client, _driver) = Connector::new(url)?.writing().connect().await.map_err(SourceError::from)?;
    let table = install::find(&client, config).await?;
    let Some(statements) = Statements::new(&table) else { return Ok(Purged::default()) };
    if !install::notes_what_is_purged(&client, &table).await.map_err(SourceError::from)? {
        let problem = "what is purged can't be noted yet; run `gapless table install`".to_owned();
        let wrong = SetupError::Wrong { table: table.config.name.clone(), problem };
        return Err(SourceError::from(wrong).into());
    }
    Ok(statements.purge(&mut client, &table, age).await.map_err(SourceError::from)?)
}

/// What is said to the database.
struct Statements {
    /// Only one purges at a time. It keeps no reader out.
    alone: String,
    /// Deletes a batch that lies from one value of the cursor column to before another; says how many, and the highest value and
    /// transaction among them.
    delete: String,
    /// Notes that. Read after the delete, the snapshot has all that was deleted.
    note: String,
}

impl Statements {
    fn new(table: &SourceTable) -> Option<Self> {
        let (tombstones, purged) = (table.tombstones.as_ref()?, table.purged.as_ref()?);
        Some(Self {
            alone: format!("SET LOCAL lock_timeout = '10s'; LOCK TABLE {purged} IN SHARE ROW EXCLUSIVE MODE"),
            delete: format!(
                "WITH old AS MATERIALIZED (
                    SELECT ctid FROM {tombstones} WHERE ($1::{kind} IS NULL OR {DELETED_AT} >= $1) AND {DELETED_AT} < $2
                    ORDER BY {DELETED_AT} LIMIT {BATCH_ROWS} FOR UPDATE SKIP LOCKED
                ), gone AS (
                    DELETE FROM {tombstones} t USING old WHERE t.ctid = old.ctid RETURNING t.{DELETED_AT} AS at, t.{STAMP} AS stamp
                )
                SELECT count(*), max(at), max(at)::text, max(stamp::text::bigint)::text FROM gone",
                kind = table.found.cursor_kind.name(),
            ),
            note: format!(
                "INSERT INTO {purged} AS p (up_to, last, ended, system)
                SELECT $1, $2::text::xid8, pg_current_snapshot(), system_identifier FROM pg_control_system()
                ON CONFLICT (is_one) DO UPDATE SET up_to = greatest(p.up_to, excluded.up_to), ended = excluded.ended, system = excluded.system,
                    last = CASE WHEN p.system = excluded.system AND p.last > excluded.last THEN p.last ELSE excluded.last END"
            ),
        })
    }

    async fn purge(
        &self,
        client: &mut Client,
        table: &SourceTable,
        age: Duration,
    ) -> Result<Purged, tokio_postgres::Error> {
        let kind = table.found.cursor_kind;
        let now: i64 = client.query_one(CLOCK, &[]).await?.try_get(0)?;
        let age = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
        let before = kind.parameter(kind.earliest_at(now.saturating_sub(age)));
        let (mut purged, mut from) = (Purged::default(), None::<Bytes>);
        loop {
            let transaction = client.transaction().await?;
            transaction.batch_execute(&self.alone).await?;
            let row = transaction.query_one(&self.delete, &[&from, &before]).await?;
            let (notes, Raw(at)): (i64, Raw<'_>) = (row.try_get(0)?, row.try_get(1)?);
            let Some(at) = at else { return Ok(purged) };
            // What was deleted leaves a trace in the index, which the next batch needn't pass.
            let at = Bytes(at.to_vec());
            transaction.execute(&self.note, &[&at, &row.try_get::<_, &str>(3)?]).await?;
            transaction.commit().await?;
            purged = Purged { notes: purged.notes + notes.unsigned_abs(), up_to: row.try_get(2)? };
            from = Some(at);
        }
    }
}
