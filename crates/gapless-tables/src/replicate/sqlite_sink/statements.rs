//! The statements that write a page into SQLite.

use super::storage::Storage;
use crate::quoting::identifier;
use crate::replicate::plan::{Step, Wanted, WantedColumn};
use crate::wire::TableDescription;

/// The statements of one table, and what its values are kept as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Statements {
    pub(super) table: String,
    pub(super) upsert: String,
    pub(super) delete: String,
    pub(super) columns: Vec<(String, Storage)>,
    /// Where the columns of the key are among the columns.
    pub(super) key: Vec<usize>,
}

impl Statements {
    pub(super) fn new(table: &str, description: &TableDescription) -> Self {
        let relation = identifier(table);
        let names: Vec<String> = description.columns.iter().map(|column| identifier(&column.name)).collect();
        let places: Vec<String> = (1..=names.len()).map(|place| format!("?{place}")).collect();
        let updates: Vec<String> = names.iter().map(|name| format!("{name} = excluded.{name}")).collect();
        let key: Vec<String> = description.key.iter().map(|name| identifier(name)).collect();
        let same: Vec<String> =
            key.iter().enumerate().map(|(index, name)| format!("{name} = ?{}", index + 1)).collect();
        let columns = description.columns.iter();
        Self {
            table: table.to_owned(),
            upsert: format!(
                "INSERT INTO {relation} ({}) VALUES ({}) ON CONFLICT ({}) DO UPDATE SET {}",
                names.join(", "),
                places.join(", "),
                key.join(", "),
                updates.join(", ")
            ),
            delete: format!("DELETE FROM {relation} WHERE {}", same.join(" AND ")),
            columns: columns.map(|column| (column.name.clone(), Storage::of(&column.type_name))).collect(),
            key: description
                .key
                .iter()
                .filter_map(|name| description.columns.iter().position(|column| column.name == *name))
                .collect(),
        }
    }
}

/// The table that a description asks for, in SQLite's types.
pub(super) fn wanted(description: &TableDescription) -> Wanted {
    let columns = description.columns.iter().map(|column| WantedColumn {
        name: column.name.clone(),
        type_name: Storage::of(&column.type_name).type_name().to_owned(),
        not_null: column.not_null,
    });
    Wanted { columns: columns.collect(), key: description.key.clone() }
}

/// The statement of a step; none where SQLite has none.
pub(super) fn step(step: &Step, table: &str, wanted: &Wanted) -> Option<String> {
    let relation = identifier(table);
    match step {
        Step::Create => {
            let columns: Vec<String> = wanted.columns.iter().map(definition).collect();
            let key: Vec<String> = wanted.key.iter().map(|column| identifier(column)).collect();
            Some(format!(
                "CREATE TABLE {relation} ({}, PRIMARY KEY ({}))",
                columns.join(", "),
                key.join(", ")
            ))
        }
        Step::AddColumn(column) => Some(format!("ALTER TABLE {relation} ADD COLUMN {}", definition(column))),
        Step::AllowNull(_) => None,
    }
}

fn definition(column: &WantedColumn) -> String {
    let not_null = if column.not_null { " NOT NULL" } else { "" };
    format!("{} {}{not_null}", identifier(&column.name), column.type_name)
}
