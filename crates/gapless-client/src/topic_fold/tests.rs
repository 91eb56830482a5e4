use gapless_proto::{EventType, Snapshot, Sub};
use proptest::prelude::*;

use super::*;

fn cursor(block: u64, log: u32) -> Cursor {
    Cursor::new(&format!("1:{block}:{log}:0")).unwrap()
}

fn topic() -> Topic {
    Topic::new("chain:1:a").unwrap()
}

fn key(name: &str) -> ValueKey {
    ValueKey::new(name).unwrap()
}

fn number(number: u64) -> Body {
    Body::from_text(number.to_string()).unwrap()
}

/// An event that makes a value of a key what it is.
fn event(block: u64, log: u32, name: &str, value: u64) -> TopicsTold {
    TopicsTold::Event(Box::new(TopicEvent {
        sub: Sub::new(1),
        cursor: cursor(block, log),
        kind: EventType::Log,
        topic: topic(),
        payload: number(value),
        values: BTreeMap::from([(key(name), number(value))]),
        block: None,
        time: None,
    }))
}

fn revoke(block: u64, log: u32) -> TopicsTold {
    TopicsTold::Revoke { cursor: cursor(block, log) }
}

fn snapshot(block: u64, name: &str, value: u64, has_more: bool) -> TopicsTold {
    let state = BTreeMap::from([(topic(), BTreeMap::from([(key(name), number(value))]))]);
    TopicsTold::Snapshot(Snapshot { sub: Sub::new(1), cursor: cursor(block, 0), state, has_more })
}

fn folded(told: &[TopicsTold]) -> TopicFold {
    let mut fold = TopicFold::new(100);
    told.iter().for_each(|told| fold.handle(told).unwrap());
    fold
}

fn value(fold: &TopicFold, name: &str) -> Option<u64> {
    fold.value(&topic(), &key(name)).map(|value| value.as_str().parse().unwrap())
}

fn payloads(fold: &TopicFold) -> Vec<u64> {
    fold.events().map(|event| event.payload.as_str().parse().unwrap()).collect()
}

// Chain behaviours 7, 15
#[test]
fn a_revoke_takes_events_back_and_values_are_what_they_were_before() {
    let mut fold =
        folded(&[event(1, 0, "x", 1), event(2, 0, "x", 2), event(2, 1, "y", 3), event(3, 0, "x", 4)]);
    fold.handle(&revoke(2, 0)).unwrap();
    assert_eq!(payloads(&fold), [1, 2]);
    assert_eq!((value(&fold, "x"), value(&fold, "y")), (Some(2), None));
    fold.handle(&event(3, 0, "x", 5)).unwrap();
    assert_eq!(value(&fold, "x"), Some(5));
}

// Chain behaviour 8
#[test]
fn the_same_place_may_hold_another_event_after_a_revoke() {
    let fold = folded(&[event(2, 0, "x", 1), revoke(1, 0), event(2, 0, "x", 2)]);
    assert_eq!((payloads(&fold), value(&fold, "x")), (vec![2], Some(2)));
}

#[test]
fn a_snapshot_in_parts_replaces_all_that_was_there() {
    let mut fold = folded(&[event(1, 0, "old", 1), snapshot(5, "x", 2, true), snapshot(5, "y", 3, false)]);
    assert_eq!((value(&fold, "old"), value(&fold, "x"), value(&fold, "y")), (None, Some(2), Some(3)));
    fold.handle(&event(6, 0, "x", 7)).unwrap();
    fold.handle(&revoke(5, 0)).unwrap();
    assert_eq!(value(&fold, "x"), Some(2));
    assert_eq!(fold.handle(&revoke(4, 0)), Err(FoldError::TooDeep), "it reaches into the snapshot");
    assert_eq!(fold.values().count(), 0);
}

#[test]
fn a_part_of_a_snapshot_that_was_cut_off_is_not_mixed_with_the_next() {
    let begun = TopicsTold::Begun { cursor: cursor(5, 0) };
    let fold = folded(&[snapshot(5, "x", 2, true), begun, snapshot(6, "y", 3, false)]);
    assert_eq!((value(&fold, "x"), value(&fold, "y")), (None, Some(3)));
}

#[test]
fn a_reset_voids_everything_unless_the_reader_was_only_slow() {
    let mut fold = folded(&[event(1, 0, "x", 1), TopicsTold::Reset(TopicResetReason::SlowConsumer)]);
    assert_eq!(value(&fold, "x"), Some(1));
    fold.handle(&TopicsTold::Reset(TopicResetReason::CursorExpired)).unwrap();
    assert_eq!((payloads(&fold), value(&fold, "x")), (vec![], None));
}

#[test]
fn what_is_forgotten_leaves_its_values_and_can_not_be_undone() {
    let mut fold = TopicFold::new(2);
    for block in 1..=4 {
        fold.handle(&event(block, 0, "x", block)).unwrap();
    }
    fold.handle(&event(5, 0, "y", 5)).unwrap();
    assert_eq!((payloads(&fold), value(&fold, "x")), (vec![4, 5], Some(4)));
    fold.handle(&revoke(3, 0)).unwrap();
    assert_eq!((payloads(&fold), value(&fold, "x"), value(&fold, "y")), (vec![], Some(3), None));
    assert_eq!(fold.handle(&revoke(2, 0)), Err(FoldError::TooDeep));
}

proptest! {
    // Chain behaviours 1, 15
    #[test]
    fn what_it_holds_is_what_was_told_and_not_taken_back(
        acts in prop::collection::vec(prop_oneof![3 => (0..3_u32, 0..3_u8).prop_map(Ok), 1 => (0..5_u64).prop_map(Err)], 1..60)
    ) {
        // What is true, kept in the simplest way.
        let mut truth: Vec<(u64, u32, String, u64)> = Vec::new();
        let mut fold = TopicFold::new(1_000);
        let mut block = 1;
        for (nth, act) in (0..).zip(acts) {
            match act {
                Ok((log, name)) => {
                    block += 1;
                    let name = format!("k{name}");
                    truth.push((block, log, name.clone(), nth));
                    fold.handle(&event(block, log, &name, nth)).unwrap();
                }
                Err(depth) => {
                    block = block.saturating_sub(depth);
                    truth.retain(|(place, ..)| *place <= block);
                    fold.handle(&revoke(block, u32::MAX)).unwrap();
                }
            }
            let told: Vec<u64> = truth.iter().map(|(.., payload)| *payload).collect();
            prop_assert_eq!(payloads(&fold), told);
            for name in ["k0", "k1", "k2"] {
                let newest = truth.iter().rev().find(|(_, _, key, _)| key == name).map(|(.., value)| *value);
                prop_assert_eq!(value(&fold, name), newest);
            }
        }
    }
}
