use tokio_postgres::Client;

use super::chain;
use super::explained::{connect, plan};
use super::page::{SERVICE_PAGE, USER_PAGE};
use super::reading;
use super::statements::Statements;

#[tokio::test]
async fn every_statement_walks_an_index_however_large_the_tables_are() {
    let client = connect().await;
    every_statement_walks_an_index(&client, "no row").await;
    for (rows, name) in [(1, "one row"), (20, "a few rows"), (20_000, "many rows")] {
        fill(&client, rows).await;
        every_statement_walks_an_index(&client, name).await;
    }
}

async fn every_statement_walks_an_index(client: &Client, filled: &str) {
    for statement in
        Statements::ALL.iter().chain(reading::ALL).chain(chain::ALL).chain(&[USER_PAGE, SERVICE_PAGE])
    {
        let plan = plan(client, statement).await;
        let whole = plan.tables_read_whole();
        assert!(whole.is_empty(), "{whole:?} with {filled} in {statement}: {plan:#?}");
        for kind in ["Sort", "Hash Join", "Merge Join", "Hash"] {
            assert!(!plan.kinds().contains(&kind), "{kind} with {filled} in {statement}: {plan:#?}");
        }
    }
}

/// Fills every table with so many rows, and lets PostgreSQL count them.
async fn fill(client: &Client, rows: u32) {
    let statements = format!(
        "TRUNCATE feed, entry, member, trimmed_key, chain, chain_block, chain_entry, chain_value;
         INSERT INTO chain SELECT n::text, 1, 1, 1, NULL, NULL, NULL, 1, 0, NULL, false FROM generate_series(1, {rows}) n;
         INSERT INTO chain_block SELECT n::text, sha256(n::text::bytea), n, '', 0, true, NULL FROM generate_series(1, {rows}) n;
         INSERT INTO chain_entry SELECT n::text, 1, 'event', 1, 1, '', 0, 't', '1', NULL, NULL, NULL FROM generate_series(1, {rows}) n;
         INSERT INTO chain_value SELECT n::text, 't', 'k', 1, 1, '1', NULL FROM generate_series(1, {rows}) n;
         INSERT INTO feed SELECT 'f' || n, 'conversation', 1, 1, 1, 'all', 'alice', 1, 0 FROM generate_series(1, {rows}) n;
         INSERT INTO entry SELECT 'f' || n, 1, 'message', 'alice', 'k', 0, '1' FROM generate_series(1, {rows}) n;
         INSERT INTO member SELECT 'f' || n, 'alice', 1, 1, NULL, false FROM generate_series(1, {rows}) n;
         INSERT INTO trimmed_key SELECT 'f' || n, 'alice', 'k', 1, 0, '' FROM generate_series(1, {rows}) n;"
    );
    client.batch_execute(&statements).await.unwrap();
    client.batch_execute("VACUUM ANALYZE").await.unwrap();
}
