//! The statements that write a page.

use crate::quoting::{identifier, qualified};
use crate::replicate::page::Records;
use crate::replicate::position::Position;
use crate::wire::{Column, SourceName, TableDescription};

/// The way that a page takes into the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Straight in, since nothing is there that it could meet.
    Straight,
    /// By a table of the session: all rows at once, whether they are there or not.
    Staged,
    /// The same, where only the last record of a key counts.
    Merged,
}

/// The statements that write the pages of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Statements {
    pub(super) target: SourceName,
    /// Makes the table of the session, which is empty again after each transaction.
    pub(super) stage: String,
    pub(super) copy_straight: String,
    pub(super) copy_staged: String,
    /// Leaves only the last record of each key in the table of the session. Only the database knows which keys are equal.
    pub(super) merge: String,
    pub(super) upsert: String,
    pub(super) delete: String,
    pub(super) columns: i16,
    /// Whether binary pages have all values in the form that the table wants.
    is_binary: bool,
}

const STAGE: &str = "pg_temp.gapless_page";

impl Statements {
    pub(super) fn new(target: &SourceName, description: &TableDescription) -> Self {
        let relation = qualified(&target.schema, &target.table);
        let columns = &description.columns;
        let names = |pattern: &dyn Fn(usize, &Column) -> String| -> Vec<String> {
            columns.iter().enumerate().map(|(index, column)| pattern(index, column)).collect()
        };
        let quoted = names(&|_, column| identifier(&column.name)).join(", ");
        let values = names(&value).join(", ");
        let updates = names(&|_, column| format!("{0} = excluded.{0}", identifier(&column.name))).join(", ");
        let staged = names(&|index, _| format!("c{index}")).join(", ");
        let definitions = names(&|index, column| {
            format!("c{index} {}", if column.binary { column.type_name.as_str() } else { "text" })
        });
        let key: Vec<(String, String)> = description
            .key
            .iter()
            .filter_map(|name| {
                let (index, column) = columns.iter().enumerate().find(|(_, column)| column.name == *name)?;
                Some((identifier(name), value(index, column)))
            })
            .collect();
        let key_names: Vec<&str> = key.iter().map(|(name, _)| name.as_str()).collect();
        let key_values: Vec<&str> = key.iter().map(|(_, value)| value.as_str()).collect();
        let same: Vec<String> = key.iter().map(|(name, value)| format!("t.{name} = {value}")).collect();
        Self {
            target: target.clone(),
            stage: format!(
                "DROP TABLE IF EXISTS {STAGE};
                CREATE TEMPORARY TABLE gapless_page (n bigint GENERATED ALWAYS AS IDENTITY, op smallint, {}) ON COMMIT DELETE ROWS",
                definitions.join(", ")
            ),
            copy_straight: format!("COPY {relation} ({quoted}) FROM STDIN (FORMAT binary)"),
            copy_staged: format!("COPY {STAGE} (op, {staged}) FROM STDIN (FORMAT binary)"),
            merge: format!(
                "DELETE FROM {STAGE} WHERE n IN (SELECT n FROM (
                    SELECT n, row_number() OVER (PARTITION BY {} ORDER BY n DESC) AS newest FROM {STAGE} p
                ) x WHERE newest > 1)",
                key_values.join(", ")
            ),
            upsert: format!(
                "INSERT INTO {relation} ({quoted}) OVERRIDING SYSTEM VALUE SELECT {values} FROM {STAGE} p WHERE op = 0
                ON CONFLICT ({}) DO UPDATE SET {updates}",
                key_names.join(", ")
            ),
            delete: format!(
                "DELETE FROM {relation} t USING {STAGE} p WHERE p.op = 1 AND {}",
                same.join(" AND ")
            ),
            columns: i16::try_from(columns.len()).expect("a table has at most 1,600 columns"),
            is_binary: columns.iter().all(|column| column.binary),
        }
    }

    /// The way of a page's records, given where the target is.
    pub(super) fn way(&self, records: &Records, from: &Position) -> Way {
        if records.deletes > 0 && records.upserts > 0 {
            Way::Merged
        } else if from.is_filling && records.deletes == 0 && self.is_binary {
            Way::Straight
        } else {
            Way::Staged
        }
    }
}

/// A value of the table of the session, as the target wants it.
fn value(index: usize, column: &Column) -> String {
    if column.binary { format!("p.c{index}") } else { format!("p.c{index}::{}", column.type_name) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Consistency, Deletes};

    #[test]
    fn values_that_came_as_texts_are_read_as_their_type() {
        let statements = Statements::new(&name(), &description());
        assert!(statements.stage.contains("op smallint, c0 bigint, c1 text)"), "{}", statements.stage);
        assert!(statements.upsert.contains("SELECT p.c0, p.c1::public.mood FROM"), "{}", statements.upsert);
        assert!(
            statements.delete.ends_with("p.op = 1 AND t.\"mood\" = p.c1::public.mood AND t.\"id\" = p.c0"),
            "{}",
            statements.delete
        );
        assert!(!statements.is_binary);
    }

    fn name() -> SourceName {
        SourceName { schema: "public".to_owned(), table: "moods".to_owned() }
    }

    fn description() -> TableDescription {
        let column = |name: &str, type_name: &str, binary| Column {
            name: name.to_owned(),
            type_name: type_name.to_owned(),
            binary,
            not_null: true,
            collation: None,
        };
        TableDescription {
            table: "moods".to_owned(),
            source: name(),
            consistency: Consistency::Strict,
            deletes: Deletes::Tombstones,
            schema_version: "1".to_owned(),
            cursor_column: "at".to_owned(),
            key: vec!["mood".to_owned(), "id".to_owned()],
            loose_key: Vec::new(),
            columns: vec![column("id", "bigint", true), column("mood", "public.mood", false)],
            types: Vec::new(),
            rows_estimate: None,
        }
    }
}
