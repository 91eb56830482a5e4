//! What a source tells over HTTP: about a table, and about a page of its rows.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The media type of pages whose fields are as in PostgreSQL's binary `COPY`.
pub const BINARY_ROWS: &str = "application/vnd.gapless.rows";
/// The same with the texts of all values.
pub const TEXT_ROWS: &str = "application/vnd.gapless.rows; values=text";
/// The media type of pages with a record a line.
pub const NDJSON: &str = "application/x-ndjson";

/// What is promised about late commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Consistency {
    /// Rows are stamped with their transaction: none is missed, and no version comes twice.
    Strict,
    /// No change to the schema: none is missed, and some come again.
    Watched,
    /// Rows are read a fixed time late; those that commit later than that are missed.
    BestEffort,
}

impl fmt::Display for Consistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Strict => "strict",
            Self::Watched => "watched",
            Self::BestEffort => "best_effort",
        })
    }
}

/// How deletes are noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deletes {
    /// A trigger notes the keys of deleted rows.
    Tombstones,
    /// A column says that a row counts as deleted.
    Soft,
    /// They aren't.
    None,
}

/// A table as a source describes it: all that is needed to make a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableDescription {
    /// The name it goes by.
    pub table: String,
    /// What it is called in its database.
    pub source: SourceName,
    /// What is promised about late commits.
    pub consistency: Consistency,
    /// How deletes are noticed.
    pub deletes: Deletes,
    /// Changes whenever the columns do.
    pub schema_version: String,
    /// The column that says when a row was changed last.
    pub cursor_column: String,
    /// The columns of the key, in its order.
    pub key: Vec<String>,
    /// Those of them whose equal values may be written differently, as `1.0` and `1.00`, so that only PostgreSQL tells which rows are one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loose_key: Vec<String>,
    /// All columns that are read, in the order of the fields of a row.
    pub columns: Vec<Column>,
    /// The types that columns use and that PostgreSQL doesn't have by itself, in an order in which they can be made.
    pub types: Vec<CustomType>,
    /// About how many rows there are, whatever the filter leaves of them; unknown until the table has been analyzed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows_estimate: Option<u64>,
}

impl TableDescription {
    /// The columns of the key, in its order.
    pub(crate) fn key_columns(&self) -> impl Iterator<Item = &Column> {
        self.key.iter().filter_map(|name| self.columns.iter().find(|column| column.name == *name))
    }
}

/// The name of a table in its database, as it is, without quotes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceName {
    /// The schema.
    pub schema: String,
    /// The table.
    pub table: String,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its name, without quotes.
    pub name: String,
    /// Its type in PostgreSQL's own spelling, as in `numeric(18,4)`.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Whether its binary form means the same in every database; otherwise binary pages have its text.
    pub binary: bool,
    /// Whether it can't be NULL.
    pub not_null: bool,
    /// Its collation, quoted where needed, if that isn't the database's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collation: Option<String>,
}

impl Column {
    /// Whether its texts are ordered by their bytes.
    pub(crate) fn is_bytewise(&self) -> bool {
        matches!(self.collation.as_deref(), Some("pg_catalog.\"C\"" | "pg_catalog.\"POSIX\""))
    }
}

/// A type that PostgreSQL doesn't have by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CustomType {
    /// One of several words.
    Enum {
        /// Its name, with the schema, quoted where needed.
        name: String,
        /// The words in their order.
        labels: Vec<String>,
    },
    /// Another type with conditions.
    Domain {
        /// Its name, with the schema, quoted where needed.
        name: String,
        /// The type below.
        base: String,
        /// The conditions, as in `CHECK ((VALUE > 0))`.
        checks: Vec<String>,
        /// Whether it can't be NULL.
        not_null: bool,
    },
}

impl CustomType {
    /// Its name, with the schema, quoted where needed.
    pub fn name(&self) -> &str {
        match self {
            Self::Enum { name, .. } | Self::Domain { name, .. } => name,
        }
    }
}

/// What is said about a page beside its rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageHead {
    /// How many records the page has.
    pub records: usize,
    /// Whether there is more to be read at once.
    pub has_more: bool,
    /// Where to go on; to be kept together with the rows.
    pub next_cursor: String,
    /// What is promised about late commits.
    pub consistency: Consistency,
    /// How far the last record is behind the source's clock, in milliseconds, while there is more; else 0.
    pub lag_ms: u64,
    /// What keeps rows from being delivered, if something does.
    pub held_by: Option<String>,
    /// See [`TableDescription::schema_version`].
    pub schema_version: String,
}

/// Rows whose keys lie behind one and at or before another, in the order that the database gives keys. Each key is the texts of its
/// columns.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRange {
    /// The key before the first row; none begins with the first there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Vec<String>>,
    /// The last key; none goes on to the last there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_to: Option<Vec<String>>,
}

impl KeyRange {
    /// What is left of it behind a key.
    pub(crate) fn behind(self, key: Vec<String>) -> Self {
        Self { after: Some(key), ..self }
    }
}

/// What says whether two ranges hold the same rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeDigest {
    /// How many rows there are.
    pub rows: i64,
    /// The sum of their hashes, as a decimal number.
    pub digest: String,
    /// The key of the last of them, where as many were asked for and there may be more behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_to: Option<Vec<String>>,
}

/// What says whether two rows are the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowDigest {
    /// The texts of the key's columns.
    pub key: Vec<String>,
    /// The hash of the row, as a decimal number.
    pub digest: String,
}

/// What is said about rows that were asked for by their keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowsHead {
    /// How many records there are: one for each of the first so many keys.
    pub records: usize,
    /// See [`TableDescription::schema_version`].
    pub schema_version: String,
}
