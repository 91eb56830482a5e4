//! A store by its name.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use crate::{NewsReceiver, OpenError, PostgresStore, SqliteStore, Store};

/// Names a store: `sqlite:PATH` or `postgres://USER:PASSWORD@HOST:PORT/DATABASE`.
///
/// As text and in logs, the password is left out.
#[derive(Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// A SQLite file; made if there is none.
    Sqlite(PathBuf),
    /// A PostgreSQL database.
    Postgres(PostgresUrl),
}

/// Where a PostgreSQL database is, and who we are to it. Holds a password, so it shows itself without it.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl(String);

/// Why a text names no store.
#[derive(Debug, thiserror::Error)]
pub enum StoreUrlError {
    /// It begins with no kind of store.
    #[error("`{0}` names no store; write sqlite:PATH or postgres://USER:PASSWORD@HOST:PORT/DATABASE")]
    UnknownKind(String),
    /// It names SQLite and no file.
    #[error("`{0}` names no file; write sqlite:PATH, as in sqlite:gapless.db")]
    NoFile(String),
    /// A parameter behind the question mark isn't one, or can't have this value.
    #[error(
        "`{0}` isn't a parameter of a PostgreSQL address, or can't have this value; correct it or leave it out"
    )]
    Parameter(String),
    /// PostgreSQL's driver can't read it.
    #[error(
        "this isn't the address of a PostgreSQL database; write postgres://USER:PASSWORD@HOST:PORT/DATABASE"
    )]
    Postgres(#[source] tokio_postgres::Error),
}

/// What bringing a schema up to date came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migrated {
    /// The schema's version now.
    pub version: i32,
    /// Which migrations were applied, in order; none when it was up to date.
    pub applied: Vec<String>,
}

/// Opens a store and brings its schema up to date.
pub async fn open(url: &StoreUrl) -> Result<(Arc<dyn Store>, NewsReceiver), OpenError> {
    match url {
        StoreUrl::Sqlite(path) => {
            let path = path.clone();
            let (store, news) = blocking(move || SqliteStore::open(&path)).await?;
            Ok((Arc::new(store), news))
        }
        StoreUrl::Postgres(url) => {
            let (store, news) = PostgresStore::connect(url.as_str()).await?;
            Ok((Arc::new(store), news))
        }
    }
}

/// Brings a store's schema up to date without opening it.
pub async fn migrate(url: &StoreUrl) -> Result<Migrated, OpenError> {
    match url {
        StoreUrl::Sqlite(path) => {
            let path = path.clone();
            blocking(move || SqliteStore::migrate(&path)).await
        }
        StoreUrl::Postgres(url) => PostgresStore::migrate(url.as_str()).await,
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, OpenError> + Send + 'static,
) -> Result<T, OpenError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| OpenError::Unreachable(Box::new(error)))?
}

impl FromStr for StoreUrl {
    type Err = StoreUrlError;

    fn from_str(text: &str) -> Result<Self, StoreUrlError> {
        if let Some(path) = text.strip_prefix("sqlite:") {
            return match path.strip_prefix("//").unwrap_or(path) {
                "" | ":memory:" => Err(StoreUrlError::NoFile(text.to_owned())),
                path => Ok(Self::Sqlite(PathBuf::from(path))),
            };
        }
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return PostgresUrl::from_str(text).map(Self::Postgres);
        }
        let kind = text.split(':').next().unwrap_or_default();
        Err(StoreUrlError::UnknownKind(kind.chars().take(QUOTED_CHARS_MAX).collect()))
    }
}

/// Longest piece of a text that is repeated in an error. What stands behind the kind may be a password and isn't repeated.
const QUOTED_CHARS_MAX: usize = 40;

impl FromStr for PostgresUrl {
    type Err = StoreUrlError;

    fn from_str(text: &str) -> Result<Self, StoreUrlError> {
        match (tokio_postgres::Config::from_str(text), wrong_parameter(text)) {
            (Ok(_), _) => Ok(Self(text.to_owned())),
            (Err(_), Some(name)) => Err(StoreUrlError::Parameter(name.to_owned())),
            (Err(error), None) => Err(StoreUrlError::Postgres(error)),
        }
    }
}

