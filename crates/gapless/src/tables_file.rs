//! A file that declares tables of a database.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use gapless_tables::{DeclaredTables, TableConfig};
use serde::Deserialize;

/// What stands in the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TablesFile {
    /// The URL of the database, or `$NAME` for the environment variable that has it.
    source: String,
    /// How many connections read at most.
    #[serde(default = "connections_default")]
    connections: usize,
    #[serde(default)]
    tables: Vec<TableConfig>,
}

const CONNECTIONS_MAX: usize = 100;

const EXAMPLE: &str = r#"source = "postgres://reader@localhost/shop"

[[tables]]
name = "orders""#;

/// Reads files that declare tables of a database each.
pub(crate) fn read_all(files: &[PathBuf]) -> anyhow::Result<Vec<DeclaredTables>> {
    files.iter().map(|file| read(file)).collect()
}

/// Reads one.
pub(crate) fn read(path: &Path) -> anyhow::Result<DeclaredTables> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    parse(&text).with_context(|| path.display().to_string())
}

fn parse(text: &str) -> anyhow::Result<DeclaredTables> {
    let file: TablesFile = toml::from_str(text)?;
    if file.tables.is_empty() {
        bail!("no table is declared; write it as in\n{EXAMPLE}");
    }
    if !(1..=CONNECTIONS_MAX).contains(&file.connections) {
        bail!("`connections` must be from 1 to {CONNECTIONS_MAX}");
    }
    let url = match file.source.strip_prefix('$') {
        None => file.source,
        Some(name) => env::var(name).with_context(|| {
            format!("`source` names the environment variable {name}, which can't be read; set it")
        })?,
    };
    Ok(DeclaredTables { url, connections: file.connections, tables: file.tables })
}

fn connections_default() -> usize {
    4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_declared_in_a_few_lines() {
        let declared = parse(EXAMPLE).unwrap();
        assert_eq!((declared.url.as_str(), declared.connections), ("postgres://reader@localhost/shop", 4));
        assert_eq!(declared.tables, [TableConfig::new("orders")]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let said = |text: &str| format!("{:#}", parse(text).unwrap_err());
        assert!(said("source = \"postgres://x\"").contains("[[tables]]"));
        assert!(said(&EXAMPLE.replace("source", "sauce")).contains("sauce"));
        assert!(said(&format!("connections = 0\n{EXAMPLE}")).contains("from 1 to 100"));
        let unset = EXAMPLE.replace("postgres://reader@localhost/shop", "$NOBODY_HAS_SET_THIS");
        assert!(said(&unset).contains("NOBODY_HAS_SET_THIS"));
    }
}
