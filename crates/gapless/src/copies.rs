//! What is copied from where to where.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use gapless_client::ServerUrl;
use gapless_tables::SourceName;
use gapless_tables::replicate::Reader;
use reqwest::Url;
use serde::Deserialize;

mod faults;
mod flags;

pub(crate) use faults::with_hint;
pub(crate) use flags::CopyFlags;

/// The exit code when a side couldn't be used for as long as one waits who wants to end.
pub(crate) const GAVE_UP: u8 = 4;

/// Copies of tables of one server into one target.
#[derive(Debug)]
pub(crate) struct Copies {
    pub(crate) from: Url,
    pub(crate) reader: Reader,
    pub(crate) target: Target,
    pub(crate) tables: Vec<CopiedTable>,
}

/// A table that is copied.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CopiedTable {
    pub(crate) table: String,
    #[serde(default)]
    pub(crate) into: Option<String>,
}

/// Where copies go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    Postgres(String),
    Sqlite(PathBuf),
}

/// What stands in a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CopiesFile {
    from: String,
    to: String,
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    tables: Vec<CopiedTable>,
}

/// Who one is to an open server if one doesn't say.
const NOBODY_IN_PARTICULAR: &str = "replicator";

const EXAMPLE: &str = r#"from = "http://127.0.0.1:7700"
to = "postgres://writer@localhost/reports"

[[tables]]
table = "orders""#;

impl Copies {
    pub(crate) fn new(
        from: &ServerUrl,
        reader: Option<Reader>,
        target: Target,
        tables: Vec<CopiedTable>,
    ) -> Self {
        let from = Url::parse(&from.to_string()).expect("the address of a server is a URL");
        let reader = reader.unwrap_or_else(|| Reader::User(NOBODY_IN_PARTICULAR.to_owned()));
        Self { from, reader, target, tables }
    }

    /// Reads a file. `reader` stands in for the token that the file names, if there is one.
    pub(crate) fn read(path: &Path, reader: Option<Reader>) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        Self::parse(&text, reader).with_context(|| path.display().to_string())
    }

    fn parse(text: &str, reader: Option<Reader>) -> anyhow::Result<Self> {
        let file: CopiesFile = toml::from_str(text)?;
        if file.tables.is_empty() {
            bail!("no table is named; write it as in\n{EXAMPLE}");
        }
        let from: ServerUrl = variable("from", file.from)?.parse().context("`from`")?;
        let target = Target::parse(&variable("to", file.to)?)?;
        let token = file.token.map(|token| variable("token", token)).transpose()?;
        let reader = reader.or(token.map(Reader::Token));
        let mut names: Vec<&str> = file.tables.iter().map(CopiedTable::name).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            bail!("two copies are called `{}`; call one of them otherwise with `into`", twice[0]);
        }
        Ok(Self::new(&from, reader, target, file.tables))
    }
}

impl CopiedTable {
    /// What the copy is called, as far as one knows before asking the source.
    fn name(&self) -> &str {
        self.into.as_deref().unwrap_or(&self.table)
    }
}

impl Target {
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Ok(Self::Postgres(text.to_owned()));
        }
        match text.strip_prefix("sqlite:") {
            Some(path) if !path.is_empty() => Ok(Self::Sqlite(path.into())),
            Some(_) | None => {
                bail!(
                    "`to` must be postgres://USER:PASSWORD@HOST/DATABASE or sqlite:FILE, as in sqlite:copy.db"
                )
            }
        }
    }
}

/// The schema and name of a target.
pub(crate) fn qualified(into: &str) -> SourceName {
    let (schema, table) = into.split_once('.').unwrap_or(("public", into));
    SourceName { schema: schema.to_owned(), table: table.to_owned() }
}

/// A value, or that of the environment variable that it names.
fn variable(field: &str, value: String) -> anyhow::Result<String> {
    match value.strip_prefix('$') {
        None => Ok(value),
        Some(name) => env::var(name).with_context(|| {
            format!("`{field}` names the environment variable {name}, which can't be read; set it")
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_declared_in_a_few_lines() {
        let text = format!("{EXAMPLE}\n[[tables]]\ntable = \"users\"\ninto = \"shop.users\"\n");
        let copies = Copies::parse(&text, None).unwrap();
        assert_eq!(copies.from.as_str(), "http://127.0.0.1:7700/");
        assert_eq!(copies.target, Target::Postgres("postgres://writer@localhost/reports".to_owned()));
        assert!(matches!(&copies.reader, Reader::User(user) if user == "replicator"));
        let into: Vec<_> = copies.tables.iter().map(|table| table.into.as_deref()).collect();
        assert_eq!(into, [None, Some("shop.users")]);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_field_and_what_to_do() {
        let said = |text: &str| format!("{:#}", Copies::parse(text, None).unwrap_err());
        for (text, words) in [
            (EXAMPLE.replace("from", "form"), "form"),
            (EXAMPLE.replace("postgres://writer@localhost/reports", "mysql://x"), "`to` must be postgres://"),
            (EXAMPLE.replace("postgres://writer@localhost/reports", "sqlite:"), "sqlite:FILE"),
            (EXAMPLE.replace("http://127.0.0.1:7700", "127.0.0.1:7700"), "`from`"),
            (EXAMPLE.replace("http://127.0.0.1:7700", "$NOBODY_HAS_SET_THIS"), "NOBODY_HAS_SET_THIS"),
            (EXAMPLE.split("[[").next().unwrap().to_owned(), "[[tables]]"),
            (format!("{EXAMPLE}\n[[tables]]\ntable = \"orders\""), "two copies are called `orders`"),
        ] {
            assert!(said(&text).contains(words), "{}", said(&text));
        }
    }

    #[test]
    fn a_name_alone_is_in_the_usual_schema() {
        assert_eq!(qualified("orders").schema, "public");
        assert_eq!(qualified("shop.Orders"), SourceName { schema: "shop".into(), table: "Orders".into() });
    }
}
