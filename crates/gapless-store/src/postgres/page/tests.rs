use super::*;
use crate::postgres::explained::{Plan, carry_out, connect};

/// A log in which alice says something `rounds` times, bob being there for the odd rounds only, and each round has
/// `entries_each` entries.
async fn log_of(rounds: u64, entries_each: u64) -> tokio_postgres::Client {
    let client = connect().await;
    let (head, last) = (rounds * entries_each, rounds - 1);
    let statements = format!(
        "INSERT INTO feed VALUES ('chat', 'conversation', 1, {head}, 1, 'from_join', 'alice', 1, 0);
         INSERT INTO entry SELECT 'chat', seq, 'message', 'alice', 'k' || seq, 0, '\"hi\"'
             FROM generate_series(1, {head}) seq;
         INSERT INTO member SELECT 'chat', 'bob', first, first, first + {entries_each} - 1, false
             FROM generate_series(1, {last}, 2) round, LATERAL (SELECT round * {entries_each} + 1) r (first);"
    );
    client.batch_execute(&statements).await.unwrap();
    client
}

/// How bob's page after a cursor is made.
async fn read(client: &tokio_postgres::Client, after: u64, limit: u32) -> Plan {
    let (after, rows_max) = (after.to_string(), (limit + 1).to_string());
    carry_out(client, USER_PAGE, &["'chat'", "'bob'", &after, &rows_max, "NULL"]).await
}

// Behaviour 2
#[tokio::test]
async fn a_page_beyond_the_readers_leave_entry_touches_no_entry() {
    let client = log_of(2, 35).await;
    client.batch_execute("UPDATE member SET joined_seq = 1, from_seq = 1, to_seq = 64").await.unwrap();
    assert_eq!(read(&client, 50, 50).await.rows_of("entry"), 14);
    for after in [64, 69, 70] {
        assert_eq!(read(&client, after, 50).await.rows_of("entry"), 0, "after {after}");
    }
}

// Behaviour 2, 14
#[tokio::test]
async fn a_page_touches_only_what_its_reader_may_see_and_no_more_than_it_needs() {
    let client = log_of(400, 10).await;
    // PostgreSQL sorts no fewer than 32 rows at a time, and finishes the interval it is in.
    assert!(read(&client, 0, 24).await.rows_of("entry") <= 32 + 10);
    assert!(read(&client, 2_005, 4).await.rows_of("entry") <= 32 + 10);
    assert!(read(&client, 0, 200).await.rows_of("entry") <= 201 + 32 + 10);
}

// Behaviour 14
#[tokio::test]
async fn what_a_page_costs_does_not_depend_on_how_often_its_reader_came_and_went() {
    let client = log_of(4_000, 2).await;
    for after in [0, 4, 3_999, 7_950] {
        let plan = read(&client, after, 10).await;
        assert!(plan.rows_of("member") <= 20, "{} after {after}", plan.rows_of("member"));
        assert!(plan.pages() <= 60, "{} after {after}", plan.pages());
    }
}

// Behaviour 9, 14
#[tokio::test]
async fn what_a_page_costs_does_not_depend_on_how_much_is_trimmed() {
    let client = log_of(4_000, 2).await;
    client.batch_execute("UPDATE feed SET min_seq = 7961; DELETE FROM entry WHERE seq < 7961").await.unwrap();
    let plan = read(&client, 0, 10).await;
    assert!(plan.rows_of("entry") <= 32 + 2, "{}", plan.rows_of("entry"));
    assert!(plan.pages() <= 60, "{}", plan.pages());
}

// Behaviour 2
#[tokio::test]
async fn a_page_costs_the_same_anywhere_in_a_long_log() {
    let client = log_of(2, 50_000).await;
    client.batch_execute("UPDATE member SET joined_seq = 1, from_seq = 1, to_seq = NULL").await.unwrap();
    let mut pages = Vec::new();
    for after in [0, 49_000, 99_900] {
        let plan = read(&client, after, 50).await;
        assert_eq!(plan.rows_of("entry"), 51);
        pages.push(plan.pages());
    }
    assert!(pages.iter().max() <= pages.iter().min().map(|fewest| fewest + 2).as_ref(), "{pages:?}");
}

// Behaviour 8
#[tokio::test]
async fn a_cursor_of_another_epoch_touches_no_entry() {
    let client = log_of(2, 10).await;
    let plan = carry_out(&client, USER_PAGE, &["'chat'", "'bob'", "0", "51", "2"]).await;
    assert_eq!(plan.rows_of("entry"), 0);
}
