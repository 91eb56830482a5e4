//! What every target keeps.

use gapless_tables::replicate::{Misfit, Position, SinkError, Values};
use gapless_tables::{Column, TableDescription};

use crate::pages::Change::{Delete, Put};
use crate::pages::{amounts, at, column, page};
use crate::target::{Target, notes};

#[tokio::test]
async fn a_page_and_its_position_are_there_together() {
    for target in Target::all().await {
        let mut sink = target.sink();
        let begin = sink.prepare(&amounts()).await.unwrap();
        assert_eq!(begin, Position::of_a_new_table());
        let first = page(sink.values(), "a", true, &[Put("1", "one"), Put("2", "two")]);
        sink.apply(&first, &begin, &begin.after(&first.head)).await.unwrap();
        drop(sink);

        let mut sink = target.sink();
        let position = sink.prepare(&amounts()).await.unwrap();
        assert_eq!(position, Position { is_filling: true, ..at("a") });
        let last = page(sink.values(), "b", false, &[Put("2", "zwei"), Delete("1")]);
        sink.apply(&last, &position, &position.after(&last.head)).await.unwrap();
        drop(sink);
        assert_eq!(target.amounts().await, notes(&[(2, "zwei")]));
        assert_eq!(target.sink().prepare(&amounts()).await.unwrap(), at("b"));
    }
}

#[tokio::test]
async fn the_last_record_of_a_key_counts() {
    for target in Target::all().await {
        let mut sink = target.sink();
        let begin = sink.prepare(&amounts()).await.unwrap();
        let changes = [
            [Put("1", "a"), Put("1", "b"), Put("2", "c")].as_slice(),
            &[Put("3", "d"), Delete("3"), Delete("2"), Put("2", "e")],
            &[Delete("1"), Put("1", "f"), Delete("1"), Put("4", "g"), Delete("9")],
        ];
        let mut position = begin;
        for (changes, cursor) in changes.into_iter().zip(["a", "b", "c"]) {
            let page = page(sink.values(), cursor, true, changes);
            let next = position.after(&page.head);
            sink.apply(&page, &position, &next).await.unwrap();
            position = next;
        }
        assert_eq!(target.amounts().await, notes(&[(2, "e"), (4, "g")]));
    }
}

#[tokio::test]
async fn a_page_that_was_asked_for_from_elsewhere_is_refused() {
    for target in Target::all().await {
        let mut sink = target.sink();
        let begin = sink.prepare(&amounts()).await.unwrap();
        let first = page(sink.values(), "a", true, &[Put("1", "one")]);
        sink.apply(&first, &begin, &at("a")).await.unwrap();
        let again = sink.apply(&first, &begin, &at("b")).await;
        assert!(matches!(again, Err(SinkError::InUse(_))), "{again:?}");
        assert_eq!(sink.prepare(&amounts()).await.unwrap(), at("a"));
        let replay = at("a").replaying("monday");
        sink.note(&at("a"), &replay).await.unwrap();
        assert!(sink.note(&at("a"), &replay).await.is_err());
        assert_eq!(sink.prepare(&amounts()).await.unwrap(), replay);
    }
}

// Table behaviour 11
#[tokio::test]
async fn a_page_that_breaks_in_the_middle_leaves_nothing() {
    for target in Target::all().await {
        let mut sink = target.sink();
        let begin = sink.prepare(&amounts()).await.unwrap();
        let broken = page(sink.values(), "a", true, &[Put("1", "one"), Put("x", "broken")]);
        let failed = sink.apply(&broken, &begin, &at("a")).await.unwrap_err();
        assert!(!failed.is_retryable(), "{failed}");
        assert!(target.amounts().await.is_empty());
        assert_eq!(sink.prepare(&amounts()).await.unwrap(), begin);
    }
}

#[tokio::test]
async fn a_new_column_is_added_and_all_rows_come_once_more() {
    for target in Target::all().await {
        let mut sink = target.sink();
        let begin = sink.prepare(&amounts()).await.unwrap();
        let first = page(sink.values(), "a", false, &[Put("1", "one")]);
        sink.apply(&first, &begin, &at("a")).await.unwrap();
        let position = sink.prepare(&with(column("extra", "integer", false))).await.unwrap();
        let (replay, cursor) = (position.replay.as_ref().unwrap(), position.cursor.as_deref());
        assert_eq!((replay.since.as_str(), position.next_cursor(), cursor), ("-infinity", None, Some("a")));
        let unchanged = sink.prepare(&with(column("extra", "integer", false))).await.unwrap();
        assert_eq!(unchanged, position);
    }
}

