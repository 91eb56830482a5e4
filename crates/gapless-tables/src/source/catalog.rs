//! What the database says about a table.

use std::collections::BTreeSet;

use tokio_postgres::{Client, Row};

use super::cursor_kind::CursorKind;
use super::declaration::TableConfig;
use super::table::{STAMP, TRIGGERS, tombstones};
use crate::quoting::qualified;
use crate::wire::{Column, CustomType, SourceName};

/// A table as it is in its database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) oid: u32,
    pub(crate) cursor: Column,
    pub(crate) cursor_kind: CursorKind,
    pub(crate) key: Vec<Column>,
    /// All columns that are read, key and cursor among them, in the table's order.
    pub(crate) columns: Vec<Column>,
    /// Their places among the columns that the table ever had: one that is dropped and added again has another.
    pub(crate) places: Vec<i16>,
    /// The columns of the key whose equal values may be written differently, as `1.0` and `1.00`.
    pub(crate) loose_key: Vec<String>,
    /// What the columns are as [`SHAPE`] tells it.
    pub(crate) shape: String,
    pub(crate) types: Vec<CustomType>,
    /// About how many rows it has, if anybody has counted some.
    pub(crate) rows_estimate: Option<u64>,
    /// The database that the table is in: another cluster, or another life of it, means other transactions.
    pub(crate) cluster: Cluster,
    /// Whether the server only follows another.
    pub(crate) is_standby: bool,
    pub(crate) is_partitioned: bool,
    /// Whether policies hide rows from the role.
    pub(crate) hides_rows: bool,
    /// What `install` has made so far.
    pub(crate) installed: Installed,
    /// Schemas beside PostgreSQL's own that the key's types are compared by.
    pub(crate) operator_schemas: Vec<String>,
}

/// What is there for a reader. It is another after each installation that had to make it anew.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Installed {
    /// The place of the column of stamps among the table's columns.
    pub(crate) stamp: Option<i16>,
    /// The table of deleted keys.
    pub(crate) tombstones: Option<u32>,
    /// Whether that table has the key that is declared now.
    pub(crate) is_of_this_key: bool,
    /// The triggers that are always on, each with its oid, which is another once it was made anew.
    triggers: Vec<String>,
}

impl Installed {
    /// Whether a trigger is there and always on.
    pub(crate) fn has_trigger(&self, name: &str) -> bool {
        self.triggers.iter().any(|trigger| trigger.split(' ').next() == Some(name))
    }
}

/// A life of a database cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Cluster {
    /// Made at `initdb`, kept by physical copies.
    pub(crate) system: i64,
    /// Rises when a standby is promoted or a backup is restored to a point in time.
    pub(crate) timeline: u32,
}

