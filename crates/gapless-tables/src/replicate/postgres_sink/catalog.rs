//! What is in the target already.

use std::collections::{BTreeMap, BTreeSet};

use tokio_postgres::{Error, Transaction};

use crate::quoting::qualified;
use crate::replicate::plan::{Existing, ExistingColumn};
use crate::wire::{CustomType, SourceName};

const COLUMNS: &str = "
    SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull,
        a.atthasdef OR a.attidentity <> '', a.attgenerated <> ''
    FROM pg_attribute a WHERE a.attrelid = $1::text::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum";

/// The columns of each unique index that leaves no rows out.
const UNIQUE: &str = "
    SELECT ARRAY(
        SELECT a.attname::text FROM unnest(i.indkey) WITH ORDINALITY AS x (attnum, position)
        JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = x.attnum WHERE x.position <= i.indnkeyatts
    )
    FROM pg_index i WHERE i.indrelid = $1::text::regclass AND i.indisunique AND i.indisvalid AND i.indimmediate
        AND i.indpred IS NULL AND i.indexprs IS NULL";

const TYPES: &str = "
    SELECT t.typtype::text, format('%I.%I', n.nspname, t.typname), format_type(t.typbasetype, t.typtypmod), t.typnotnull,
        ARRAY(SELECT enumlabel::text FROM pg_enum WHERE enumtypid = t.oid ORDER BY enumsortorder),
        ARRAY(SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE contypid = t.oid AND contype = 'c' ORDER BY conname)
    FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
    WHERE t.typtype IN ('e', 'd') AND format('%I.%I', n.nspname, t.typname) = ANY ($1)";

/// The table, if there is one, as a relation of any kind.
pub(super) async fn table(
    transaction: &Transaction<'_>,
    name: &SourceName,
) -> Result<Option<Existing>, Error> {
    let relation = qualified(&name.schema, &name.table);
    let found = transaction.query_one("SELECT to_regclass($1) IS NOT NULL", &[&relation]).await?;
    if !found.get::<_, bool>(0) {
        return Ok(None);
    }
    let columns = transaction.query(COLUMNS, &[&relation]).await?;
    let columns = columns.iter().map(|row| ExistingColumn {
        name: row.get(0),
        type_name: row.get(1),
        not_null: row.get(2),
        has_default: row.get(3),
        is_computed: row.get(4),
    });
    let columns = columns.collect();
    let unique = transaction.query(UNIQUE, &[&relation]).await?;
    let unique = unique.iter().map(|row| row.get::<_, Vec<String>>(0).into_iter().collect::<BTreeSet<_>>());
    Ok(Some(Existing { columns, unique: unique.collect() }))
}

/// Those of some types that are there, by their names.
pub(super) async fn types(
    transaction: &Transaction<'_>,
    wanted: &[CustomType],
) -> Result<BTreeMap<String, CustomType>, Error> {
    let names: Vec<&str> = wanted.iter().map(CustomType::name).collect();
    let rows = transaction.query(TYPES, &[&names]).await?;
    let types = rows.iter().map(|row| {
        let name: String = row.get(1);
        let found = match row.get(0) {
            "e" => CustomType::Enum { name: name.clone(), labels: row.get(4) },
            _ => CustomType::Domain {
                name: name.clone(),
                base: row.get(2),
                not_null: row.get(3),
                checks: row.get(5),
            },
        };
        (name, found)
    });
    Ok(types.collect())
}

/// Whether a table has any row.
pub(super) async fn has_rows(transaction: &Transaction<'_>, name: &SourceName) -> Result<bool, Error> {
    let sql = format!("SELECT EXISTS (SELECT 1 FROM {})", qualified(&name.schema, &name.table));
    Ok(transaction.query_one(&sql, &[]).await?.get(0))
}

/// Whether there is a schema.
pub(super) async fn has_schema(transaction: &Transaction<'_>, schema: &str) -> Result<bool, Error> {
    const SCHEMA: &str = "SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)";
    Ok(transaction.query_one(SCHEMA, &[&schema]).await?.get(0))
}
