//! PostgreSQL as a database of the suite: one of its own on the server that all tests share.

use std::sync::Arc;

use async_trait::async_trait;
use gapless_store::{NewsReceiver, PostgresStore, Store};
use gapless_testkit::SharedPostgres;
use tokio_postgres::NoTls;

use crate::world::Database;

pub(crate) struct PostgresDatabase {
    url: String,
}

impl PostgresDatabase {
    pub(crate) fn fresh() -> Self {
        Self::at(SharedPostgres::from_environment().fresh_database())
    }

    pub(crate) fn at(url: String) -> Self {
        Self { url }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// A connection past any store that is open on the database.
    pub(crate) async fn connect(&self) -> tokio_postgres::Client {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    /// Waits until a connection to the database is in some state.
    pub(crate) async fn wait_until_active(&self, state: &str) {
        let active = format!("SELECT FROM pg_stat_activity WHERE datname = current_database() AND {state}");
        self.wait_until(&format!("EXISTS ({active})")).await;
    }

    /// Waits until a condition on the database holds.
    pub(crate) async fn wait_until(&self, condition: &str) {
        let client = self.connect().await;
        let question = format!("SELECT {condition}");
        for _ in 0..100_000 {
            if client.query_one(&question, &[]).await.unwrap().get(0) {
                return;
            }
        }
        panic!("it never came about that {condition}");
    }

    /// Runs statements on the database, past any store that is open on it.
    pub(crate) async fn execute(&self, statements: &str) {
        self.connect().await.batch_execute(statements).await.unwrap();
    }
}

#[async_trait]
impl Database for PostgresDatabase {
    async fn open(&self) -> (Arc<dyn Store>, NewsReceiver) {
        let (store, news) = PostgresStore::connect(&self.url).await.expect("the database can be opened");
        (Arc::new(store), news)
    }

    async fn break_inserts(&self) {
        self.execute(
            "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN RAISE EXCEPTION 'broken on purpose'; END $$; \
             CREATE TRIGGER broken BEFORE INSERT ON entry FOR EACH ROW EXECUTE FUNCTION broken(); \
             CREATE TRIGGER broken BEFORE INSERT ON chain_entry FOR EACH ROW EXECUTE FUNCTION broken()",
        )
        .await;
    }

    async fn mend(&self) {
        self.execute("DROP FUNCTION broken CASCADE").await;
    }
}
