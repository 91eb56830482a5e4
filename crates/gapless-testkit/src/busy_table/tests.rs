use std::collections::BTreeSet;
use std::time::Duration;

use super::*;
use crate::SharedPostgres;

#[tokio::test]
async fn the_truth_is_what_was_committed_last() {
    let table = busy_table().await;

    let work = table.start(Duration::from_secs(2)).join().await.unwrap();
    assert!(work.committed > 20 && work.rolled_back > 0, "{} and {}", work.committed, work.rolled_back);

    let truth = table.truth().await.unwrap();
    assert!(truth.len() > 100);
    assert!(truth.values().all(|row| work.committed_at.contains_key(&row.version)));
    let versions: BTreeSet<_> = truth.values().map(|row| row.version).collect();
    assert_eq!(versions.len(), truth.len());
    for status in ["pending", "paid"] {
        assert!(truth.values().any(|row| row.status == status), "{status}");
    }
}

#[tokio::test]
async fn rows_commit_in_another_order_than_that_of_their_timestamps() {
    let table = busy_table().await;
    let work = table.start(Duration::from_secs(2)).join().await.unwrap();

    let truth = table.truth().await.unwrap();
    let mut rows: Vec<_> = truth.values().collect();
    rows.sort_by_key(|row| row.updated_at_us);
    let mut committed = rows.iter().map(|row| work.committed_at[&row.version]);
    assert!(!committed.by_ref().is_sorted());
}

#[tokio::test]
async fn many_rows_share_one_timestamp() {
    let table = busy_table_of(1).await;
    table.start(Duration::from_secs(2)).join().await.unwrap();

    let mut rows_at = BTreeMap::new();
    for row in table.truth().await.unwrap().into_values() {
        *rows_at.entry(row.updated_at_us).or_insert(0) += 1;
    }
    // Some of them were advanced or deleted meanwhile.
    assert!(rows_at.into_values().max() > Some(TIE_ROWS * 2 / 3));
}

#[tokio::test]
async fn writers_that_are_stopped_end_before_their_time_and_can_start_again() {
    let table = busy_table().await;
    let writers = table.start(Duration::from_secs(3_600));
    writers.stop().await.unwrap();
    let before = table.truth().await.unwrap();

    table.start(Duration::from_secs(1)).join().await.unwrap();
    assert_ne!(table.truth().await.unwrap(), before);
}

#[tokio::test]
async fn a_writer_that_cannot_write_is_told_of() {
    let table = busy_table().await;
    let (client, connection) = tokio_postgres::connect(&table.url, NoTls).await.unwrap();
    writer::while_connected(connection, async move { Ok(client.batch_execute("DROP TABLE orders").await?) })
        .await
        .unwrap();
    assert!(table.start(Duration::from_secs(3_600)).join().await.is_err());
}

async fn busy_table() -> BusyTable {
    busy_table_of(BusyTableConfig::default().writers).await
}

async fn busy_table_of(writers: u32) -> BusyTable {
    let url = SharedPostgres::from_environment().fresh_database();
    let config = BusyTableConfig { tie_rows: TIE_ROWS, writers, ..BusyTableConfig::default() };
    BusyTable::create(&url, config).await.unwrap()
}

const TIE_ROWS: u32 = 300;
