//! Each test is a rule of [`FeedReader`].

mod convergence;
mod log;

use gapless_proto::Kind;

use self::log::*;
use super::*;

// Behaviour 4
#[test]
fn an_entry_beyond_a_gap_waits_and_one_sync_closes_the_gap() {
    let (mut reader, now) = reader_at(3);

    reader.handle_event(epoch(), entry(5), now);
    assert_eq!(commands(&mut reader), [sync(3)]);
    reader.handle_event(epoch(), entry(6), now);
    assert_eq!(commands(&mut reader), []);

    answer(&mut reader, &log(6), asked(3), now);
    assert_eq!(commands(&mut reader), [apply(4..=6)]);
    assert_eq!(reader.pending(), 0);
}

#[test]
fn a_missing_entry_that_arrives_by_push_after_all_frees_what_waits() {
    let (mut reader, now) = reader_at(3);
    reader.handle_event(epoch(), entry(5), now);
    commands(&mut reader);

    reader.handle_event(epoch(), entry(4), now);
    assert_eq!(commands(&mut reader), [apply(4..=5)]);
}

// Behaviour 3
#[test]
fn an_entry_pushed_during_a_long_catch_up_waits_until_every_page_is_there() {
    let now = start();
    let mut reader = reader();
    let log = log(201);
    reader.handle_connected();
    assert_eq!(commands(&mut reader), [first_sync()]);

    reader.handle_event(epoch(), entry(201), now);
    assert_eq!(commands(&mut reader), []);

    assert_eq!(applied(drive(&mut reader, &log, first_question(), now)), seqs(1..=201));
    assert_eq!(reader.position(), Some(place(201)));
}

// Behaviour 3
#[test]
fn a_backlog_of_three_pages_arrives_whole_and_oldest_first() {
    let now = start();
    let mut reader = reader();
    reader.handle_connected();
    commands(&mut reader);

    let seen = drive(&mut reader, &log(150), first_question(), now);
    assert_eq!(
        seen,
        [Seen::Applied(seqs(1..=50)), Seen::Applied(seqs(51..=100)), Seen::Applied(seqs(101..=150)),]
    );
}

// Behaviour 5
#[test]
fn what_comes_twice_is_applied_once() {
    let (mut reader, now) = reader_at(3);
    let log = log(5);
    reader.handle_event(epoch(), entry(5), now);
    commands(&mut reader);

    answer(&mut reader, &log, asked(3), now);
    answer(&mut reader, &log, asked(3), now);
    reader.handle_event(epoch(), entry(4), now);
    reader.handle_event(epoch(), entry(5), now);
    assert_eq!(commands(&mut reader), [apply(4..=5)]);
}

// Behaviour 5
#[test]
fn an_older_page_that_arrives_late_never_takes_the_cursor_back() {
    let (mut reader, now) = reader_at(3);
    for seq in 4..=9 {
        reader.handle_event(epoch(), entry(seq), now);
    }
    commands(&mut reader);

    answer(&mut reader, &log(6), asked(0), now);
    assert_eq!(commands(&mut reader), []);
    assert_eq!(reader.position(), Some(place(9)));
}

// Behaviour 5
#[test]
fn a_page_that_nobody_waits_for_is_used_only_where_it_joins_the_cursor() {
    let (mut reader, now) = reader_at(3);

    answer(&mut reader, &log(9), asked(5), now);
    assert_eq!(commands(&mut reader), []);
    answer(&mut reader, &log(9), asked(2), now);
    assert_eq!(commands(&mut reader), [apply(4..=9)]);
}

// Behaviour 6
#[test]
fn a_hundred_hints_during_a_sync_cost_at_most_one_more() {
    let (mut reader, now) = reader_at(3);
    reader.handle_hint(epoch(), seq(4), now);
    assert_eq!(commands(&mut reader), [sync(3)]);

    for head in 5..=104 {
        reader.handle_hint(epoch(), seq(head), now);
    }
    assert_eq!(commands(&mut reader), []);

    answer(&mut reader, &log(4), asked(3), now);
    assert_eq!(commands(&mut reader), [apply_to(4..=4, 104), sync(4)]);
}

