use super::*;

fn conv() -> ConvId {
    ConvId::new("c").unwrap()
}

fn user(name: &str) -> UserId {
    UserId::new(name).unwrap()
}

fn message(sender: &str, key: &str, body: &str) -> Append {
    let operation = Operation::Message {
        sender: user(sender),
        key: Key::new(key).unwrap(),
        body: Body::from_text(body.to_owned()).unwrap(),
    };
    Append { conv: conv(), authority: Authority::Member, operation }
}

fn join(who: &str, by: &str) -> Append {
    Append {
        conv: conv(),
        authority: Authority::Member,
        operation: Operation::Join { user: user(who), by: user(by) },
    }
}

fn leave(who: &str, by: &str) -> Append {
    Append {
        conv: conv(),
        authority: Authority::Member,
        operation: Operation::Leave { user: user(who), by: user(by) },
    }
}

fn service(append: Append) -> Append {
    Append { authority: Authority::Service, ..append }
}

/// A conversation that alice has created and is in, at seq 1.
fn batch(history: History) -> AppendBatch {
    let epoch = Epoch::new(7).unwrap();
    let feed = FeedState::created(epoch, history, user("alice"));
    let mut batch = AppendBatch::new(Timestamp::new(1_000).unwrap(), BTreeMap::from([(conv(), feed)]));
    batch.push(&service(join("alice", "alice"))).unwrap();
    batch
}

fn seq_of(outcome: AppendOutcome) -> u64 {
    outcome.unwrap().position.seq.get()
}

fn visible(batch: &AppendBatch, who: &str) -> Vec<(u64, Option<u64>)> {
    let rows = batch.memberships().filter(|(_, member, _)| **member == user(who));
    rows.map(|(_, _, row)| (row.visible.from.get(), row.visible.to.map(Seq::get))).collect()
}

#[test]
fn seqs_are_contiguous_in_the_order_of_arrival() {
    let mut batch = batch(History::FromJoin);
    assert_eq!(seq_of(batch.push(&message("alice", "a", "1"))), 2);
    assert_eq!(seq_of(batch.push(&join("bob", "alice"))), 3);
    assert_eq!(seq_of(batch.push(&message("bob", "a", "2"))), 4);
    let seqs: Vec<_> = batch.entries().iter().map(|(_, entry)| entry.seq.get()).collect();
    assert_eq!(seqs, [1, 2, 3, 4]);
    assert_eq!(
        batch.changed_feeds().map(|(_, row)| (row.head.get(), row.members)).collect::<Vec<_>>(),
        [(4, 2)]
    );
}

// Behaviour 10
#[test]
fn the_same_key_twice_in_one_batch_is_stored_once() {
    let mut batch = batch(History::FromJoin);
    let first = batch.push(&message("alice", "a", "1")).unwrap();
    let again = batch.push(&message("alice", "a", "1")).unwrap();
    assert_eq!((again.position, again.duplicate), (first.position, true));
    assert_eq!(batch.entries().len(), 2);
}

// Behaviour 10
#[test]
fn a_key_with_other_content_is_a_conflict_and_uses_no_seq() {
    let mut batch = batch(History::FromJoin);
    batch.push(&message("alice", "a", "1")).unwrap();
    let conflict = batch.push(&message("alice", "a", "2"));
    assert_eq!(conflict, Err(AppendRefusal::KeyConflict { seq: Seq::new(2).unwrap() }));
    assert_eq!(seq_of(batch.push(&message("alice", "b", "2"))), 3);
}

#[test]
fn a_key_is_recognised_after_its_entry_was_trimmed() {
    let body = Body::from_text("1".to_owned()).unwrap();
    let stored = StoredKey {
        seq: Seq::new(2).unwrap(),
        ts: Timestamp::new(5).unwrap(),
        content: StoredContent::Digest(StoredContent::digest(&body)),
    };
    let mut batch = batch(History::FromJoin);
    batch.feed_mut(&conv()).keys.insert((user("alice"), Key::new("a").unwrap()), stored);
    assert_eq!(seq_of(batch.push(&message("alice", "a", "1"))), 2);
    assert!(matches!(batch.push(&message("alice", "a", "2")), Err(AppendRefusal::KeyConflict { .. })));
}