#[tokio::test]
async fn a_change_that_the_target_keeps_alike_makes_all_rows_come_once_more_too() {
    for target in Target::all().await {
        let mut sink = target.sink();
        let begin = sink.prepare(&amounts()).await.unwrap();
        sink.apply(&page(sink.values(), "a", false, &[Put("1", "one")]), &begin, &at("a")).await.unwrap();
        let other = TableDescription { schema_version: "2".to_owned(), ..amounts() };
        let position = sink.prepare(&other).await.unwrap();
        assert_eq!((position.next_cursor(), position.cursor.as_deref()), (None, Some("a")));
    }
}

#[tokio::test]
async fn a_change_that_can_not_be_followed_stops_with_the_column() {
    for target in Target::all().await {
        let mut sink = target.sink();
        sink.prepare(&amounts()).await.unwrap();
        let added = sink.prepare(&with(column("extra", "integer", true))).await;
        assert!(
            matches!(&added, Err(SinkError::Misfit(Misfit::Lacks(name))) if name == "extra"),
            "{added:?}"
        );
        let mut other = amounts();
        other.columns[1].type_name = "bytea".to_owned();
        let other = sink.prepare(&other).await;
        let is_named =
            |misfit: &Misfit| matches!(misfit, Misfit::OtherType { column, .. } if column == "note");
        assert!(matches!(&other, Err(SinkError::Misfit(misfit)) if is_named(misfit)), "{other:?}");
        let mut fewer = amounts();
        fewer.columns.truncate(1);
        let fewer = sink.prepare(&fewer).await;
        assert!(
            matches!(&fewer, Err(SinkError::Misfit(Misfit::Dropped(name))) if name == "note"),
            "{fewer:?}"
        );
    }
}

#[tokio::test]
async fn a_table_with_rows_of_somebody_else_is_refused_and_an_empty_one_that_fits_is_taken() {
    for target in Target::all().await {
        let bigint = if matches!(target, Target::Sqlite { .. }) { "INTEGER" } else { "bigint" };
        let table = format!("CREATE TABLE amounts (id {bigint} NOT NULL PRIMARY KEY, note TEXT)");
        target.execute(&table).await;
        target.execute("INSERT INTO amounts VALUES (7, 'theirs')").await;
        let mut sink = target.sink();
        let refused = sink.prepare(&amounts()).await;
        assert!(matches!(&refused, Err(SinkError::Refused(why)) if why.contains("has rows")), "{refused:?}");
        target.execute("DELETE FROM amounts").await;
        assert_eq!(sink.prepare(&amounts()).await.unwrap(), Position::default());
    }
}

#[tokio::test]
async fn a_copy_that_was_dropped_or_is_of_another_table_is_refused_with_what_to_do() {
    for target in Target::all().await {
        let mut sink = target.sink();
        sink.prepare(&amounts()).await.unwrap();
        let other = TableDescription { table: "others".to_owned(), ..amounts() };
        let refused = sink.prepare(&other).await;
        assert!(
            matches!(&refused, Err(SinkError::Refused(why)) if why.contains("copy of `amounts`")),
            "{refused:?}"
        );
        target.execute("DROP TABLE amounts").await;
        let Err(SinkError::Refused(why)) = sink.prepare(&amounts()).await else { panic!("it was dropped") };
        let remedy = why.split('`').find(|part| part.starts_with("DELETE")).unwrap();
        target.execute(remedy).await;
        assert_eq!(sink.prepare(&amounts()).await.unwrap(), Position::of_a_new_table());
    }
}

#[tokio::test]
async fn a_copy_can_begin_anew() {
    for target in Target::all().await {
        let mut sink = target.sink();
        let begin = sink.prepare(&amounts()).await.unwrap();
        let first = page(sink.values(), "a", false, &[Put("1", "one")]);
        sink.apply(&first, &begin, &at("a")).await.unwrap();
        sink.clear().await.unwrap();
        assert_eq!(sink.prepare(&amounts()).await.unwrap(), begin);
        assert!(target.amounts().await.is_empty());
    }
}

#[tokio::test]
async fn an_empty_page_moves_the_position() {
    for target in Target::all().await {
        let mut sink = target.sink();
        let begin = sink.prepare(&amounts()).await.unwrap();
        let empty = page(sink.values(), "a", false, &[]);
        sink.apply(&empty, &begin, &begin.after(&empty.head)).await.unwrap();
        assert_eq!(sink.prepare(&amounts()).await.unwrap(), at("a"));
    }
}

#[test]
fn each_kind_of_target_says_how_it_wants_its_values() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let [postgres, sqlite] = runtime.block_on(Target::all());
    let values = runtime.block_on(async { [postgres.sink().values(), sqlite.sink().values()] });
    assert_eq!(values, [Values::Binary, Values::Text]);
}

fn with(column: Column) -> TableDescription {
    let mut description = TableDescription { schema_version: "2".to_owned(), ..amounts() };
    description.columns.push(column);
    description
}