// Behaviour 6
#[test]
fn hints_that_the_page_covers_cost_no_further_sync() {
    let (mut reader, now) = reader_at(3);
    for head in 4..=20 {
        reader.handle_hint(epoch(), seq(head), now);
    }
    commands(&mut reader);

    answer(&mut reader, &log(20), asked(3), now);
    assert_eq!(commands(&mut reader), [apply(4..=20)]);
}

// Behaviour 17
#[test]
fn a_hint_of_what_is_held_already_is_acknowledged_again() {
    let (mut reader, now) = reader_at(3);

    reader.handle_hint(epoch(), seq(3), now);
    assert_eq!(commands(&mut reader), [FeedCommand::Acknowledge]);
}

// Behaviour 7
#[test]
fn an_entry_of_an_unknown_kind_moves_the_cursor_like_any_other() {
    let (mut reader, now) = reader_at(3);
    let poll = Entry { kind: Kind::Other("poll".to_owned()), ..entry(4) };

    reader.handle_event(epoch(), poll, now);
    assert_eq!(applied(seen(&mut reader)), seqs(4..=4));
}

// Behaviour 2
#[test]
fn a_page_passes_what_its_reader_may_not_see() {
    let (mut reader, now) = reader_at(60);
    let mut log = log(70);
    log.visible.retain(|seq, _| seq.get() <= 64);

    reader.handle_hint(epoch(), seq(64), now);
    answer(&mut reader, &log, asked(60), now);
    assert_eq!(applied(seen(&mut reader)), seqs(61..=64));
    assert_eq!(reader.position(), Some(place(70)));
}

// Behaviour 4
#[test]
fn a_failed_sync_is_tried_again_by_the_timer() {
    let (mut reader, now) = reader_at(3);
    reader.handle_event(epoch(), entry(5), now);
    commands(&mut reader);

    reader.handle_sync_refused(asked(3), ErrorCode::Unavailable, None, now);
    assert_eq!(commands(&mut reader), []);
    let until = reader.poll_timeout().unwrap();
    assert!(until <= now + Duration::from_millis(1_500));
    reader.handle_timeout(until);
    assert_eq!(commands(&mut reader), [sync(3)]);
}

// Behaviour 4
#[test]
fn a_failed_sync_is_tried_again_within_a_second_of_the_next_push() {
    let (mut reader, now) = reader_at(3);
    reader.handle_event(epoch(), entry(5), now);
    for _ in 0..8 {
        commands(&mut reader);
        reader.handle_sync_refused(asked(3), ErrorCode::Internal, None, now);
        let until = reader.poll_timeout().unwrap();
        reader.handle_timeout(until);
    }
    reader.handle_sync_refused(asked(3), ErrorCode::Internal, None, now);
    assert!(reader.poll_timeout() > Some(now + Duration::from_secs(10)));

    reader.handle_event(epoch(), entry(6), now);
    assert!(reader.poll_timeout() <= Some(now + Duration::from_secs(1)));
}

#[test]
fn a_push_does_not_shorten_the_wait_that_the_server_asked_for() {
    let (mut reader, now) = reader_at(3);
    let delay = Duration::from_secs(7);
    reader.handle_event(epoch(), entry(5), now);
    reader.handle_sync_refused(asked(3), ErrorCode::RateLimited, Some(delay), now);

    reader.handle_event(epoch(), entry(6), now);
    assert_eq!(reader.poll_timeout(), Some(now + delay));
}

#[test]
fn an_absurd_wait_that_the_server_asks_for_is_cut() {
    let (mut reader, now) = reader_at(3);
    reader.handle_event(epoch(), entry(5), now);

    reader.handle_sync_refused(asked(3), ErrorCode::RateLimited, Some(Duration::MAX), now);
    assert_eq!(reader.poll_timeout(), Some(now + RETRY_AFTER_MAX));
}

