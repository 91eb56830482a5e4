use gapless_proto::{BlockNumber, Body, EventType, ValueKey};

use super::*;

#[test]
fn what_is_held_is_compared_with_what_is_canonical() {
    let mut fold = Fold::default();
    for told in [event(1, 0), event(2, 1), event(3, 2)] {
        fold.take(&told).unwrap();
    }
    let canonical = [held(1, 0), held(2, 1), held(3, 2)];
    assert_eq!((fold.missing(&canonical), fold.wrong(&canonical)), (0, 0));

    let reorganised = [held(1, 0), held(2, 3)];
    assert_eq!((fold.missing(&reorganised), fold.wrong(&reorganised)), (1, 2));
    fold.take(&Told::Revoke(cursor(1))).unwrap();
    fold.take(&event(2, 3)).unwrap();
    assert_eq!((fold.missing(&reorganised), fold.wrong(&reorganised)), (0, 0));
}

#[test]
fn an_event_that_is_told_twice_is_counted_and_held_once() {
    let mut fold = Fold::default();
    fold.take(&event(1, 0)).unwrap();
    fold.take(&event(1, 0)).unwrap();
    assert_eq!((fold.doubles(), fold.held().len()), (1, 1));
}

#[test]
fn a_snapshot_stands_for_the_events_that_it_has_values_of() {
    let mut fold = Fold::default();
    fold.take(&snapshot(2, &[0])).unwrap();
    let canonical = [held(1, 0), held(2, 1), held(3, 2)];
    assert_eq!(fold.missing(&canonical), 2, "one that it should have, and one after it");
    fold.take(&snapshot(2, &[0, 1, 9])).unwrap();
    assert_eq!((fold.missing(&canonical), fold.wrong(&canonical)), (1, 1));
    fold.take(&event(2, 1)).unwrap();
    assert_eq!(fold.doubles(), 1, "an event that it stands for");
}

fn held(block: u64, number: u64) -> Held {
    Held { point: ChainPoint { block: BlockNumber::new(block).unwrap(), log: 0 }, number }
}

fn cursor(block: u64) -> Cursor {
    Cursor::new(&format!("1:{block}:0:{block}")).unwrap()
}

fn event(block: u64, number: u64) -> Told {
    Told::Event(Box::new(TopicEvent {
        sub: gapless_proto::Sub::new(1),
        cursor: cursor(block),
        kind: EventType::Log,
        topic: topic().unwrap(),
        payload: Body::from_value(&serde_json::json!({ "number": number, "mined_at": 0 })).unwrap(),
        values: std::collections::BTreeMap::new(),
        block: None,
        time: None,
    }))
}

fn snapshot(block: u64, numbers: &[u64]) -> Told {
    let value =
        |number: &u64| (ValueKey::new(&number.to_string()).unwrap(), Body::from_value(number).unwrap());
    let values = numbers.iter().map(value).collect();
    Told::Snapshot(Snapshot {
        sub: gapless_proto::Sub::new(1),
        cursor: cursor(block),
        state: [(topic().unwrap(), values)].into(),
        has_more: false,
    })
}
