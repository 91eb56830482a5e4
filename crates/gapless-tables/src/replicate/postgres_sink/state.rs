//! The positions of copies, in a table of the target.

use tokio_postgres::{Client, Error, GenericClient, Row, Transaction};

use crate::quoting::qualified;
use crate::replicate::kept::Kept;
use crate::replicate::position::{Position, Replay};
use crate::wire::{SourceName, TableDescription};

const TABLE: &str = "gapless_replica";

/// Makes the table of positions in the target's schema, unless it is there.
pub(super) async fn make(client: &impl GenericClient, schema: &str) -> Result<(), Error> {
    let table = qualified(schema, TABLE);
    if is_there(client, schema).await? {
        return Ok(());
    }
    client
        .batch_execute(&format!(
            "CREATE TABLE {table} (
                target text PRIMARY KEY,
                source text NOT NULL,
                source_table text NOT NULL,
                schema_version text NOT NULL,
                columns text[] NOT NULL,
                cursor text,
                replay_since text,
                replay_cursor text,
                is_filling boolean NOT NULL,
                repairs bigint NOT NULL DEFAULT 0,
                upserts bigint NOT NULL DEFAULT 0,
                deletes bigint NOT NULL DEFAULT 0,
                updated_at timestamptz NOT NULL DEFAULT now()
            )"
        ))
        .await
}

/// Reads what is kept about a table.
pub(super) async fn read(transaction: &Transaction<'_>, name: &SourceName) -> Result<Option<Kept>, Error> {
    Ok(transaction.query_opt(&reading(name), &[&name.table]).await?.as_ref().map(kept))
}

/// The same, and locks it until the transaction ends.
pub(super) async fn lock(transaction: &Transaction<'_>, name: &SourceName) -> Result<Option<Kept>, Error> {
    let sql = format!("{} FOR UPDATE", reading(name));
    Ok(transaction.query_opt(&sql, &[&name.table]).await?.as_ref().map(kept))
}

fn reading(name: &SourceName) -> String {
    format!(
        "SELECT cursor, replay_since, replay_cursor, is_filling, repairs, source_table, columns, schema_version FROM {} WHERE target = $1",
        qualified(&name.schema, TABLE)
    )
}

/// Whether there is a table of positions.
pub(super) async fn is_there(client: &impl GenericClient, schema: &str) -> Result<bool, Error> {
    let row = client.query_one("SELECT to_regclass($1) IS NOT NULL", &[&qualified(schema, TABLE)]).await?;
    Ok(row.get(0))
}

/// Counts a repair, so that pages that were asked for before aren't taken any more.
pub(super) async fn count_repair(transaction: &Transaction<'_>, name: &SourceName) -> Result<(), Error> {
    let sql =
        format!("UPDATE {} SET repairs = repairs + 1 WHERE target = $1", qualified(&name.schema, TABLE));
    transaction.execute(&sql, &[&name.table]).await?;
    Ok(())
}

fn kept(row: &Row) -> Kept {
    let since: Option<String> = row.get(1);
    let replay = since.map(|since| Replay { since, cursor: row.get(2) });
    let position = Position { cursor: row.get(0), replay, is_filling: row.get(3), repairs: row.get(4) };
    Kept { position, source_table: row.get(5), columns: row.get(6), schema_version: row.get(7) }
}

/// Keeps what a table is now.
pub(super) async fn keep(
    transaction: &Transaction<'_>,
    name: &SourceName,
    origin: &str,
    description: &TableDescription,
    position: &Position,
) -> Result<(), Error> {
    let sql = format!(
        "INSERT INTO {} (target, source, source_table, schema_version, columns, cursor, replay_since, replay_cursor, is_filling)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
        ON CONFLICT (target) DO UPDATE SET source = excluded.source, source_table = excluded.source_table,
            schema_version = excluded.schema_version, columns = excluded.columns, cursor = excluded.cursor,
            replay_since = excluded.replay_since, replay_cursor = excluded.replay_cursor, is_filling = excluded.is_filling",
        qualified(&name.schema, TABLE)
    );
    let columns: Vec<&str> = description.columns.iter().map(|column| column.name.as_str()).collect();
    let (since, replay_cursor) = position.replay_parts();
    transaction
        .execute(
            &sql,
            &[
                &name.table,
                &origin,
                &description.table,
                &description.schema_version,
                &columns,
                &position.cursor,
                &since,
                &replay_cursor,
                &position.is_filling,
            ],
        )
        .await?;
    Ok(())
}

/// The statement that moves a position, if it is where it should be.
pub(super) fn advance(name: &SourceName) -> String {
    format!(
        "UPDATE {} SET cursor = $2, replay_since = $3, replay_cursor = $4, is_filling = $5,
            upserts = upserts + $6, deletes = deletes + $7, updated_at = now()
        WHERE target = $1 AND cursor IS NOT DISTINCT FROM $8 AND replay_since IS NOT DISTINCT FROM $9
            AND replay_cursor IS NOT DISTINCT FROM $10 AND repairs = $11",
        qualified(&name.schema, TABLE)
    )
}

/// The statement that forgets that there is a copy.
pub(super) fn forget(name: &SourceName) -> String {
    let table = qualified(&name.schema, TABLE);
    format!("DELETE FROM {table} WHERE target = '{}'", name.table.replace('\'', "''"))
}

/// Forgets a copy: its rows, and what is kept about it.
pub(super) async fn clear(client: &mut Client, name: &SourceName) -> Result<(), Error> {
    let transaction = client.transaction().await?;
    let sql = format!(
        "UPDATE {} SET cursor = NULL, replay_since = NULL, replay_cursor = NULL, is_filling = true WHERE target = $1",
        qualified(&name.schema, TABLE)
    );
    transaction.execute(&sql, &[&name.table]).await?;
    transaction.batch_execute(&format!("TRUNCATE {}", qualified(&name.schema, &name.table))).await?;
    transaction.commit().await
}