#[test]
fn a_page_that_brings_nothing_of_what_was_announced_is_asked_for_again_after_a_wait() {
    let (mut reader, now) = reader_at(3);
    reader.handle_hint(epoch(), seq(9), now);
    commands(&mut reader);

    answer(&mut reader, &log(3), asked(3), now);
    assert_eq!(commands(&mut reader), []);
    let first = reader.poll_timeout().unwrap();
    reader.handle_timeout(first);
    assert_eq!(commands(&mut reader), [sync(3)]);
    answer(&mut reader, &log(3), asked(3), first);
    let second = reader.poll_timeout().unwrap();
    reader.handle_timeout(second);
    answer(&mut reader, &log(3), asked(3), second);
    assert!(reader.poll_timeout().unwrap() - second > first - now);
}

// Behaviour 8
#[test]
fn a_cursor_ahead_of_the_log_starts_the_conversation_over_once() {
    assert_starts_over(ErrorCode::CursorAhead, ResetReason::CursorAhead);
}

// Behaviour 8
#[test]
fn another_epoch_starts_the_conversation_over_once() {
    assert_starts_over(ErrorCode::EpochChanged, ResetReason::EpochChanged);
}

// Behaviour 8
#[test]
fn a_push_of_a_newer_epoch_is_asked_about_with_the_old_one() {
    let (mut reader, now) = reader_at(7);

    reader.handle_event(next_epoch(), entry(8), now);
    assert_eq!(commands(&mut reader), [sync(7)]);
    assert_eq!(reader.position(), Some(place(7)));
}

// Behaviour 8
#[test]
fn a_hint_of_a_newer_epoch_is_asked_about_even_if_its_head_is_lower() {
    let (mut reader, now) = reader_at(7);

    reader.handle_hint(next_epoch(), seq(2), now);
    assert_eq!(commands(&mut reader), [sync(7)]);
}

#[test]
fn pushes_and_hints_of_an_older_epoch_are_passed_over() {
    let now = start();
    let mut reader = FeedReader::new(FeedReaderConfig::default(), Some(next_life(3)), 0);
    connect(&mut reader, asked_in(next_epoch(), 3));

    reader.handle_event(epoch(), entry(9), now);
    reader.handle_hint(epoch(), seq(9), now);
    assert_eq!(commands(&mut reader), []);
}

// Behaviour 8
#[test]
fn servers_that_disagree_about_the_epoch_cannot_make_it_start_over_in_a_loop() {
    let (mut reader, now) = reader_at(7);
    let mut resets = 0;
    reader.handle_hint(next_epoch(), seq(9), now);
    for _ in 0..100 {
        for command in commands(&mut reader) {
            match command {
                FeedCommand::Sync(request) if request.holds_something() => {
                    reader.handle_sync_refused(request, ErrorCode::EpochChanged, None, now);
                }
                FeedCommand::Sync(request) => {
                    answer(&mut reader, &log(7), request, now);
                    reader.handle_hint(next_epoch(), seq(9), now);
                }
                FeedCommand::Reset { .. } => resets += 1,
                FeedCommand::Apply(_) | FeedCommand::Acknowledge | FeedCommand::Refused { .. } => {}
            }
        }
    }
    assert_eq!(resets, 2);
    assert!(reader.poll_timeout() > Some(now));
}

// Behaviour 8
#[test]
fn a_refusal_that_makes_no_sense_for_an_empty_cursor_is_a_failure_and_no_reset() {
    let now = start();
    let mut reader = reader();
    reader.handle_connected();
    commands(&mut reader);

    reader.handle_sync_refused(first_question(), ErrorCode::EpochChanged, None, now);
    assert_eq!(commands(&mut reader), []);
    assert!(reader.poll_timeout().is_some());
}

