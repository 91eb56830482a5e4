//! Copies that are mended beside whoever fills them.

use gapless_tables::KeyRange;
use gapless_tables::replicate::{Fault, SinkError};

use crate::pages::Change::{Delete, Put};
use crate::pages::{amounts, at, page};
use crate::target::{Target, notes};

#[tokio::test]
async fn a_page_that_was_asked_for_before_a_repair_is_asked_for_again() {
    for target in Target::all().await {
        let mut sink = target.sink();
        let begin = sink.prepare(&amounts()).await.unwrap();
        let first = page(sink.values(), "a", false, &[Put("1", "old"), Put("2", "two")]);
        sink.apply(&first, &begin, &at("a")).await.unwrap();
        let asked_before = page(sink.values(), "b", false, &[Put("1", "older"), Put("2", "two")]);

        let mut copy = target.copy();
        copy.open(&amounts()).await.unwrap();
        let rows = page(copy.values(), "", false, &[Put("1", "new"), Delete("2"), Put("3", "three")]).records;
        assert_eq!(copy.mend(Box::pin(async { Ok(rows) })).await.unwrap(), 3);

        let refused = sink.apply(&asked_before, &at("a"), &at("b")).await.unwrap_err();
        assert!(matches!(refused, SinkError::Repaired) && refused.is_retryable(), "{refused}");
        assert_eq!(target.amounts().await, notes(&[(1, "new"), (3, "three")]));
        let position = sink.prepare(&amounts()).await.unwrap();
        assert_eq!((position.repairs, position.next_cursor()), (1, Some("a")));
        let asked_again = page(sink.values(), "b", false, &[Put("1", "newest")]);
        sink.apply(&asked_again, &position, &position.after(&asked_again.head)).await.unwrap();
        assert_eq!(target.amounts().await, notes(&[(1, "newest"), (3, "three")]));
    }
}

#[tokio::test]
async fn a_repair_whose_rows_do_not_come_changes_nothing_and_holds_nobody_up() {
    for target in Target::all().await {
        let mut sink = target.sink();
        let begin = sink.prepare(&amounts()).await.unwrap();
        let mut copy = target.copy();
        copy.open(&amounts()).await.unwrap();
        let failed = async { Err(Fault::Target(SinkError::Refused("no rows".to_owned()))) };
        copy.mend(Box::pin(failed)).await.unwrap_err();
        let first = page(sink.values(), "a", false, &[Put("1", "one")]);
        sink.apply(&first, &begin, &begin.after(&first.head)).await.unwrap();
        assert_eq!(target.amounts().await, notes(&[(1, "one")]));
    }
}

#[tokio::test]
async fn all_copies_have_the_same_digests() {
    let mut digests = Vec::new();
    for target in Target::all().await {
        let mut sink = target.sink();
        let begin = sink.prepare(&amounts()).await.unwrap();
        let changes = [Put("-7", "a:1"), Put("2", ""), Put("10", "N"), Put("9", "naïve")];
        let first = page(sink.values(), "a", false, &changes);
        sink.apply(&first, &begin, &at("a")).await.unwrap();
        let mut copy = target.copy();
        copy.open(&amounts()).await.unwrap();
        let key = |key: &str| vec![key.to_owned()];
        let range = KeyRange { after: Some(key("-7")), up_to: Some(key("10")) };
        let rows = copy.row_digests(&range, 2).await.unwrap();
        assert_eq!(rows.iter().map(|row| row.key[0].as_str()).collect::<Vec<_>>(), ["2", "9"]);
        let keys = [key("3"), key("10"), key("2")];
        let (position, mut looked) = copy.look(&keys).await.unwrap();
        assert_eq!(position.next_cursor(), Some("a"));
        looked.sort_by(|one, other| one.key.cmp(&other.key));
        digests.push((copy.digest(&range).await.unwrap(), rows, looked));
    }
    assert_eq!(digests[0], digests[1]);
    assert_eq!(digests[0].0.rows, 3);
}

#[tokio::test]
async fn what_is_no_copy_is_refused() {
    for target in Target::all().await {
        drop(target.sink());
        target.execute("CREATE TABLE amounts (id bigint PRIMARY KEY, note text)").await;
        let refused = target.copy().open(&amounts()).await.unwrap_err().to_string();
        assert!(refused.contains("no copy that `gapless replicate` has made"), "{refused}");
    }
}