/// The name of the first parameter that the driver refuses by itself.
fn wrong_parameter(text: &str) -> Option<&str> {
    let (_, query) = text.split_once('?')?;
    // Then the question mark stands in a password, which isn't repeated.
    if query.contains('@') {
        return None;
    }
    let refused =
        |pair: &&str| tokio_postgres::Config::from_str(&format!("postgres://localhost?{pair}")).is_err();
    let (name, _) = query.split('&').find(refused)?.split_once('=')?;
    Some(name)
}

impl PostgresUrl {
    /// The address with the password.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, rest) = self.0.split_once("://").unwrap_or(("postgres", &self.0));
        // A password in the query, as `?password=...`, is cut off with the query.
        let address = rest.split('?').next().unwrap_or_default();
        match address.rsplit_once('@') {
            Some((account, place)) => {
                let user = account.split(':').next().unwrap_or_default();
                write!(f, "{scheme}://{user}@{place}")
            }
            None => write!(f, "{scheme}://{address}"),
        }
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresUrl({self})")
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(url) => url.fmt(f),
        }
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

impl Migrated {
    pub(crate) fn newest(runner: &refinery::Runner) -> i32 {
        let versions = runner.get_migrations().iter().map(refinery::Migration::version);
        versions.max().unwrap_or(0)
    }

    pub(crate) fn of(report: &refinery::Report, version: i32) -> Self {
        let applied = report.applied_migrations().iter().map(ToString::to_string);
        Self { version, applied: applied.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> StoreUrl {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn a_sqlite_store_is_named_by_its_path() {
        for (text, path) in [
            ("sqlite:gapless.db", "gapless.db"),
            ("sqlite:/var/lib/gapless.db", "/var/lib/gapless.db"),
            ("sqlite:///var/lib/gapless.db", "/var/lib/gapless.db"),
            ("sqlite:./a b/ü?.db", "./a b/ü?.db"),
        ] {
            assert_eq!(parsed(text), StoreUrl::Sqlite(PathBuf::from(path)));
        }
    }

    #[test]
    fn what_names_no_store_is_refused_with_what_to_write() {
        for text in ["", "gapless.db", "mysql://host/db", "sqlite:", "sqlite::memory:", "SQLITE:x"] {
            let error = text.parse::<StoreUrl>().unwrap_err().to_string();
            assert!(error.contains("sqlite:"), "{text:?}: {error}");
        }
        let error = "postgres://host:port/db".parse::<StoreUrl>().unwrap_err();
        assert!(error.to_string().contains("postgres://USER"), "{error}");
    }

    #[test]
    fn a_parameter_that_is_wrong_is_named_and_a_password_is_not() {
        let said = |text: &str| text.parse::<StoreUrl>().unwrap_err().to_string();
        for (text, name) in [
            ("postgres://ann:s3cret@host/db?foo=s3cret", "`foo`"),
            ("postgres://host/db?sslmode=disable&connect_timeout=soon", "`connect_timeout`"),
        ] {
            let error = said(text);
            assert!(error.starts_with(name) && !error.contains("s3cret"), "{text}: {error}");
        }
        let password = said("postgres://ann:half?s3cret=half@host:port/db");
        assert!(!password.contains("s3cret"), "{password}");
    }

    #[test]
    fn a_password_is_never_shown() {
        for text in [
            "postgres://ann:s3cret@db.example:5432/chat?sslmode=require",
            "postgres://ann:s3cret@db.example:5432/chat?password=s3cret",
            "postgresql://ann:s3cret%40@db.example/chat",
        ] {
            let url = parsed(text);
            for shown in [url.to_string(), format!("{url:?}")] {
                assert!(!shown.contains("s3cret") && shown.contains("ann@db.example"), "{shown}");
            }
        }
        let error = "s3cret-and-more:x".replace("s3cret-and-more:x", "foo:s3cret").parse::<StoreUrl>();
        assert!(!error.unwrap_err().to_string().contains("s3cret"));
    }
}