#[test]
fn a_page_from_before_a_reset_is_passed_over() {
    let (mut reader, now) = reader_at(3);
    reader.handle_event(epoch(), entry(5), now);
    reader.handle_sync_refused(asked(3), ErrorCode::EpochChanged, None, now);
    commands(&mut reader);

    answer(&mut reader, &log(5), asked(3), now);
    assert_eq!(commands(&mut reader), []);
    assert_eq!(reader.position(), None);
}

// Behaviour 9
#[test]
fn what_was_trimmed_is_passed_and_named() {
    let (mut reader, now) = reader_at(3);
    let mut log = log(9);
    log.trim_before(7);

    reader.handle_hint(epoch(), seq(9), now);
    commands(&mut reader);
    answer(&mut reader, &log, asked(3), now);
    let [FeedCommand::Apply(advance)] = &commands(&mut reader)[..] else {
        panic!("one step was due");
    };
    assert_eq!(advance.trimmed, Some(seq(4)..=seq(6)));
    assert_eq!(advance.entries, [entry(7), entry(8), entry(9)]);
}

// Behaviour 9
#[test]
fn what_was_trimmed_before_its_reader_came_is_not_named() {
    let (mut reader, now) = reader_at(3);
    let mut log = log(9);
    log.trim_before(7);
    reader.handle_hint(epoch(), seq(9), now);
    commands(&mut reader);

    let page = Page { trimmed: false, ..log.page(asked(3), 50).unwrap() };
    reader.handle_page(asked(3), page, now).unwrap();
    assert_eq!(commands(&mut reader), [apply(7..=9)]);
}

// Behaviour 9
#[test]
fn what_was_pushed_before_it_was_trimmed_is_not_named() {
    let (mut reader, now) = reader_at(3);
    let mut log = log(9);
    log.trim_before(8);
    reader.handle_hint(epoch(), seq(9), now);
    commands(&mut reader);
    // The leave entry: nothing after it is the reader's to miss.
    for pushed in 4..=5 {
        reader.handle_event(epoch(), entry(pushed), now);
    }
    assert_eq!(applied(seen(&mut reader)), seqs(4..=5));

    let page =
        |after: u64, trimmed| Page { trimmed, events: Vec::new(), ..log.page(asked(after), 50).unwrap() };
    reader.handle_page(asked(3), page(3, true), now).unwrap();
    assert_eq!(commands(&mut reader), [sync(5)]);
    reader.handle_page(asked(5), page(5, false), now).unwrap();
    assert_eq!(reader.position(), Some(place(9)));
    let [FeedCommand::Apply(advance)] = &commands(&mut reader)[..] else {
        panic!("one step was due");
    };
    assert_eq!(advance.trimmed, None);
}

// Behaviour 9
#[test]
fn a_log_that_is_trimmed_whole_goes_on_at_head_plus_one() {
    let (mut reader, now) = reader_at(3);
    let mut log = log(9);
    log.trim_before(10);

    reader.handle_hint(epoch(), seq(9), now);
    answer(&mut reader, &log, asked(3), now);
    reader.handle_event(epoch(), entry(10), now);
    assert_eq!(applied(seen(&mut reader)), seqs(10..=10));
    assert_eq!(reader.position(), Some(place(10)));
}

#[test]
fn a_refused_conversation_is_reported_once_and_quiet_until_the_next_hint() {
    for code in [ErrorCode::NotFound, ErrorCode::Forbidden] {
        let (mut reader, now) = reader_at(3);
        reader.handle_event(epoch(), entry(5), now);
        commands(&mut reader);

        reader.handle_sync_refused(asked(3), code, None, now);
        assert_eq!(commands(&mut reader), [FeedCommand::Refused { code }]);
        assert_eq!(reader.poll_timeout(), None);
        reader.handle_hint(epoch(), seq(5), now);
        assert_eq!(commands(&mut reader), [sync(3)]);
    }
}

