//! What only PostgreSQL can do.

use gapless_tables::replicate::{Position, SinkError, Values};
use gapless_tables::{Column, CustomType, SourceName, TableDescription};

use crate::pages::{amounts, at, column, page_of};
use crate::target::{Target, notes};

#[tokio::test]
async fn rows_that_somebody_puts_into_a_first_copy_are_overwritten() {
    let target = Target::postgres().await;
    let mut sink = target.sink();
    let begin = sink.prepare(&binary()).await.unwrap();
    target.execute("INSERT INTO amounts VALUES (1, 'theirs')").await;
    let [one, two] = [1_i64, 2].map(i64::to_be_bytes);
    let rows = [
        (false, vec![Some(one.as_slice()), Some(b"one".as_slice())]),
        (false, vec![Some(&two), Some(b"two")]),
    ];
    let page = page_of(Values::Binary, "a", true, &rows);
    sink.apply(&page, &begin, &at("a")).await.unwrap();
    assert_eq!(target.amounts().await, notes(&[(1, "one"), (2, "two")]));
}

#[tokio::test]
async fn keys_that_are_equal_without_being_the_same_are_one() {
    let target = Target::postgres().await;
    let mut sink = target.sink();
    let mut description = amounts();
    description.columns[0].type_name = "numeric".to_owned();
    let mut position = sink.prepare(&description).await.unwrap();
    for (cursor, rows) in [
        ("a", vec![(false, vec![Some(b"1.0".as_slice()), None]), (false, vec![Some(b"1.00"), None])]),
        ("b", vec![(false, vec![Some(b"2.0".as_slice()), None]), (true, vec![Some(b"2.00"), None])]),
        ("c", vec![(false, vec![Some(b"1.000".as_slice()), None])]),
    ] {
        let page = page_of(Values::Binary, cursor, true, &rows);
        sink.apply(&page, &position, &at(cursor)).await.unwrap();
        position = at(cursor);
    }
    let Target::Postgres { sql, .. } = &target else { unreachable!() };
    let rows = sql.query("SELECT id::text FROM amounts", &[]).await.unwrap();
    let ids: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(ids, ["1.000"]);
}

#[tokio::test]
async fn copies_that_begin_at_the_same_time_make_what_they_share_once() {
    let target = Target::postgres().await;
    let mut begun = tokio::task::JoinSet::new();
    for n in 0..8 {
        let mut description = moods(&["sad", "ok"]);
        description.source.table = format!("Moods {n}");
        let mut sink = target.sink();
        begun.spawn(async move { sink.prepare(&description).await });
    }
    for begun in begun.join_all().await {
        assert_eq!(begun.unwrap(), Position::of_a_new_table());
    }
}

#[tokio::test]
async fn schemas_and_types_are_made_and_labels_that_are_new_are_added() {
    let target = Target::postgres().await;
    let mut sink = target.sink();
    sink.prepare(&moods(&["sad", "ok"])).await.unwrap();
    let position = sink.prepare(&moods(&["sad", "so-so", "ok"])).await.unwrap();
    let row = (false, vec![Some(b"1".as_slice()), Some(b"so-so".as_slice()), Some(b"{7,NULL}")]);
    let page = page_of(Values::Binary, "a", false, &[row]);
    sink.apply(&page, &position, &at("a")).await.unwrap();
    let Target::Postgres { sql, .. } = &target else { unreachable!() };
    let row = sql.query_one(r#"SELECT mood < 'ok', counts::text FROM "Shop"."Moods""#, &[]).await.unwrap();
    assert_eq!((row.get(0), row.get(1)), (true, "{7,NULL}"));

    let mut other = moods(&["sad", "so-so", "ok"]);
    other.types[1] = positive("CHECK ((VALUE > 1))");
    let refused = sink.prepare(&other).await.unwrap_err().to_string();
    assert!(refused.contains("\"Shop\".\"Positive\""), "{refused}");
}

#[tokio::test]
async fn a_table_that_is_a_source_itself_is_refused() {
    let target = Target::postgres().await;
    target.execute("CREATE TABLE amounts (id bigint PRIMARY KEY, note text, gapless_xid xid8)").await;
    let refused = target.sink().prepare(&amounts()).await;
    assert!(matches!(&refused, Err(SinkError::Refused(why)) if why.contains("as a source")), "{refused:?}");
}

// Table behaviour 11
#[tokio::test]
async fn a_read_only_target_is_tried_again_and_a_vanished_table_is_looked_up() {
    let target = Target::postgres().await;
    let mut sink = target.sink();
    let begin = sink.prepare(&amounts()).await.unwrap();
    let page = page_of(Values::Binary, "a", true, &[(false, vec![Some(b"1".as_slice()), None])]);
    let name = "current_database()";
    target
        .execute(&format!(
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', {name}); END $$;
             SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = {name} AND pid <> pg_backend_pid()"
        ))
        .await;
    assert!(sink.apply(&page, &begin, &at("a")).await.unwrap_err().is_retryable());
    assert!(sink.prepare(&amounts()).await.unwrap_err().is_retryable());
    assert!(target.amounts().await.is_empty());
    target
        .execute(&format!(
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I RESET default_transaction_read_only', {name}); END $$"
        ))
        .await;
    assert_eq!(sink.prepare(&amounts()).await.unwrap(), begin);

    target.execute("DROP TABLE amounts").await;
    assert!(sink.apply(&page, &begin, &at("a")).await.unwrap_err().is_retryable());
    assert!(!sink.prepare(&amounts()).await.unwrap_err().is_retryable());
}

#[tokio::test]
async fn a_second_replicator_is_refused() {
    let target = Target::postgres().await;
    let mut first = target.sink();
    let position = first.prepare(&amounts()).await.unwrap();
    assert_eq!(position, Position::of_a_new_table());
    let second = target.sink().prepare(&amounts()).await;
    assert!(matches!(&second, Err(SinkError::InUse(table)) if table.contains("amounts")), "{second:?}");
}

/// The table of amounts, with values in their binary form.
fn binary() -> TableDescription {
    let mut description = amounts();
    for column in &mut description.columns {
        column.binary = true;
    }
    description
}

fn moods(labels: &[&str]) -> TableDescription {
    let labels = labels.iter().map(|label| (*label).to_owned()).collect();
    TableDescription {
        source: SourceName { schema: "Shop".to_owned(), table: "Moods".to_owned() },
        columns: vec![
            column("id", "bigint", true),
            column("mood", "\"Shop\".\"Mood\"", false),
            Column { name: "counts".to_owned(), ..column("", "\"Shop\".\"Positive\"[]", false) },
        ],
        types: vec![
            CustomType::Enum { name: "\"Shop\".\"Mood\"".to_owned(), labels },
            positive("CHECK ((VALUE > 0))"),
        ],
        ..amounts()
    }
}

fn positive(check: &str) -> CustomType {
    CustomType::Domain {
        name: "\"Shop\".\"Positive\"".to_owned(),
        base: "integer".to_owned(),
        checks: vec![check.to_owned()],
        not_null: false,
    }
}
