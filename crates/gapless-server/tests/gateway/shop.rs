//! A database with a table of orders, for gateways that read it for others.

use gapless_tables::{DeclaredTables, TableConfig, install};
use gapless_testkit::SharedPostgres;
use tokio_postgres::NoTls;

/// The database of a shop, and a connection to it.
pub(crate) struct Shop {
    pub(crate) url: String,
    pub(crate) sql: tokio_postgres::Client,
    config: TableConfig,
}

impl Shop {
    /// A shop with a table `orders` that is empty.
    pub(crate) async fn open() -> Self {
        Self::open_with(TableConfig::new("orders")).await
    }

    /// The same where the table is declared otherwise.
    pub(crate) async fn open_with(config: TableConfig) -> Self {
        let url = SharedPostgres::from_environment().fresh_database();
        let shop = Self { sql: connect(&url).await, url, config };
        let orders = "CREATE TABLE orders (id bigint PRIMARY KEY, status text, total numeric, paid boolean, updated_at timestamptz NOT NULL)";
        shop.execute(orders).await;
        shop.install().await;
        shop
    }

    /// A shop with another table `orders`.
    pub(crate) async fn open_table(statement: &str) -> Self {
        let url = SharedPostgres::from_environment().fresh_database();
        connect(&url).await.batch_execute(statement).await.unwrap();
        Self::of(url, TableConfig::new("orders")).await
    }

    /// A shop whose table was made already.
    pub(crate) async fn of(url: String, config: TableConfig) -> Self {
        let shop = Self { sql: connect(&url).await, url, config };
        shop.install().await;
        shop
    }

    /// Adds to the table what its readers need.
    pub(crate) async fn install(&self) {
        install(&self.url, self.config.clone(), true).await.unwrap();
    }

    /// As a server is told of it.
    pub(crate) fn declared(&self) -> Vec<DeclaredTables> {
        vec![DeclaredTables { url: self.url.clone(), connections: 4, tables: vec![self.config.clone()] }]
    }

    pub(crate) async fn execute(&self, statements: &str) {
        self.sql.batch_execute(statements).await.unwrap();
    }

    /// Another connection.
    pub(crate) async fn connect(&self) -> tokio_postgres::Client {
        connect(&self.url).await
    }
}

async fn connect(url: &str) -> tokio_postgres::Client {
    let (sql, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    sql
}