#[test]
fn every_connection_begins_with_one_sync_and_late_answers_of_the_last_one_end_none() {
    let (mut reader, now) = reader_at(3);
    reader.handle_event(epoch(), entry(5), now);
    reader.handle_disconnected();
    commands(&mut reader);
    reader.handle_event(epoch(), entry(6), now);
    assert_eq!(commands(&mut reader), []);

    reader.handle_connected();
    assert_eq!(commands(&mut reader), [sync(3)]);
}

#[test]
fn a_connection_that_brings_nothing_new_is_told_what_is_held() {
    let now = start();
    let mut reader = FeedReader::new(FeedReaderConfig::default(), Some(place(3)), 0);
    reader.handle_connected();
    commands(&mut reader);

    answer(&mut reader, &log(3), asked(3), now);
    assert_eq!(commands(&mut reader), [FeedCommand::Acknowledge]);
}

#[test]
fn too_many_waiting_entries_are_dropped_whole_and_fetched_later() {
    let (mut reader, now) = reader_at(3);
    for seq in 5..=2_500 {
        reader.handle_event(epoch(), entry(seq), now);
        assert!(reader.pending() <= 1_000);
    }
    commands(&mut reader);

    let seen = drive(&mut reader, &log(2_500), asked(3), now);
    assert_eq!(applied(seen), seqs(4..=2_500));
}

#[test]
fn a_reader_may_start_in_the_middle() {
    let now = start();
    let mut reader = FeedReader::starting_after(FeedReaderConfig::default(), seq(5), 0);
    let question = SyncRequest { after: seq(5), epoch: None };
    reader.handle_connected();
    assert_eq!(commands(&mut reader), [FeedCommand::Sync(question)]);

    assert_eq!(applied(drive(&mut reader, &log(8), question, now)), seqs(6..=8));
}

#[test]
fn a_malformed_page_is_refused_whole_and_asked_for_again_after_a_wait() {
    let page = || log(9).page(asked(3), 50).unwrap();
    let mut swapped = page();
    swapped.events.swap(0, 1);
    let mut doubled = page();
    doubled.events[1] = doubled.events[0].clone();
    let mut before = page();
    before.events[0].seq = seq(3);
    let mut beyond = page();
    beyond.events.push(entry(10));
    let backwards = Page { next_after: seq(2), events: Vec::new(), ..page() };
    let beyond_head = Page { next_after: seq(10), ..page() };
    let head_behind = Page { head: seq(2), next_after: seq(3), events: Vec::new(), ..page() };
    let stuck = Page { next_after: seq(3), has_more: true, events: Vec::new(), ..page() };
    let old_epoch = Page { epoch: Epoch::new(1).unwrap(), ..page() };

    for page in [swapped, doubled, before, beyond, backwards, beyond_head, head_behind, stuck, old_epoch] {
        let (mut reader, now) = reader_at(3);
        reader.handle_hint(epoch(), seq(9), now);
        commands(&mut reader);

        assert!(reader.handle_page(asked(3), page.clone(), now).is_err(), "{page:?}");
        assert_eq!(commands(&mut reader), [], "{page:?}");
        assert_eq!(reader.position(), Some(place(3)));
        reader.handle_timeout(reader.poll_timeout().unwrap());
        assert_eq!(commands(&mut reader), [sync(3)]);
    }
}

#[test]
fn a_faulty_server_that_claims_the_largest_seq_does_not_make_it_panic() {
    let (mut reader, now) = reader_at(3);
    let largest = seq((1 << 53) - 1);
    let page = Page {
        epoch: epoch(),
        min_seq: largest,
        head: largest,
        next_after: largest,
        has_more: false,
        trimmed: true,
        events: Vec::new(),
    };
    reader.handle_hint(epoch(), largest, now);
    reader.handle_page(asked(3), page, now).unwrap();
    reader.handle_event(epoch(), entry(largest.get()), now);
    assert_eq!(reader.position().unwrap().seq, largest);
}
