//! Databases that last for one experiment or one benchmark.

use std::env;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context as _;
use clap::ValueEnum;
use gapless_store::{Store, StoreUrl};
use gapless_testkit::{GAPLESS_TEST_POSTGRES, Postgres};
use tempfile::TempDir;
use tokio_postgres::NoTls;

use crate::plain_sql::PlainSql;

/// Which of the two stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreKind {
    /// The embedded one, in a temporary folder.
    Sqlite,
    /// PostgreSQL, in a database of its own.
    Postgres,
}

impl StoreKind {
    /// Its name on the command line and in reports.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

/// Makes databases of one kind.
pub(crate) enum Databases {
    /// Files in temporary folders.
    Sqlite,
    /// Databases of one server.
    Postgres(PostgresServer),
}

impl Databases {
    /// Readies what is needed; starts a PostgreSQL if none is given.
    pub(crate) async fn ready(kind: StoreKind, postgres_url: Option<String>) -> anyhow::Result<Self> {
        Ok(match kind {
            StoreKind::Sqlite => Self::Sqlite,
            StoreKind::Postgres => Self::Postgres(PostgresServer::ready(postgres_url).await?),
        })
    }

    /// Starts a PostgreSQL of its own whose log can be decoded, as logical replication needs it.
    pub(crate) async fn decodable() -> anyhow::Result<Self> {
        let starting = tokio::task::spawn_blocking(|| Postgres::start_with("wal_level = logical\n"));
        Ok(Self::Postgres(PostgresServer::of(starting.await?.context("starting PostgreSQL")?)))
    }

    /// Which kind they are of.
    pub(crate) fn kind(&self) -> StoreKind {
        match self {
            Self::Sqlite => StoreKind::Sqlite,
            Self::Postgres(_) => StoreKind::Postgres,
        }
    }

    /// Makes an empty database.
    pub(crate) async fn fresh(&self) -> anyhow::Result<Database> {
        match self {
            Self::Sqlite => {
                let folder = tempfile::Builder::new().prefix("gapless-lab-").tempdir();
                Ok(Database::Sqlite { folder: folder.context("making a temporary folder for a database")? })
            }
            Self::Postgres(server) => server.fresh_database().await,
        }
    }
}

/// A running PostgreSQL.
pub(crate) struct PostgresServer {
    url: String,
    /// The server, if it was started here; it ends with this.
    _started: Option<Postgres>,
}

impl PostgresServer {
    /// Takes the server that is given, or that the environment names, or starts one.
    async fn ready(url: Option<String>) -> anyhow::Result<Self> {
        if let Some(url) = url.or_else(|| env::var(GAPLESS_TEST_POSTGRES).ok()) {
            return Ok(Self { url, _started: None });
        }
        let starting = tokio::task::spawn_blocking(Postgres::start);
        Ok(Self::of(starting.await?.context("starting PostgreSQL")?))
    }

    fn of(started: Postgres) -> Self {
        Self { url: started.url(), _started: Some(started) }
    }

    async fn fresh_database(&self) -> anyhow::Result<Database> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("gapless_lab_{}_{number}", std::process::id());
        let mut config: tokio_postgres::Config =
            self.url.parse().context("reading the address of PostgreSQL")?;
        let admin = connect(&config).await.context("connecting to PostgreSQL")?;
        admin.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE template0")).await?;
        config.dbname(&name);
        let url = with_database(&self.url, &name);
        Ok(Database::Postgres { name, url, config: Box::new(config), admin })
    }
}

/// One database, empty at first.
pub(crate) enum Database {
    /// A file.
    Sqlite {
        /// The folder that holds it; deleted with this.
        folder: TempDir,
    },
    /// A database of a PostgreSQL server.
    Postgres {
        /// Its name.
        name: String,
        /// Its address.
        url: String,
        /// The same, taken apart.
        config: Box<tokio_postgres::Config>,
        /// A connection to another database of the server, which can drop this one.
        admin: tokio_postgres::Client,
    },
}

impl Database {
    /// What `gapless serve --store` takes.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Sqlite { folder } => format!("sqlite:{}", Self::file(folder).display()),
            Self::Postgres { url, .. } => url.clone(),
        }
    }

    /// Opens the store on it; with SQLite no server may have it open.
    pub(crate) async fn open_store(&self) -> anyhow::Result<Arc<dyn Store>> {
        let url: StoreUrl = self.url().parse().context("naming the store")?;
        let (store, mut news) = gapless_store::open(&url).await.context("opening the store")?;
        // Nobody here is told of commits; what isn't taken would be counted as dropped.
        tokio::spawn(async move { while news.recv().await.is_some() {} });
        Ok(store)
    }

    /// A connection that speaks SQL, past everything that gapless does.
    pub(crate) async fn plain_sql(&self) -> anyhow::Result<PlainSql> {
        match self {
            Self::Sqlite { folder } => Ok(PlainSql::Sqlite(rusqlite::Connection::open(Self::file(folder))?)),
            Self::Postgres { config, .. } => Ok(PlainSql::Postgres(connect(config).await?)),
        }
    }

    /// Another connection of PostgreSQL's driver; an error for SQLite.
    pub(crate) async fn postgres(&self) -> anyhow::Result<tokio_postgres::Client> {
        match self {
            Self::Sqlite { .. } => anyhow::bail!("this needs PostgreSQL"),
            Self::Postgres { config, .. } => connect(config).await,
        }
    }

    /// Another connection to the file; an error for PostgreSQL.
    pub(crate) fn sqlite(&self) -> anyhow::Result<rusqlite::Connection> {
        match self {
            Self::Sqlite { folder } => Ok(rusqlite::Connection::open(Self::file(folder))?),
            Self::Postgres { .. } => anyhow::bail!("this needs SQLite"),
        }
    }

    /// Deletes it. Whoever still uses it is thrown out.
    pub(crate) async fn discard(self) -> anyhow::Result<()> {
        match self {
            Self::Sqlite { folder } => folder.close().context("deleting a database"),
            Self::Postgres { name, admin, .. } => {
                let drop = format!("DROP DATABASE {name} WITH (FORCE)");
                admin.batch_execute(&drop).await.context("dropping a database")
            }
        }
    }

    fn file(folder: &TempDir) -> PathBuf {
        folder.path().join("lab.db")
    }
}

async fn connect(config: &tokio_postgres::Config) -> anyhow::Result<tokio_postgres::Client> {
    let (client, connection) = config.connect(NoTls).await.context("connecting to PostgreSQL")?;
    // It ends when the client is dropped.
    tokio::spawn(connection);
    Ok(client)
}

/// The same address with another database in it.
fn with_database(url: &str, database: &str) -> String {
    let (address, parameters) = url.split_once('?').map_or((url, None), |(a, p)| (a, Some(p)));
    let authority = address.find("://").map_or(0, |scheme| scheme + "://".len());
    let end = address[authority..].find('/').map_or(address.len(), |slash| authority + slash);
    let parameters = parameters.map(|parameters| format!("?{parameters}")).unwrap_or_default();
    format!("{}/{database}{parameters}", &address[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_database_of_an_address_is_replaced() {
        for (url, expected) in [
            ("postgres://u:p@host:1/old", "postgres://u:p@host:1/new"),
            ("postgres://host", "postgres://host/new"),
            ("postgres://host/old?sslmode=require", "postgres://host/new?sslmode=require"),
        ] {
            assert_eq!(with_database(url, "new"), expected);
        }
    }
}
