//! A table that is read: what was declared, and what the database says about it.

use std::sync::OnceLock;

use sha2::{Digest as _, Sha256};

use super::catalog::Found;
use super::declaration::TableConfig;
use super::token::Subject;
use crate::quoting::{identifier, qualified};
use crate::wire::{Column, Consistency, Deletes, SourceName, TableDescription};

/// The column that holds the transaction that wrote a row last; see [`install`](super::install).
pub(crate) const STAMP: &str = "gapless_xid";
/// In the table of deleted keys: when they were deleted, as the cursor column counts.
pub(crate) const DELETED_AT: &str = "gapless_at";
/// The trigger that stamps rows.
pub(crate) const STAMPS: &str = "gapless_stamp";
/// The triggers that note deleted keys.
pub(crate) const NOTES: [&str; 3] = ["gapless_delete", "gapless_key", "gapless_truncate"];
/// Without one of these for a while, changes are told to nobody.
pub(super) const TRIGGERS: [&str; 4] = [STAMPS, NOTES[0], NOTES[1], NOTES[2]];
/// The channel on which changes are announced, but for the table's oid.
pub(crate) const CHANNEL_PREFIX: &str = "gapless_";
/// No name in PostgreSQL is longer.
const NAME_BYTES_MAX: usize = 63;

/// A table that is read.
#[derive(Debug, Clone)]
pub(crate) struct SourceTable {
    pub(crate) config: TableConfig,
    pub(crate) found: Found,
    /// The table, quoted.
    pub(crate) relation: String,
    /// The table of deleted keys, quoted.
    pub(crate) tombstones: Option<String>,
    /// The table that says what was purged of those, quoted.
    pub(crate) purged: Option<String>,
    /// A row that meets this condition counts as there; others count as deleted.
    pub(crate) live: Option<String>,
    pub(crate) description: TableDescription,
    pub(crate) subject: Subject,
    /// What is selected from the table and from its deleted keys, in each form of values; it is the same in all statements.
    pub(crate) selected: [OnceLock<String>; 4],
}

impl SourceTable {
    pub(crate) fn new(config: TableConfig, found: Found) -> Self {
        let (schema, table) = config.source();
        let source = SourceName { schema: schema.to_owned(), table: table.to_owned() };
        let names = |columns: &[Column]| columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>();
        let meaning = fingerprint(&(
            (&found.key, &found.cursor, &config.filter),
            (config.consistency, config.deletes, &config.soft_column),
            &found.installed,
        ));
        let schema_version = fingerprint(&(&found.columns, &found.places, &found.types));
        let description = TableDescription {
            table: config.name.clone(),
            source: source.clone(),
            consistency: config.consistency,
            deletes: config.deletes,
            schema_version: format!("{schema_version:016x}"),
            cursor_column: config.cursor.clone(),
            key: names(&found.key),
            loose_key: found.loose_key.clone(),
            columns: found.columns.clone(),
            types: found.types.clone(),
            rows_estimate: found.rows_estimate,
        };
        let subject = Subject { table: config.name.clone(), cluster: found.cluster, oid: found.oid, meaning };
        let is_noted = config.deletes == Deletes::Tombstones;
        let tombstones = is_noted.then(|| tombstones(&source));
        let purged = is_noted.then(|| purged(&source));
        let live = live(&config);
        Self {
            relation: qualified(&source.schema, &source.table),
            tombstones,
            purged,
            live,
            description,
            subject,
            config,
            found,
            selected: Default::default(),
        }
    }

    /// Whether rows are stamped with their transaction.
    pub(crate) fn is_stamped(&self) -> bool {
        self.config.consistency == Consistency::Strict
    }
}

/// The table of deleted keys, beside the table itself.
pub(crate) fn tombstones(source: &SourceName) -> String {
    qualified(&source.schema, &tombstones_name(&source.table))
}

/// Its name.
pub(crate) fn tombstones_name(table: &str) -> String {
    name_of(table, "deleted")
}

/// The table that says what was purged of the deleted keys, beside the table itself.
pub(crate) fn purged(source: &SourceName) -> String {
    qualified(&source.schema, &name_of(&source.table, "purged"))
}

/// The name of something that belongs to a table, shortened where it would be too long.
pub(crate) fn name_of(table: &str, what: &str) -> String {
    let suffix = format!("_gapless_{what}");
    let name = format!("{table}{suffix}");
    if name.len() <= NAME_BYTES_MAX {
        return name;
    }
    let hash = format!("_{:08x}{suffix}", fingerprint(&table) as u32);
    let mut end = NAME_BYTES_MAX - hash.len();
    while !table.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{hash}", &table[..end])
}

fn live(config: &TableConfig) -> Option<String> {
    let filter = config.filter.as_ref().map(|filter| format!("({filter}) IS TRUE"));
    let soft = config.soft_column.as_ref().map(|column| {
        // Of a boolean, false and NULL mean that the row is there; of anything else, NULL does.
        format!("coalesce(t.{}::text, 'false') IN ('false', 'f')", identifier(column))
    });
    let both: Vec<String> = filter.into_iter().chain(soft).collect();
    (!both.is_empty()).then(|| both.join(" AND "))
}

fn fingerprint(value: &impl serde::Serialize) -> u64 {
    let json = serde_json::to_vec(value).expect("it holds only texts and numbers");
    let digest = Sha256::digest(json);
    u64::from_be_bytes(*digest.first_chunk().expect("a digest has 32 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_deleted_keys_has_a_name_of_its_own_that_is_short_enough() {
        assert_eq!(tombstones_name("orders"), "orders_gapless_deleted");
        let long = tombstones_name(&"ü".repeat(31));
        assert!(long.len() <= NAME_BYTES_MAX && long.ends_with("_gapless_deleted"), "{long}");
        assert_ne!(long, tombstones_name(&format!("{}x", "ü".repeat(30))));
    }
}
