//! What only the PostgreSQL store has: a server, which may be too new, or set up in a way that can't keep what is promised.

use futures_util::future::join_all;
use gapless_store::{OpenError, PostgresStore, Store as _, StoreUrl, migrate, open};

use crate::postgres_database::PostgresDatabase;
use crate::world::Database as _;

#[tokio::test]
async fn stores_that_open_at_the_same_time_bring_the_schema_up_to_date_once() {
    let database = PostgresDatabase::fresh();
    let opened = join_all((0..6).map(|_| PostgresStore::connect(database.url()))).await;
    for store in opened {
        let (store, _news) = store.unwrap();
        store.check().await.unwrap();
        store.close().await;
    }
    let applied = database.connect().await.query("SELECT FROM refinery_schema_history", &[]).await.unwrap();
    assert_eq!(applied.len(), 3);
}

#[tokio::test]
async fn migrating_tells_what_was_applied_and_the_second_time_nothing() {
    let url: StoreUrl = PostgresDatabase::fresh().url().parse().unwrap();
    let first = migrate(&url).await.unwrap();
    assert_eq!(first.applied, ["V1__feeds_and_entries", "V2__chains", "V3__chains_begun_anew"]);
    let second = migrate(&url).await.unwrap();
    assert!(second.applied.is_empty() && second.version == first.version);
    let (store, _news) = open(&url).await.unwrap();
    store.check().await.unwrap();
    store.close().await;
}

#[tokio::test]
async fn a_database_of_a_newer_version_is_refused() {
    let database = PostgresDatabase::fresh();
    let (store, _news) = database.open().await;
    store.close().await;
    database
        .execute("INSERT INTO refinery_schema_history VALUES (999, 'later', '2040-01-01T00:00:00Z', '1')")
        .await;
    let error = PostgresStore::connect(database.url()).await.unwrap_err();
    assert!(matches!(error, OpenError::NewerSchema { found: 999, .. }), "{error:?}");
}

#[tokio::test]
async fn a_database_that_cannot_keep_every_text_is_refused() {
    let server = PostgresDatabase::fresh();
    let name = format!("latin_{}", std::process::id());
    server.execute(&format!("CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")).await;
    let (address, _) = server.url().rsplit_once('/').unwrap();
    let error = PostgresStore::connect(&format!("{address}/{name}")).await.unwrap_err();
    assert!(matches!(error, OpenError::Unsuitable(_)), "{error:?}");
    assert!(error.to_string().contains("UTF8"), "{error}");
}

#[tokio::test]
async fn a_database_that_is_not_there_is_named_with_what_makes_it() {
    let server = PostgresDatabase::fresh();
    let (address, _) = server.url().rsplit_once('/').unwrap();
    let error = PostgresStore::connect(&format!("{address}/nowhere")).await.unwrap_err();
    assert!(matches!(error, OpenError::NoDatabase { .. }), "{error:?}");
    assert!(error.to_string().contains("createdb nowhere"), "{error}");
}

#[tokio::test]
async fn a_role_that_may_not_create_tables_is_told_what_lets_it() {
    let database = PostgresDatabase::fresh();
    let role = format!("plain_{}", std::process::id());
    database
        .execute(&format!(
            "REVOKE CREATE ON SCHEMA public FROM PUBLIC; CREATE ROLE {role} LOGIN PASSWORD 'x'"
        ))
        .await;
    let (_, place) = database.url().rsplit_once('@').unwrap();
    let as_role = format!("postgres://{role}:x@{place}");
    let error = PostgresStore::connect(&as_role).await.unwrap_err();
    assert!(matches!(error, OpenError::MayNotCreate { .. }), "{error:?}");

    let said = error.to_string();
    let (_, mend) = said.split_once("superuser: ").unwrap();
    database.execute(mend).await;
    let (store, _news) = PostgresStore::connect(&as_role).await.unwrap();
    store.close().await;
    database.execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_without_its_password() {
    let port = gapless_testkit::free_port();
    let url = format!("postgres://ann:s3cret@127.0.0.1:{port}/chat");
    let error = PostgresStore::connect(&url).await.unwrap_err();
    assert!(matches!(error, OpenError::Unreachable(_)), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
}

// Behaviour 11
#[tokio::test]
async fn a_server_that_need_not_flush_is_made_to() {
    let database = PostgresDatabase::fresh();
    let set_up = "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', \
                  current_database()); END $$";
    database.execute(set_up).await;
    let (store, _news) = database.open().await;
    // A commit that isn't flushed leaves its position in the log behind the flushed one, at least for a moment.
    let chat = crate::world::Conversation { store, id: crate::world::conv("chat") };
    let creation = crate::world::creation(gapless_core::History::FromJoin, "chat", &["alice"]);
    chat.store.create(creation).await.unwrap();
    let client = database.connect().await;
    for number in 0..20 {
        let before: String = lsn(&client, "pg_current_wal_insert_lsn()").await;
        chat.say("alice", &format!("k{number}")).await;
        let flushed = format!("pg_current_wal_flush_lsn() > '{before}'::pg_lsn");
        let is_flushed: bool = client.query_one(&format!("SELECT {flushed}"), &[]).await.unwrap().get(0);
        assert!(is_flushed, "an acknowledged send isn't on disk");
    }
    chat.store.close().await;
}

async fn lsn(client: &tokio_postgres::Client, function: &str) -> String {
    client.query_one(&format!("SELECT {function}::text"), &[]).await.unwrap().get(0)
}
