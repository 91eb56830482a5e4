use gapless_proto::{Epoch, Seq};

use super::*;

fn conv(name: &str) -> ConvId {
    ConvId::new(name).unwrap()
}

fn position(seq: u64) -> Position {
    Position { epoch: Epoch::new(1).unwrap(), seq: Seq::new(seq).unwrap() }
}

fn delivery(queued_frames_max: usize, queued_bytes_max: usize) -> Delivery<u64> {
    Delivery::new(DeliveryConfig { queued_frames_max, queued_bytes_max })
}

fn drain(delivery: &mut Delivery<u64>) -> Vec<Outgoing<u64>> {
    std::iter::from_fn(|| delivery.poll_outgoing()).collect()
}

fn hint(name: &str, seq: u64) -> Outgoing<u64> {
    Outgoing::Hint { conv: conv(name), position: position(seq) }
}

#[test]
fn entries_go_out_in_the_order_in_which_they_came() {
    let mut delivery = delivery(3, 100);
    for seq in 1..=3 {
        delivery.handle_event(conv("a"), position(seq), seq, 1);
    }
    assert_eq!(drain(&mut delivery), [Outgoing::Event(1), Outgoing::Event(2), Outgoing::Event(3)]);
}

// Behaviour 18
#[test]
fn an_overflow_drops_the_whole_queue_and_leaves_one_hint_a_conversation() {
    let mut delivery = delivery(3, 100);
    for seq in 1..=3 {
        delivery.handle_event(conv("a"), position(seq), seq, 1);
    }
    delivery.handle_event(conv("b"), position(9), 9, 1);
    for seq in 4..=100_000 {
        delivery.handle_event(conv("a"), position(seq), seq, 1);
    }
    assert_eq!(drain(&mut delivery), [hint("a", 100_000), hint("b", 9)]);
    assert_eq!(delivery.overflows(), 1);
}

#[test]
fn many_bytes_overflow_like_many_frames() {
    let mut delivery = delivery(1_000, 10);
    delivery.handle_event(conv("a"), position(1), 1, 6);
    delivery.handle_event(conv("a"), position(2), 2, 6);
    assert_eq!(drain(&mut delivery), [hint("a", 2)]);
}

#[test]
fn what_was_taken_no_longer_counts() {
    let mut delivery = delivery(1_000, 10);
    for seq in 1..=100 {
        delivery.handle_event(conv("a"), position(seq), seq, 6);
        assert_eq!(drain(&mut delivery), [Outgoing::Event(seq)]);
    }
}

#[test]
fn a_conversation_is_pushed_again_once_its_hint_was_taken() {
    let mut delivery = delivery(1, 100);
    delivery.handle_event(conv("a"), position(1), 1, 1);
    delivery.handle_event(conv("a"), position(2), 2, 1);
    assert_eq!(drain(&mut delivery), [hint("a", 2)]);
    delivery.handle_event(conv("a"), position(3), 3, 1);
    assert_eq!(drain(&mut delivery), [Outgoing::Event(3)]);
}

#[test]
fn hints_coalesce_to_the_newest_and_never_go_back() {
    let mut delivery = delivery(1, 100);
    for seq in [4, 9, 7] {
        delivery.handle_hint(conv("a"), position(seq));
    }
    assert_eq!(drain(&mut delivery), [hint("a", 9)]);
    assert!(delivery.is_empty());
}
