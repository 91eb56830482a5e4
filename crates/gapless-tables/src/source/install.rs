//! What a table needs so that it can be read, and how it gets that.

use gapless_postgres::Connector;
use tokio_postgres::{Client, Row};

use self::ddl::Ddl;
use super::catalog::{self, SetupError};
use super::declaration::TableConfig;
use super::table::{NOTES, STAMP, STAMPS, SourceTable};
use super::{CursorKeys, OpenError, Source, SourceError};
use crate::wire::{Consistency, Deletes};

mod ddl;

/// Something that a table lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// What isn't there.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

/// Finds what a table lacks; nothing when it can be read as it is declared.
pub async fn lacks(url: &str, config: TableConfig) -> Result<Vec<Lack>, OpenError> {
    let (client, _driver) = Connector::new(url)?.connect().await.map_err(SourceError::from)?;
    let table = find(&client, config.clone()).await?;
    let lacks = found_lacks(&client, &table).await.map_err(SourceError::from)?;
    if lacks.is_empty() {
        // What only reading shows, such as a filter that makes no sense.
        Source::open(url, 1, config, CursorKeys::new([])).await?;
    }
    Ok(lacks)
}

/// Gives a table what it needs: column, triggers and the table of deleted keys in one transaction, and then, if they are wanted, the
/// indexes, without locking anybody out. Returns what was done; it may be repeated.
pub async fn install(url: &str, config: TableConfig, with_indexes: bool) -> Result<Vec<String>, OpenError> {
    let (client, _driver) = Connector::new(url)?.writing().connect().await.map_err(SourceError::from)?;
    let table = find(&client, config).await?;
    let ddl = Ddl::new(&table);
    let mut done = Vec::new();
    if table.is_stamped() && table.found.installed.stamp.is_some() {
        let are_foreign = client.query_one(&ddl.foreign_stamps(), &[]).await.map_err(SourceError::from)?;
        done.extend(are_foreign.get::<_, bool>(0).then(|| ddl.unstamping()));
    }
    done.extend(ddl.installation());
    let transaction = format!("BEGIN; SET LOCAL lock_timeout = '10s'; {}; COMMIT", done.join("; "));
    let installed = client.batch_execute(&transaction).await;
    if let Err(error) = installed {
        // The connection ends here, and with it the transaction.
        return Err(SourceError::from(error).into());
    }
    if with_indexes {
        let indexes = client.query(INDEXES, &[&table.found.oid]).await.map_err(SourceError::from)?;
        for columns in ddl.indexes() {
            if !indexes.iter().any(|row| begins_with(row, &columns)) {
                let index = ddl.index(&columns);
                client.batch_execute(&index).await.map_err(SourceError::from)?;
                done.push(index);
            }
        }
    }
    Ok(done)
}

/// Takes away all that [`install`] has made, but for the index of cursor and key, which may serve others. Returns what was done.
pub async fn uninstall(url: &str, config: TableConfig) -> Result<Vec<String>, OpenError> {
    let (client, _driver) = Connector::new(url)?.writing().connect().await.map_err(SourceError::from)?;
    let table = find(&client, config).await?;
    let done = Ddl::new(&table).removal();
    let transaction = format!("BEGIN; SET LOCAL lock_timeout = '10s'; {}; COMMIT", done.join("; "));
    client.batch_execute(&transaction).await.map_err(SourceError::from)?;
    Ok(done)
}

/// Makes sure that a table lacks nothing.
pub(super) async fn check(client: &Client, table: &SourceTable) -> Result<(), SetupError> {
    let lacks = found_lacks(client, table).await?;
    if lacks.is_empty() {
        return Ok(());
    }
    let problems: Vec<String> = lacks.iter().map(|lack| format!("{}: {}", lack.what, lack.remedy)).collect();
    Err(SetupError::Wrong { table: table.config.name.clone(), problem: problems.join("; ") })
}

pub(super) async fn find(client: &Client, config: TableConfig) -> Result<SourceTable, OpenError> {
    let found = catalog::find(client, &config).await.map_err(SourceError::from)?;
    Ok(SourceTable::new(config, found))
}

/// Valid indexes of a table: their columns in order, ascending, and whether they are unique; none that leave rows out.
const INDEXES: &str = "
    SELECT ARRAY(
        SELECT a.attname::text FROM unnest(i.indkey) WITH ORDINALITY AS x (attnum, position)
        JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = x.attnum
        WHERE x.position <= i.indnkeyatts ORDER BY x.position
    ), i.indisunique
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am am ON am.oid = c.relam
    WHERE i.indrelid = $1 AND i.indisvalid AND i.indisready AND i.indpred IS NULL AND i.indexprs IS NULL
        AND am.amname = 'btree' AND NOT EXISTS (SELECT 1 FROM unnest(i.indoption) AS o (bits) WHERE o.bits <> 0)";

