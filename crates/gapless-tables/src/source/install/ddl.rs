//! The statements that install and remove.

use crate::quoting::{identifier, qualified};
use crate::source::cursor_kind::CursorKind;
use crate::source::table::{DELETED_AT, STAMP, SourceTable, tombstones_name};
use crate::wire::{Column, Deletes};

/// The trigger that stamps rows.
pub(super) const STAMPS: &str = "gapless_stamp";
/// The triggers that note deleted keys.
pub(super) const NOTES: [&str; 3] = ["gapless_delete", "gapless_key", "gapless_truncate"];

/// What is said to the database of a table.
pub(super) struct Ddl<'a> {
    table: &'a SourceTable,
}

impl<'a> Ddl<'a> {
    pub(super) fn new(table: &'a SourceTable) -> Self {
        Self { table }
    }

    /// Cursor and key: the order in which rows are read.
    pub(super) fn order(&self) -> Vec<String> {
        self.behind(&self.table.found.cursor.name)
    }

    /// Transaction and key: the order in which late rows are read.
    pub(super) fn stamp_order(&self) -> Vec<String> {
        self.behind(STAMP)
    }

    pub(super) fn order_index(&self) -> String {
        format!("CREATE INDEX CONCURRENTLY ON {} ({})", self.table.relation, quoted(&self.order()))
    }

    pub(super) fn stamp_index(&self) -> String {
        format!("CREATE INDEX CONCURRENTLY ON {} ({})", self.table.relation, quoted(&self.stamp_order()))
    }

    /// The indexes, but for those that would be there twice.
    pub(super) fn indexes(&self) -> Vec<String> {
        let name = |what: &str| {
            let name = format!("{}_gapless_{what}", self.table.description.source.table);
            identifier(&name.chars().take(50).collect::<String>())
        };
        let index = |what: &str, columns: &[String]| {
            let (name, relation) = (name(what), &self.table.relation);
            format!("CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON {relation} ({})", quoted(columns))
        };
        let mut indexes = vec![index("order", &self.order())];
        if self.table.is_stamped() {
            indexes.push(index("stamp", &self.stamp_order()));
        }
        indexes
    }

    /// All that is needed but the indexes. It waits for the writers that are at work, so that from then on every row is stamped.
    pub(super) fn installation(&self) -> Vec<String> {
        let mut statements = Vec::new();
        if self.table.is_stamped() {
            statements.extend(self.stamping());
        }
        if self.table.config.deletes == Deletes::Tombstones {
            statements.extend(self.noting());
        }
        statements
    }

    pub(super) fn removal(&self) -> Vec<String> {
        let relation = &self.table.relation;
        let mut statements: Vec<String> = [STAMPS]
            .iter()
            .chain(&NOTES)
            .map(|name| format!("DROP TRIGGER IF EXISTS {name} ON {relation}"))
            .collect();
        statements.push(format!("DROP FUNCTION IF EXISTS {}()", self.function("stamp")));
        statements.push(format!("DROP FUNCTION IF EXISTS {}()", self.function("note")));
        statements.push(format!("DROP FUNCTION IF EXISTS {}()", self.function("note_all")));
        statements.push(format!("DROP TABLE IF EXISTS {}", self.tombstones()));
        statements.push(format!("ALTER TABLE {relation} DROP COLUMN IF EXISTS {STAMP}"));
        statements
    }

    fn stamping(&self) -> Vec<String> {
        let (relation, function) = (&self.table.relation, self.function("stamp"));
        vec![
            format!("ALTER TABLE {relation} ADD COLUMN IF NOT EXISTS {STAMP} xid8"),
            format!(
                "CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql SET search_path = '' AS $gapless$ BEGIN \
                 NEW.{STAMP} := pg_catalog.pg_current_xact_id(); RETURN NEW; END $gapless$"
            ),
            format!("DROP TRIGGER IF EXISTS {STAMPS} ON {relation}"),
            format!(
                "CREATE TRIGGER {STAMPS} BEFORE INSERT OR UPDATE ON {relation} FOR EACH ROW EXECUTE FUNCTION {function}()"
            ),
            // Also where changes of others are applied.
            format!("ALTER TABLE {relation} ENABLE ALWAYS TRIGGER {STAMPS}"),
        ]
    }

