//! The positions of copies, in a table of the file.

use rusqlite::{Connection, OptionalExtension as _, Result, params};

use crate::replicate::kept::Kept;
use crate::replicate::position::{Position, Replay};
use crate::wire::TableDescription;

const MAKE: &str = "
    CREATE TABLE IF NOT EXISTS gapless_replica (
        target TEXT PRIMARY KEY NOT NULL,
        source TEXT NOT NULL,
        source_table TEXT NOT NULL,
        schema_version TEXT NOT NULL,
        columns TEXT NOT NULL,
        cursor TEXT,
        replay_since TEXT,
        replay_cursor TEXT,
        is_filling INTEGER NOT NULL,
        repairs INTEGER NOT NULL DEFAULT 0,
        upserts INTEGER NOT NULL DEFAULT 0,
        deletes INTEGER NOT NULL DEFAULT 0,
        updated_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
    )";

const READ: &str = "
    SELECT cursor, replay_since, replay_cursor, is_filling, repairs, source_table, columns, schema_version FROM gapless_replica WHERE target = ?1";

const KEEP: &str = "
    INSERT INTO gapless_replica (target, source, source_table, schema_version, columns, cursor, replay_since, replay_cursor, is_filling)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
    ON CONFLICT (target) DO UPDATE SET source = excluded.source, source_table = excluded.source_table,
        schema_version = excluded.schema_version, columns = excluded.columns, cursor = excluded.cursor,
        replay_since = excluded.replay_since, replay_cursor = excluded.replay_cursor, is_filling = excluded.is_filling";

const ADVANCE: &str = "
    UPDATE gapless_replica SET cursor = ?2, replay_since = ?3, replay_cursor = ?4, is_filling = ?5,
        upserts = upserts + ?6, deletes = deletes + ?7, updated_at = CURRENT_TIMESTAMP
    WHERE target = ?1 AND cursor IS ?8 AND replay_since IS ?9 AND replay_cursor IS ?10 AND repairs = ?11";

const CLEAR: &str = "
    UPDATE gapless_replica SET cursor = NULL, replay_since = NULL, replay_cursor = NULL, is_filling = 1 WHERE target = ?1";

/// Makes the table of positions, unless it is there.
pub(super) fn make(connection: &Connection) -> Result<()> {
    connection.execute_batch(MAKE)
}

/// Reads what is kept about a table.
pub(super) fn read(connection: &Connection, table: &str) -> Result<Option<Kept>> {
    let row = connection.query_row(READ, [table], |row| {
        let since: Option<String> = row.get(1)?;
        let cursor = row.get(2)?;
        let replay = since.map(|since| Replay { since, cursor });
        let columns: String = row.get(6)?;
        Ok(Kept {
            position: Position { cursor: row.get(0)?, replay, is_filling: row.get(3)?, repairs: row.get(4)? },
            source_table: row.get(5)?,
            columns: serde_json::from_str(&columns).unwrap_or_default(),
            schema_version: row.get(7)?,
        })
    });
    row.optional()
}

/// Whether there is a table of positions.
pub(super) fn is_there(connection: &Connection) -> Result<bool> {
    connection.table_exists(None, "gapless_replica")
}

/// Counts a repair, so that pages that were asked for before aren't taken any more.
pub(super) fn count_repair(connection: &Connection, table: &str) -> Result<()> {
    const COUNT: &str = "UPDATE gapless_replica SET repairs = repairs + 1 WHERE target = ?1";
    connection.execute(COUNT, [table])?;
    Ok(())
}

/// Keeps what a table is now.
pub(super) fn keep(
    connection: &Connection,
    table: &str,
    origin: &str,
    description: &TableDescription,
    position: &Position,
) -> Result<()> {
    let names: Vec<&str> = description.columns.iter().map(|column| column.name.as_str()).collect();
    let columns = serde_json::json!(names).to_string();
    let (since, replay_cursor) = position.replay_parts();
    let parameters = params![
        table,
        origin,
        description.table,
        description.schema_version,
        columns,
        position.cursor,
        since,
        replay_cursor,
        position.is_filling,
    ];
    connection.execute(KEEP, parameters)?;
    Ok(())
}

/// Moves a position, if it is where it should be. Returns whether it was.
pub(super) fn advance(
    connection: &Connection,
    table: &str,
    from: &Position,
    to: &Position,
    (upserts, deletes): (usize, usize),
) -> Result<bool> {
    let (since_before, replay_before) = from.replay_parts();
    let (since, replay_cursor) = to.replay_parts();
    let count = |records| i64::try_from(records).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(ADVANCE)?;
    let moved = statement.execute(params![
        table,
        to.cursor,
        since,
        replay_cursor,
        to.is_filling,
        count(upserts),
        count(deletes),
        from.cursor,
        since_before,
        replay_before,
        from.repairs,
    ])?;
    Ok(moved == 1)
}

/// The statement that forgets that there is a copy.
pub(super) fn forget(table: &str) -> String {
    format!("DELETE FROM gapless_replica WHERE target = '{}'", table.replace('\'', "''"))
}

/// Forgets where a copy is.
pub(super) fn clear(connection: &Connection, table: &str) -> Result<()> {
    connection.execute(CLEAR, [table])?;
    Ok(())
}
