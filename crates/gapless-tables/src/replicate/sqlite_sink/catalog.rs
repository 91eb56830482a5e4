//! What is in the file already.

use std::collections::BTreeSet;

use rusqlite::{Connection, Result};

use crate::quoting::identifier;
use crate::replicate::plan::{Existing, ExistingColumn};

const COLUMNS: &str =
    r#"SELECT name, type, "notnull", dflt_value IS NOT NULL, hidden >= 2, pk FROM pragma_table_xinfo(?1)"#;
const INDEXES: &str = r#"SELECT name FROM pragma_index_list(?1) WHERE "unique" AND NOT partial"#;
const INDEXED: &str = "SELECT name FROM pragma_index_info(?1)";

/// The table, if there is one.
pub(super) fn table(connection: &Connection, table: &str) -> Result<Option<Existing>> {
    let mut primary = BTreeSet::new();
    let mut columns = Vec::new();
    let mut statement = connection.prepare(COLUMNS)?;
    let mut rows = statement.query([table])?;
    while let Some(row) = rows.next()? {
        let name: String = row.get(0)?;
        if row.get::<_, i64>(5)? > 0 {
            primary.insert(name.clone());
        }
        columns.push(ExistingColumn {
            name,
            type_name: row.get(1)?,
            not_null: row.get(2)?,
            has_default: row.get(3)?,
            is_computed: row.get(4)?,
        });
    }
    if columns.is_empty() {
        return Ok(None);
    }
    let mut unique = vec![primary];
    let mut statement = connection.prepare(INDEXES)?;
    let names = statement.query_map([table], |row| row.get(0))?.collect::<Result<Vec<String>>>()?;
    for name in names {
        let mut statement = connection.prepare(INDEXED)?;
        // An expression has no name, and can't be the key's column.
        let indexed =
            statement.query_map([name], |row| row.get(0))?.collect::<Result<Vec<Option<String>>>>()?;
        unique.extend(indexed.into_iter().collect::<Option<BTreeSet<String>>>());
    }
    Ok(Some(Existing { columns, unique }))
}

/// Whether a table has any row.
pub(super) fn has_rows(connection: &Connection, table: &str) -> Result<bool> {
    let sql = format!("SELECT EXISTS (SELECT 1 FROM {})", identifier(table));
    connection.query_row(&sql, (), |row| row.get(0))
}