    /// Keys of deleted rows go to a table of their own, with the rights of its owner. Of a key that is there again, its note means
    /// nothing, so it is left.
    fn noting(&self) -> Vec<String> {
        let (relation, tombstones) = (&self.table.relation, self.tombstones());
        let key: Vec<String> = self.table.found.key.iter().map(|column| identifier(&column.name)).collect();
        let columns: Vec<String> = self.table.found.key.iter().map(column).collect();
        let key_list = key.join(", ");
        let old: Vec<String> = key.iter().map(|name| format!("OLD.{name}")).collect();
        let new: Vec<String> = key.iter().map(|name| format!("NEW.{name}")).collect();
        let kind = match self.table.found.cursor_kind {
            CursorKind::Timestamptz => "timestamptz",
            CursorKind::Timestamp => "timestamp",
            CursorKind::Date => "date",
        };
        let insert = format!("INSERT INTO {tombstones} ({key_list}, {DELETED_AT}, {STAMP})");
        let moment = "pg_catalog.now(), pg_catalog.pg_current_xact_id()";
        let again = format!(
            "ON CONFLICT ({key_list}) DO UPDATE SET {DELETED_AT} = excluded.{DELETED_AT}, {STAMP} = excluded.{STAMP}"
        );
        let (note, note_all) = (self.function("note"), self.function("note_all"));
        let body =
            "RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $gapless$ BEGIN";
        let order_name =
            identifier(&format!("{}_order", tombstones_name(&self.table.description.source.table)));
        let mut statements = vec![
            format!(
                "CREATE TABLE IF NOT EXISTS {tombstones} ({}, {DELETED_AT} {kind} NOT NULL, {STAMP} xid8 NOT NULL, PRIMARY KEY ({key_list}))",
                columns.join(", ")
            ),
            format!("CREATE INDEX IF NOT EXISTS {order_name} ON {tombstones} ({DELETED_AT}, {key_list})"),
            format!(
                "CREATE INDEX IF NOT EXISTS {} ON {tombstones} ({STAMP}, {key_list})",
                order_name.replace("_order\"", "_stamp\"")
            ),
            format!(
                "CREATE OR REPLACE FUNCTION {note}() {body} {insert} VALUES ({}, {moment}) {again}; RETURN NULL; END $gapless$",
                old.join(", ")
            ),
            format!(
                "CREATE OR REPLACE FUNCTION {note_all}() {body} {insert} SELECT {key_list}, {moment} FROM {relation} {again}; \
                 RETURN NULL; END $gapless$"
            ),
        ];
        let events = [
            format!("AFTER DELETE ON {relation} FOR EACH ROW EXECUTE FUNCTION {note}()"),
            format!(
                "AFTER UPDATE ON {relation} FOR EACH ROW WHEN (({}) IS DISTINCT FROM ({})) EXECUTE FUNCTION {note}()",
                old.join(", "),
                new.join(", ")
            ),
            format!("BEFORE TRUNCATE ON {relation} FOR EACH STATEMENT EXECUTE FUNCTION {note_all}()"),
        ];
        for (name, event) in NOTES.iter().zip(events) {
            statements.push(format!("DROP TRIGGER IF EXISTS {name} ON {relation}"));
            statements.push(format!("CREATE TRIGGER {name} {event}"));
            statements.push(format!("ALTER TABLE {relation} ENABLE ALWAYS TRIGGER {name}"));
        }
        statements
    }

    fn tombstones(&self) -> String {
        let source = &self.table.description.source;
        qualified(&source.schema, &tombstones_name(&source.table))
    }

    fn function(&self, what: &str) -> String {
        let source = &self.table.description.source;
        let name = tombstones_name(&source.table).replace("_gapless_deleted", &format!("_gapless_{what}"));
        qualified(&source.schema, &name)
    }

    fn behind(&self, first: &str) -> Vec<String> {
        let key = self.table.description.key.iter().filter(|name| *name != first);
        [first].into_iter().map(str::to_owned).chain(key.cloned()).collect()
    }
}

fn column(column: &Column) -> String {
    let collation = column.collation.as_ref().map(|name| format!(" COLLATE {name}")).unwrap_or_default();
    format!("{} {}{collation} NOT NULL", identifier(&column.name), column.type_name)
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| identifier(name)).collect::<Vec<_>>().join(", ")
}