/// A table can't be read as it is declared.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The declaration or the database has to be changed.
    #[error("table `{table}`: {problem}")]
    Wrong {
        /// The name the table goes by.
        table: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// The database can't be asked.
    #[error("the database can't be asked: {0}")]
    Database(#[from] tokio_postgres::Error),
}

const TABLE: &str = "
    SELECT c.oid, c.relkind::text, EXISTS (SELECT 1 FROM pg_inherits i WHERE i.inhparent = c.oid),
        c.relpersistence <> 'p', row_security_active(c.oid), (
            SELECT sum(x.reltuples / nullif(x.relpages, 0) * pg_relation_size(x.oid) / current_setting('block_size')::int)::bigint
            FROM pg_class x WHERE x.oid IN (SELECT c.oid UNION SELECT relid FROM pg_partition_tree(c.oid) WHERE isleaf)
                AND x.reltuples >= 0
        )
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relname = $2";

const COLUMNS: &str = "
    SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull, t.typname::text, t.typtype::text,
        t.oid < 16384 AND coalesce(e.oid < 16384, true) AND t.typcategory <> 'P' AND t.typsend <> 0
            AND t.typname !~ '^_?(reg|int2vector$|oidvector$|tsquery$)' AS is_builtin,
        CASE WHEN a.attcollation <> t.typcollation AND a.attcollation <> 0
            THEN format('%I.%I', cn.nspname, co.collname) END,
        CASE WHEN t.typtype = 'd' THEN b.typname::text ELSE t.typname::text END,
        coalesce(k.position, 0), a.attnum,
        t.typtype = 'e' OR CASE WHEN t.typtype = 'd' THEN b.typname ELSE t.typname END IN (
            'bool', 'int2', 'int4', 'int8', 'oid', 'uuid', 'bytea', 'date', 'time', 'timestamp', 'timestamptz', 'inet', 'cidr', 'macaddr'
        ) OR (t.typname IN ('text', 'varchar', 'bpchar', 'name') AND co.collisdeterministic AND (t.typname <> 'bpchar' OR a.atttypmod <> -1))
            OR (t.typname = 'numeric' AND a.atttypmod <> -1)
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_type e ON e.oid = t.typelem AND t.typelem <> 0
    LEFT JOIN pg_type b ON b.oid = t.typbasetype
    LEFT JOIN pg_collation co ON co.oid = a.attcollation LEFT JOIN pg_namespace cn ON cn.oid = co.collnamespace
    LEFT JOIN (
        SELECT x.attnum, x.position::int FROM pg_index i
        CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS x (attnum, position)
        WHERE i.indrelid = $1 AND i.indisprimary AND x.position <= i.indnkeyatts
    ) k ON k.attnum = a.attnum
    WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum";

/// The enums and domains that the columns of a table have, also as elements of arrays and below domains; those below come first.
const TYPES: &str = "
    WITH RECURSIVE used (oid, depth) AS (
        SELECT atttypid, 0 FROM pg_attribute WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped AND attname = ANY ($2)
        UNION
        SELECT x.oid, u.depth + 1 FROM used u JOIN pg_type t ON t.oid = u.oid
        CROSS JOIN LATERAL (VALUES (t.typelem), (t.typbasetype)) AS x (oid) WHERE x.oid <> 0
    )
    SELECT t.typtype::text, format('%I.%I', n.nspname, t.typname), format_type(t.typbasetype, t.typtypmod), t.typnotnull,
        ARRAY(SELECT enumlabel::text FROM pg_enum WHERE enumtypid = t.oid ORDER BY enumsortorder),
        ARRAY(SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE contypid = t.oid AND contype = 'c' ORDER BY conname)
    FROM (SELECT oid, max(depth) AS depth FROM used GROUP BY oid) u
    JOIN pg_type t ON t.oid = u.oid JOIN pg_namespace n ON n.oid = t.typnamespace
    WHERE t.typtype IN ('e', 'd') ORDER BY u.depth DESC, 2";

const CLUSTER: &str = "
    SELECT s.system_identifier, r.is_standby,
        CASE WHEN r.is_standby THEN (pg_control_checkpoint()).timeline_id::text
            ELSE ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int::text END
    FROM pg_control_system() s CROSS JOIN (SELECT pg_is_in_recovery() AS is_standby) r";

const INSTALLED: &str = "
    SELECT (SELECT attnum FROM pg_attribute WHERE attrelid = $1 AND attname = $2 AND NOT attisdropped), to_regclass($3)::oid,
        ARRAY(
            SELECT a.attname::text || ' ' || format_type(a.atttypid, a.atttypmod) || ' ' || a.attcollation
            FROM pg_attribute a JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary
            WHERE a.attrelid = to_regclass($3) AND a.attnum = ANY (i.indkey) ORDER BY array_position(i.indkey::int2[], a.attnum)
        ),
        ARRAY(
            SELECT a.attname::text || ' ' || format_type(a.atttypid, a.atttypmod) || ' ' || a.attcollation
            FROM unnest($4::text[]) WITH ORDINALITY AS k (name, position)
            JOIN pg_attribute a ON a.attrelid = $1 AND a.attname = k.name ORDER BY k.position
        ),
        ARRAY(
            SELECT tgname::text || ' ' || oid FROM pg_trigger
            WHERE tgrelid = $1 AND tgname = ANY ($5) AND NOT tgisinternal AND tgenabled = 'A' ORDER BY tgname
        )";

/// What a table's columns are, given its oid: it is another text after each change of them, though all be as before again.
pub(crate) const SHAPE: &str = "
    SELECT string_agg(concat_ws(' ', a.attnum, a.atttypid, a.atttypmod, a.xmin), ',' ORDER BY a.attnum)
    FROM pg_attribute a WHERE a.attnum > 0 AND NOT a.attisdropped AND a.attrelid";

/// Where the operators of the default order of columns' types are, where that isn't PostgreSQL itself.
const OPERATOR_SCHEMAS: &str = "
    SELECT DISTINCT n.nspname::text FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
    JOIN pg_opclass c ON c.opcintype = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END AND c.opcdefault
    JOIN pg_am m ON m.oid = c.opcmethod AND m.amname = 'btree'
    JOIN pg_amop o ON o.amopfamily = c.opcfamily AND o.amoplefttype = c.opcintype AND o.amoprighttype = c.opcintype
    JOIN pg_operator p ON p.oid = o.amopopr JOIN pg_namespace n ON n.oid = p.oprnamespace
    WHERE a.attrelid = $1 AND a.attname = ANY ($2) AND n.nspname <> 'pg_catalog' ORDER BY 1";

struct Attribute {
    column: Column,
    /// The type below a domain, or the type itself.
    base: String,
    /// The place in the primary key, beginning with 1; 0 outside.
    key_position: i32,
    /// The place among the columns that the table ever had.
    place: i16,
    /// Whether values that are equal are always written alike.
    is_exact: bool,
}

/// Looks a declared table up.
pub(crate) async fn find(client: &Client, config: &TableConfig) -> Result<Found, SetupError> {
    let wrong = |problem: String| SetupError::Wrong { table: config.name.clone(), problem };
    if let Some(problem) = config.problem() {
        return Err(wrong(problem));
    }
    let (schema, table) = config.source();
    let row = client.query_opt(TABLE, &[&schema, &table]).await?;
    let row = row.ok_or_else(|| {
        wrong(format!("there is no table {}; correct `table`, or the database", qualified(schema, table)))
    })?;
    let (oid, kind, has_children): (u32, String, bool) = (row.get(0), row.get(1), row.get(2));
    let row_security: bool = row.get(4);
    let rows_estimate = row.get::<_, Option<i64>>(5).and_then(|rows| u64::try_from(rows).ok());
    if !matches!(kind.as_str(), "r" | "p") {
        return Err(wrong(format!(
            "{} is no table; views and the like have no row versions",
            qualified(schema, table)
        )));
    }
    if row.get(3) {
        return Err(wrong(format!(
            "{0} isn't kept through a crash, and nobody would note its rows as deleted then; `ALTER TABLE {0} SET LOGGED`",
            qualified(schema, table)
        )));
    }
    let is_partitioned = kind == "p";
    if has_children && !is_partitioned {
        return Err(wrong(format!(
            "other tables inherit from {}, and what happens in those isn't seen; name them one by one, or make it a partitioned table",
            qualified(schema, table)
        )));
    }
    // Before the columns: what is changed between is seen to be another when rows are read.
    let shape: Option<String> = client.query_one(&format!("{SHAPE} = $1"), &[&oid]).await?.get(0);
    let rows = client.query(COLUMNS, &[&oid]).await?;
    let all: Vec<Attribute> = rows.iter().map(attribute).filter(|found| found.column.name != STAMP).collect();
    let named = |name: &str| {
        let found = all.iter().find(|attribute| attribute.column.name == name);
        found.ok_or_else(|| {
            let names: Vec<&str> = all.iter().map(|attribute| attribute.column.name.as_str()).collect();
            wrong(format!("it has no column `{name}`; it has: {}", names.join(", ")))
        })
    };
    let cursor = named(&config.cursor)?;
    let cursor_kind = CursorKind::from_type(&cursor.base).ok_or_else(|| {
        wrong(format!(
            "the cursor column `{}` is a {}; it must be a timestamptz, timestamp or date",
            config.cursor, cursor.column.type_name
        ))
    })?;
    if !cursor.column.not_null {
        return Err(wrong(format!(
            "the cursor column `{0}` may be NULL, and such rows would never be delivered; fill it, then `ALTER TABLE {1} ALTER COLUMN \"{0}\" SET NOT NULL`",
            config.cursor,
            qualified(schema, table)
        )));
    }
    let key = key(config, &all, named, wrong)?;
    let columns = columns(config, &all, &key, named)?;
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let types = client.query(TYPES, &[&oid, &names]).await?;
    let key_names: Vec<&str> = key.iter().map(|column| column.name.as_str()).collect();
    let schemas = client.query(OPERATOR_SCHEMAS, &[&oid, &key_names]).await?;
    let deleted = tombstones(&SourceName { schema: schema.to_owned(), table: table.to_owned() });
    let row =
        client.query_one(INSTALLED, &[&oid, &STAMP, &deleted, &key_names, &TRIGGERS.as_slice()]).await?;
    let is_of_this_key = row.get::<_, Vec<String>>(2) == row.get::<_, Vec<String>>(3);
    let installed =
        Installed { stamp: row.get(0), tombstones: row.get(1), is_of_this_key, triggers: row.get(4) };
    let (cluster, is_standby) = cluster(client).await?;
    let loose = all.iter().filter(|found| !found.is_exact && key_names.contains(&found.column.name.as_str()));
    let loose_key = loose.map(|found| found.column.name.clone()).collect();
    Ok(Found {
        oid,
        cursor: cursor.column.clone(),
        cursor_kind,
        key,
        places: all
            .iter()
            .filter(|found| names.contains(&found.column.name.as_str()))
            .map(|found| found.place)
            .collect(),
        columns,
        loose_key,
        shape: shape.unwrap_or_default(),
        types: types.iter().map(custom_type).collect(),
        rows_estimate,
        cluster,
        is_standby,
        is_partitioned,
        hides_rows: row_security,
        installed,
        operator_schemas: schemas.iter().map(|row| row.get(0)).collect(),
    })
}

/// Which database a connection is to, and whether it only follows another.
pub(crate) async fn cluster(client: &Client) -> Result<(Cluster, bool), tokio_postgres::Error> {
    let row = client.query_one(CLUSTER, &[]).await?;
    let timeline: &str = row.get(2);
    Ok((Cluster { system: row.get(0), timeline: timeline.parse().unwrap_or_default() }, row.get(1)))
}

fn key<'a>(
    config: &TableConfig,
    all: &'a [Attribute],
    named: impl Fn(&str) -> Result<&'a Attribute, SetupError>,
    wrong: impl Fn(String) -> SetupError,
) -> Result<Vec<Column>, SetupError> {
    let mut key: Vec<&Attribute> = match config.key.as_slice() {
        [] => all.iter().filter(|attribute| attribute.key_position > 0).collect(),
        names => names.iter().map(|name| named(name)).collect::<Result<_, _>>()?,
    };
    if config.key.is_empty() {
        key.sort_unstable_by_key(|attribute| attribute.key_position);
    }
    if key.is_empty() {
        return Err(wrong("it has no primary key; name the columns of a unique key as `key`".to_owned()));
    }
    if let Some(nullable) = key.iter().find(|attribute| !attribute.column.not_null) {
        return Err(wrong(format!("the key column `{}` may be NULL; set it NOT NULL", nullable.column.name)));
    }
    Ok(key.into_iter().map(|attribute| attribute.column.clone()).collect())
}