// Behaviour 13
#[test]
fn a_send_is_before_the_leave_entry_or_refused() {
    let mut batch = batch(History::FromJoin);
    batch.push(&join("bob", "alice")).unwrap();
    assert_eq!(seq_of(batch.push(&message("bob", "a", "1"))), 3);
    assert_eq!(seq_of(batch.push(&leave("bob", "alice"))), 4);
    assert_eq!(batch.push(&message("bob", "b", "1")), Err(AppendRefusal::NoLongerMember));
}

#[test]
fn a_send_that_was_stored_before_the_removal_is_still_answered() {
    let mut batch = batch(History::FromJoin);
    batch.push(&join("bob", "alice")).unwrap();
    batch.push(&message("bob", "a", "1")).unwrap();
    batch.push(&leave("bob", "alice")).unwrap();
    assert!(batch.push(&message("bob", "a", "1")).unwrap().duplicate);
}

// Behaviour 14
#[test]
fn leaving_and_coming_back_makes_one_interval_each() {
    let mut batch = batch(History::FromJoin);
    for step in [join("bob", "alice"), leave("bob", "bob"), message("alice", "x", "1"), join("bob", "bob")] {
        batch.push(&step).unwrap();
    }
    assert_eq!(visible(&batch, "bob"), [(2, Some(3)), (5, None)]);
}

// Behaviour 14
#[test]
fn under_full_history_the_intervals_touch_and_never_overlap() {
    let mut batch = batch(History::All);
    for step in [join("bob", "alice"), leave("bob", "bob"), message("alice", "x", "1"), join("bob", "bob")] {
        batch.push(&step).unwrap();
    }
    assert_eq!(visible(&batch, "bob"), [(1, Some(3)), (4, None)]);
}

#[test]
fn a_stranger_can_not_tell_a_foreign_conversation_from_none() {
    let mut batch = batch(History::FromJoin);
    let elsewhere = Append { conv: ConvId::new("none").unwrap(), ..message("eve", "a", "1") };
    for append in
        [elsewhere, message("eve", "a", "1"), join("eve", "eve"), join("alice", "eve"), leave("alice", "eve")]
    {
        assert_eq!(batch.push(&append), Err(AppendRefusal::NotFound), "{append:?}");
    }
}

#[test]
fn who_was_removed_can_not_come_back_by_themselves() {
    let mut batch = batch(History::FromJoin);
    batch.push(&join("bob", "alice")).unwrap();
    batch.push(&leave("bob", "alice")).unwrap();
    assert_eq!(batch.push(&join("bob", "bob")), Err(AppendRefusal::NoLongerMember));
}

#[test]
fn only_the_creator_and_backends_remove_others() {
    let mut batch = batch(History::FromJoin);
    batch.push(&join("bob", "alice")).unwrap();
    batch.push(&join("carol", "bob")).unwrap();
    assert_eq!(batch.push(&leave("carol", "bob")), Err(AppendRefusal::NotAllowed));
    assert!(batch.push(&leave("carol", "alice")).is_ok());
    assert!(batch.push(&service(leave("bob", "backend"))).is_ok());
}

#[test]
fn who_may_remove_others_learns_that_somebody_never_was_there() {
    let mut batch = batch(History::FromJoin);
    batch.push(&join("bob", "alice")).unwrap();
    for removal in [leave("eve", "alice"), service(leave("eve", "backend"))] {
        assert_eq!(batch.push(&removal), Err(AppendRefusal::NeverMember), "{removal:?}");
    }
    assert_eq!(batch.push(&leave("eve", "bob")), Err(AppendRefusal::NotAllowed));
}

#[test]
fn adding_a_member_or_leaving_twice_adds_no_entry() {
    let mut batch = batch(History::FromJoin);
    let joined = batch.push(&join("bob", "alice")).unwrap();
    let again = batch.push(&join("bob", "alice")).unwrap();
    assert_eq!((again.position, again.duplicate), (joined.position, true));
    let left = batch.push(&leave("bob", "bob")).unwrap();
    let again = batch.push(&leave("bob", "bob")).unwrap();
    assert_eq!((again.position, again.duplicate), (left.position, true));
    assert_eq!(batch.entries().len(), 3);
}

#[test]
fn a_backend_may_send_without_being_a_member() {
    let mut batch = batch(History::FromJoin);
    assert_eq!(seq_of(batch.push(&service(message("robot", "a", "1")))), 2);
}
