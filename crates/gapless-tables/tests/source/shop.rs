//! A database with a table, and a reader of it.

use std::collections::BTreeMap;

use gapless_tables::{
    Consistency, CursorKeys, Deletes, Form, Page, PageRequest, Source, SourceError, TableConfig, install,
};
use gapless_testkit::SharedPostgres;
use serde_json::Value;
use tokio_postgres::{Client, NoTls};

/// A table of orders.
pub(crate) const ORDERS: &str = "
    CREATE TABLE orders (id bigint PRIMARY KEY, status text NOT NULL, updated_at timestamptz NOT NULL);
    CREATE INDEX ON orders (updated_at, id)";

/// A database of its own.
pub(crate) struct Shop {
    pub(crate) url: String,
    pub(crate) sql: Client,
}

impl Shop {
    pub(crate) async fn with(schema: &str) -> Self {
        let url = SharedPostgres::from_environment().fresh_database();
        let sql = connect(&url).await;
        sql.batch_execute(schema).await.unwrap();
        Self { url, sql }
    }

    /// Orders that can be read, in a mode.
    pub(crate) async fn of_orders(consistency: Consistency) -> (Self, Source) {
        let shop = Self::with(ORDERS).await;
        let source = shop.source(orders(consistency)).await;
        (shop, source)
    }

    pub(crate) async fn source(&self, config: TableConfig) -> Source {
        install(&self.url, config.clone(), true).await.unwrap();
        self.open(config).await
    }

    pub(crate) async fn open(&self, config: TableConfig) -> Source {
        Source::open(&self.url, 4, config, CursorKeys::new([]))
            .await
            .unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) async fn execute(&self, statements: &str) {
        self.sql.batch_execute(statements).await.unwrap();
    }

    /// What the table holds: the JSON of each row by its key.
    pub(crate) async fn rows(&self) -> BTreeMap<String, Value> {
        let rows = self.sql.query("SELECT id::text, status FROM orders", &[]).await.unwrap();
        rows.iter().map(|row| (row.get(0), Value::String(row.get(1)))).collect()
    }
}

pub(crate) async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

pub(crate) fn orders(consistency: Consistency) -> TableConfig {
    let deletes = match consistency {
        Consistency::Strict | Consistency::Watched => Deletes::Tombstones,
        Consistency::BestEffort => Deletes::None,
    };
    let delay_ms = (consistency == Consistency::BestEffort).then_some(0);
    TableConfig { consistency, deletes, delay_ms, ..TableConfig::new("orders") }
}

/// Whoever follows a table, and what they hold.
#[derive(Default)]
pub(crate) struct Reader {
    pub(crate) cursor: Option<String>,
    pub(crate) held: BTreeMap<String, Value>,
    /// All records, in their order.
    pub(crate) records: Vec<String>,
    pub(crate) since: Option<String>,
}

impl Reader {
    pub(crate) async fn page(&mut self, source: &Source, limit: u32) -> Page {
        let page = self.try_page(source, limit).await.unwrap_or_else(|error| panic!("{error}"));
        self.cursor = Some(page.head.next_cursor.clone());
        let json = format!("[{}]", String::from_utf8(page.rows.clone()).unwrap());
        let records: Vec<Value> =
            serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json}"));
        assert_eq!(records.len(), page.head.records);
        assert!(records.len() <= limit as usize);
        for record in records {
            let (row, is_delete) = match record["op"].as_str() {
                Some("upsert") => (&record["row"], false),
                Some("delete") => (&record["key"], true),
                _ => panic!("{record}"),
            };
            let id = row["id"].to_string().replace('"', "");
            match is_delete {
                true => drop(self.held.remove(&id)),
                false => drop(self.held.insert(id.clone(), row["status"].clone())),
            }
            let status = if is_delete { "deleted" } else { row["status"].as_str().unwrap_or("") };
            self.records.push(format!("{id} {status}"));
        }
        page
    }

    pub(crate) async fn try_page(&self, source: &Source, limit: u32) -> Result<Page, SourceError> {
        let (cursor, since) = (self.cursor.clone(), self.since.clone().filter(|_| self.cursor.is_none()));
        source.page(&PageRequest { cursor, since, limit, form: Form::Json }).await
    }

    /// Reads until nothing is left, and returns what came.
    pub(crate) async fn catch_up(&mut self, source: &Source, limit: u32) -> Vec<String> {
        let before = self.records.len();
        while self.page(source, limit).await.head.has_more {}
        self.records[before..].to_vec()
    }
}
