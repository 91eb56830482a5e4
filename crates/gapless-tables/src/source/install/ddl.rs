//! The statements that install and remove.

use crate::quoting::{identifier, literal, qualified};
use crate::source::table::{
    CHANNEL_PREFIX, DELETED_AT, NOTES, STAMP, STAMPS, SourceTable, name_of, purged, tombstones_name,
};
use crate::wire::{Column, Deletes};

/// The trigger that announces changes.
pub(super) const ANNOUNCES: &str = "gapless_announce";

/// `TRUNCATE` also takes rows that a transaction with an older view of the table can't see, and so can't note.
const ONLY_LATEST: &str = "IF pg_catalog.current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN \
     RAISE EXCEPTION 'rows of a table whose deletes are noted can be truncated in READ COMMITTED only' \
     USING ERRCODE = 'feature_not_supported', HINT = 'Truncate it in a transaction of its own, or DELETE the rows.'; END IF;";

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

    /// Makes an index, which locks nobody out but where the table is partitioned.
    pub(super) fn index(&self, columns: &[String]) -> String {
        let how = if self.table.found.is_partitioned { "" } else { " CONCURRENTLY" };
        format!("CREATE INDEX{how} ON {} ({})", self.table.relation, quoted(columns))
    }

    /// The columns of the indexes that reading takes.
    pub(super) fn indexes(&self) -> Vec<Vec<String>> {
        let stamps = self.table.is_stamped().then(|| self.stamp_order());
        [Some(self.order()), stamps].into_iter().flatten().collect()
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
        statements.push(self.silence());
        if self.table.config.notify {
            statements.extend(self.announcing());
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
        statements.push(self.silence());
        statements.push(format!("DROP FUNCTION IF EXISTS {}()", self.function("announce")));
        statements.push(format!("DROP FUNCTION IF EXISTS {}()", self.function("stamp")));
        statements.push(format!("DROP FUNCTION IF EXISTS {}()", self.function("note")));
        statements.push(format!("DROP FUNCTION IF EXISTS {}()", self.function("note_all")));
        statements.push(format!("DROP TABLE IF EXISTS {}, {}", self.tombstones(), self.purged()));
        statements.push(self.unstamping());
        statements
    }

    /// Rows whose stamps say that they will be written only later: they come from another cluster, by way of a dump.
    pub(super) fn foreign_stamps(&self) -> String {
        format!(
            "SELECT EXISTS (SELECT 1 FROM {} t WHERE t.{STAMP} >= pg_snapshot_xmax(pg_current_snapshot()))",
            self.table.relation
        )
    }

    /// Forgets all stamps.
    pub(super) fn unstamping(&self) -> String {
        format!("ALTER TABLE {} DROP COLUMN IF EXISTS {STAMP}", self.table.relation)
    }

    fn stamping(&self) -> Vec<String> {
        let (relation, function) = (&self.table.relation, self.function("stamp"));
        let mut statements = vec![
            format!("ALTER TABLE {relation} ADD COLUMN IF NOT EXISTS {STAMP} xid8"),
            format!(
                "CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql SET search_path = '' AS {}",
                literal(&format!("BEGIN NEW.{STAMP} := pg_catalog.pg_current_xact_id(); RETURN NEW; END"))
            ),
        ];
        if !self.table.found.installed.has_trigger(STAMPS) {
            let event =
                format!("BEFORE INSERT OR UPDATE ON {relation} FOR EACH ROW EXECUTE FUNCTION {function}()");
            statements.extend(self.trigger(STAMPS, &event));
        }
        statements
    }

    /// Makes a trigger anew. It is always on, also where changes of others are applied.
    fn trigger(&self, name: &str, event: &str) -> [String; 3] {
        let relation = &self.table.relation;
        [
            format!("DROP TRIGGER IF EXISTS {name} ON {relation}"),
            format!("CREATE TRIGGER {name} {event}"),
            format!("ALTER TABLE {relation} ENABLE ALWAYS TRIGGER {name}"),
        ]
    }

    fn silence(&self) -> String {
        format!("DROP TRIGGER IF EXISTS {ANNOUNCES} ON {}", self.table.relation)
    }

    /// A commit announces once that it has changed the table.
    fn announcing(&self) -> Vec<String> {
        let (relation, function) = (&self.table.relation, self.function("announce"));
        let body = format!(
            "BEGIN PERFORM pg_catalog.pg_notify('{CHANNEL_PREFIX}' || TG_RELID, ''); RETURN NULL; END"
        );
        vec![
            format!(
                "CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql SET search_path = '' AS {}",
                literal(&body)
            ),
            format!(
                "CREATE TRIGGER {ANNOUNCES} AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON {relation} FOR EACH STATEMENT EXECUTE FUNCTION {function}()"
            ),
            format!("ALTER TABLE {relation} ENABLE ALWAYS TRIGGER {ANNOUNCES}"),
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
        let kind = self.table.found.cursor_kind.name();
        let insert = format!("INSERT INTO {tombstones} ({key_list}, {DELETED_AT}, {STAMP})");
        let moment = "pg_catalog.now(), pg_catalog.pg_current_xact_id()";
        let again = format!(
            "ON CONFLICT ({key_list}) DO UPDATE SET {DELETED_AT} = excluded.{DELETED_AT}, {STAMP} = excluded.{STAMP}"
        );
        let (note, note_all) = (self.function("note"), self.function("note_all"));
        let function = |name: &str, body: String| {
            format!(
                "CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS {}",
                literal(&format!("BEGIN {body}; RETURN NULL; END"))
            )
        };
        let name = |what: &str| identifier(&name_of(&self.table.description.source.table, what));
        let mut statements = Vec::new();
        if self.table.found.installed.tombstones.is_some() && !self.table.found.installed.is_of_this_key {
            // It was made for another key, whose cursors aren't taken any more.
            statements.push(format!("DROP TABLE {tombstones}"));
            statements.push(format!("DROP TABLE IF EXISTS {}", self.purged()));
        }
        statements.extend([
            format!(
                "CREATE TABLE IF NOT EXISTS {tombstones} ({}, {DELETED_AT} {kind} NOT NULL, {STAMP} xid8 NOT NULL, PRIMARY KEY ({key_list}))",
                columns.join(", ")
            ),
            format!(
                "CREATE INDEX IF NOT EXISTS {} ON {tombstones} ({DELETED_AT}, {key_list})",
                name("deleted_order")
            ),
            format!("CREATE INDEX IF NOT EXISTS {} ON {tombstones} ({STAMP}, {key_list})", name("deleted_stamp")),
            function(&note, format!("{insert} VALUES ({}, {moment}) {again}", old.join(", "))),
            function(
                &note_all,
                format!("{ONLY_LATEST} {insert} SELECT {key_list}, {moment} FROM {relation} {again}"),
            ),
            format!("REVOKE EXECUTE ON FUNCTION {note}(), {note_all}() FROM PUBLIC"),
        ]);
        statements.extend(self.telling_what_was_purged(kind));
        let events = [
            format!("AFTER DELETE ON {relation} FOR EACH ROW EXECUTE FUNCTION {note}()"),
            format!(
                "AFTER UPDATE ON {relation} FOR EACH ROW WHEN (({}) IS DISTINCT FROM ({})) EXECUTE FUNCTION {note}()",
                old.join(", "),
                new.join(", ")
            ),
            format!("BEFORE TRUNCATE ON {relation} FOR EACH STATEMENT EXECUTE FUNCTION {note_all}()"),
        ];
        let installed = &self.table.found.installed;
        for (name, event) in NOTES.iter().zip(events) {
            // One that stands keeps its oid, and so the cursors that it was always on for.
            if !installed.is_of_this_key || !installed.has_trigger(name) {
                statements.extend(self.trigger(name, &event));
            }
        }
        statements
    }

    /// What says up to where the notes of deleted rows were purged: nothing at first, and then one row. It holds nothing of any row, so
    /// that whoever may read the notes needs no other right.
    fn telling_what_was_purged(&self, kind: &str) -> [String; 2] {
        let purged = self.purged();
        [
            format!(
                "CREATE TABLE IF NOT EXISTS {purged} (is_one boolean PRIMARY KEY DEFAULT true CHECK (is_one), up_to {kind} NOT NULL, \
                 last xid8 NOT NULL, ended pg_snapshot NOT NULL, system bigint NOT NULL)"
            ),
            format!("GRANT SELECT ON {purged} TO PUBLIC"),
        ]
    }

    fn purged(&self) -> String {
        purged(&self.table.description.source)
    }

    fn tombstones(&self) -> String {
        let source = &self.table.description.source;
        qualified(&source.schema, &tombstones_name(&source.table))
    }

    fn function(&self, what: &str) -> String {
        let source = &self.table.description.source;
        qualified(&source.schema, &name_of(&source.table, what))
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