fn columns<'a>(
    config: &TableConfig,
    all: &'a [Attribute],
    key: &[Column],
    named: impl Fn(&str) -> Result<&'a Attribute, SetupError>,
) -> Result<Vec<Column>, SetupError> {
    let mut wanted: BTreeSet<&str> = key.iter().map(|column| column.name.as_str()).collect();
    wanted.insert(&config.cursor);
    for name in &config.columns {
        wanted.insert(&named(name)?.column.name);
    }
    let is_read =
        |attribute: &&Attribute| config.columns.is_empty() || wanted.contains(attribute.column.name.as_str());
    Ok(all.iter().filter(is_read).map(|attribute| attribute.column.clone()).collect())
}

fn attribute(row: &Row) -> Attribute {
    let column = Column {
        name: row.get(0),
        type_name: row.get(1),
        not_null: row.get(2),
        binary: row.get::<_, bool>(5) && row.get::<_, &str>(4) != "d",
        collation: row.get(6),
    };
    Attribute { column, base: row.get(7), key_position: row.get(8), place: row.get(9), is_exact: row.get(10) }
}

fn custom_type(row: &Row) -> CustomType {
    let name: String = row.get(1);
    match row.get(0) {
        "e" => CustomType::Enum { name, labels: row.get(4) },
        _ => CustomType::Domain { name, base: row.get(2), not_null: row.get(3), checks: row.get(5) },
    }
}