const TRIGGERS: &str = "
    SELECT tgname::text FROM pg_trigger WHERE tgrelid = $1 AND NOT tgisinternal AND tgenabled = 'A'";

const HAS_COLUMN: &str = "
    SELECT EXISTS (
        SELECT 1 FROM pg_attribute a WHERE a.attrelid = $1 AND a.attname = $2 AND a.atttypid = 'xid8'::regtype AND NOT a.attisdropped
    )";

const HAS_TABLE: &str = "SELECT to_regclass($1) IS NOT NULL";

const SEES_OTHERS: &str = "
    SELECT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')
        OR (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)";

fn begins_with(row: &Row, columns: &[String]) -> bool {
    row.get::<_, Vec<String>>(0).starts_with(columns)
}

/// Whether there is a place to note what is purged of the notes of deleted rows; one that was installed long ago has none.
pub(super) async fn notes_what_is_purged(
    client: &Client,
    table: &SourceTable,
) -> Result<bool, tokio_postgres::Error> {
    let row = client.query_one(HAS_TABLE, &[&table.purged]).await?;
    row.try_get(0)
}

async fn found_lacks(client: &Client, table: &SourceTable) -> Result<Vec<Lack>, SetupError> {
    let ddl = Ddl::new(table);
    let by_install = || format!("run `gapless table install` for `{}`", table.config.name);
    let mut lacks = Vec::new();
    let mut lack = |what: &str, remedy: String| lacks.push(Lack { what: what.to_owned(), remedy });
    let indexes = client.query(INDEXES, &[&table.found.oid]).await?;
    for columns in ddl.indexes() {
        if !indexes.iter().any(|row| begins_with(row, &columns)) {
            let what = format!("there is no index on ({})", columns.join(", "));
            lack(&what, format!("run `{}`, or `gapless table install --index`", ddl.index(&columns)));
        }
    }
    let key: Vec<String> = table.description.key.clone();
    let is_key = |row: &Row| {
        let columns: Vec<String> = row.get(0);
        row.get(1) && columns.len() == key.len() && columns.iter().all(|column| key.contains(column))
    };
    if !indexes.iter().any(is_key) {
        lack(
            &format!("({}) isn't unique", key.join(", ")),
            "name the columns of a unique index as `key`".to_owned(),
        );
    }
    let triggers = client.query(TRIGGERS, &[&table.found.oid]).await?;
    let has_trigger = |name: &str| triggers.iter().any(|row| row.get::<_, &str>(0) == name);
    if table.found.hides_rows {
        let remedy = "rows that it comes to hide would stay in every copy; `ALTER ROLE … BYPASSRLS`, and declare a `filter`";
        lack("row-level security hides rows from the role", remedy.to_owned());
    }
    if table.found.is_standby && table.config.consistency != Consistency::BestEffort {
        let remedy =
            "what is open on the primary isn't known here; give the primary's URL, or read `best_effort`";
        lack("this is a standby", remedy.to_owned());
    }
    if table.config.consistency == Consistency::Strict {
        let has_column: bool = client.query_one(HAS_COLUMN, &[&table.found.oid, &STAMP]).await?.get(0);
        if !has_column || !has_trigger(STAMPS) {
            lack("rows aren't stamped with their transaction", by_install());
        }
        if has_column {
            let are_foreign: bool = client.query_one(&ddl.foreign_stamps(), &[]).await?.get(0);
            if are_foreign {
                lack("rows are stamped with transactions of another cluster, by way of a dump", by_install());
            }
        }
    }
    if table.config.notify && !has_trigger(ddl::ANNOUNCES) {
        lack("changes aren't announced", format!("{}, or remove `notify`", by_install()));
    }
    if table.config.consistency == Consistency::Watched {
        let sees_others: bool = client.query_one(SEES_OTHERS, &[]).await?.get(0);
        if !sees_others {
            let remedy =
                "without it late rows would be missed: `GRANT pg_read_all_stats TO` this role".to_owned();
            lack("the role may not see the transactions of others", remedy);
        }
    }
    if let (Deletes::Tombstones, Some(tombstones)) = (table.config.deletes, &table.tombstones) {
        let has_table: bool = client.query_one(HAS_TABLE, &[tombstones]).await?.get(0);
        let is_of_this_key = table.found.installed.is_of_this_key;
        if !has_table || !is_of_this_key || !NOTES.iter().all(|name| has_trigger(name)) {
            let remedy = format!("{}, or declare `deletes = \"soft\"` or `\"none\"`", by_install());
            lack("deletes aren't noted", remedy);
        } else if !notes_what_is_purged(client, table).await? {
            lack("nothing says what was purged of the notes of deleted rows", by_install());
        }
    }
    Ok(lacks)
}
