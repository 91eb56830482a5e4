//! Each test is a rule of [`FeedReader`]; the model log and the shorthands stand at the end.

use gapless_proto::{Body, Kind, Timestamp, UserId};
use proptest::prelude::*;

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

/// What can happen to a reader. Seqs and choices are taken modulo what there is.
#[derive(Debug, Clone)]
enum Happening {
    /// The log grows by one entry, visible or not, and nobody is told.
    Append {
        visible: bool,
    },
    /// Any entry is pushed: new, old, or ahead of others.
    Push(usize),
    Hint,
    /// A sync that was asked at any time is answered now; as the log is by now.
    Page(usize),
    /// A page that was delivered before comes again.
    OldPage(usize),
    Fail,
    Reconnect,
    Timer,
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let happening = prop_oneof![
        4 => any::<bool>().prop_map(|visible| Happening::Append { visible }),
        4 => any::<usize>().prop_map(Happening::Push),
        1 => Just(Happening::Hint),
        3 => any::<usize>().prop_map(Happening::Page),
        1 => any::<usize>().prop_map(Happening::OldPage),
        1 => Just(Happening::Fail),
        1 => Just(Happening::Reconnect),
        1 => Just(Happening::Timer),
    ];
    proptest::collection::vec(happening, 0..80)
}

proptest! {
    // Behaviours 3, 4, 5
    #[test]
    fn whatever_is_lost_doubled_or_late_every_visible_entry_is_applied_once_and_in_order(
        happenings in happenings(),
    ) {
        assert_converges(reader(), &happenings)?;
    }
}

/// The negative control of the check above: it must see that a "largest seen" cursor loses entries for ever.
#[test]
fn the_same_check_fails_a_cursor_that_takes_the_largest_seq_it_has_seen() {
    let hole = [Happening::Append { visible: true }, Happening::Append { visible: true }, Happening::Push(1)];
    assert!(assert_converges(reader(), &hole).is_ok());
    assert!(assert_converges(LargestSeen::default(), &hole).is_err());
}

/// Runs a reader through what happens, then lets the network be good, and compares with the log.
fn assert_converges(mut reader: impl Cursor, happenings: &[Happening]) -> Result<(), TestCaseError> {
    let mut now = start();
    let mut log = log(0);
    let mut applied = Vec::new();
    let mut questions = Vec::new();
    let mut old_pages: Vec<(SyncRequest, Page)> = Vec::new();

    reader.connect();
    for happening in happenings {
        now += Duration::from_millis(100);
        collect(reader.drain(), &mut applied, &mut questions);
        match happening {
            Happening::Append { visible } => log.append(*visible),
            Happening::Push(choice) => {
                if let Some(entry) = nth(log.visible.values(), *choice) {
                    reader.push(entry.clone(), now);
                }
            }
            Happening::Hint => reader.hint(log.head, now),
            Happening::Page(choice) => {
                if let Some(question) = nth(questions.iter(), *choice).copied()
                    && let Ok(page) = log.page(question, 3)
                {
                    old_pages.push((question, page.clone()));
                    reader.page(question, page, now);
                }
            }
            Happening::OldPage(choice) => {
                if let Some((question, page)) = nth(old_pages.iter(), *choice).cloned() {
                    reader.page(question, page, now);
                }
            }
            Happening::Fail => {
                if let Some(question) = questions.last() {
                    reader.fail(*question, now);
                }
            }
            Happening::Reconnect => reader.connect(),
            Happening::Timer => now = reader.wait(now),
        }
    }

    questions.clear();
    reader.connect();
    reader.hint(log.head, now);
    for _ in 0..1_000 {
        collect(reader.drain(), &mut applied, &mut questions);
        for question in std::mem::take(&mut questions) {
            let page = log.page(question, 3).map_err(|code| TestCaseError::fail(format!("{code:?}")))?;
            reader.page(question, page, now);
        }
        now = reader.wait(now);
    }
    let expected: Vec<_> = log.visible.keys().copied().collect();
    prop_assert_eq!(applied, expected);
    Ok(())
}

fn collect(commands: Vec<FeedCommand>, applied: &mut Vec<Seq>, questions: &mut Vec<SyncRequest>) {
    for command in commands {
        match command {
            FeedCommand::Apply(advance) => applied.extend(advance.entries.iter().map(|entry| entry.seq)),
            FeedCommand::Sync(request) => questions.push(request),
            FeedCommand::Acknowledge | FeedCommand::Reset { .. } | FeedCommand::Refused { .. } => {}
        }
    }
}

fn nth<T>(mut items: impl ExactSizeIterator<Item = T>, choice: usize) -> Option<T> {
    let index = choice.checked_rem(items.len())?;
    items.nth(index)
}

/// What the check drives: the reader, and a broken strategy.
trait Cursor {
    fn connect(&mut self);
    fn push(&mut self, entry: Entry, now: Instant);
    fn hint(&mut self, head: Seq, now: Instant);
    fn page(&mut self, asked: SyncRequest, page: Page, now: Instant);
    fn fail(&mut self, asked: SyncRequest, now: Instant);
    fn wait(&mut self, now: Instant) -> Instant;
    fn drain(&mut self) -> Vec<FeedCommand>;
}

impl Cursor for FeedReader {
    fn connect(&mut self) {
        self.handle_disconnected();
        self.handle_connected();
    }

    fn push(&mut self, entry: Entry, now: Instant) {
        self.handle_event(epoch(), entry, now);
    }

    fn hint(&mut self, head: Seq, now: Instant) {
        self.handle_hint(epoch(), head, now);
    }

    fn page(&mut self, asked: SyncRequest, page: Page, now: Instant) {
        self.handle_page(asked, page, now).unwrap();
    }

    fn fail(&mut self, asked: SyncRequest, now: Instant) {
        self.handle_sync_refused(asked, ErrorCode::Unavailable, None, now);
    }

    fn wait(&mut self, now: Instant) -> Instant {
        let now = self.poll_timeout().map_or(now, |due| due.max(now));
        self.handle_timeout(now);
        now
    }

    fn drain(&mut self) -> Vec<FeedCommand> {
        commands(self)
    }
}

/// Applies whatever is larger than all it has seen, as a client without gap detection does.
#[derive(Default)]
struct LargestSeen {
    cursor: Seq,
    commands: Vec<FeedCommand>,
}

impl LargestSeen {
    fn ask(&mut self) {
        self.commands.push(sync(self.cursor.get()));
    }
}

impl Cursor for LargestSeen {
    fn connect(&mut self) {
        self.ask();
    }

    fn push(&mut self, entry: Entry, _: Instant) {
        if entry.seq > self.cursor {
            self.cursor = entry.seq;
            let entries = vec![entry];
            self.commands.push(FeedCommand::Apply(Advance {
                entries,
                position: place(self.cursor.get()),
                trimmed: None,
                head: self.cursor,
            }));
        }
    }

    fn hint(&mut self, _: Seq, _: Instant) {
        self.ask();
    }

    fn page(&mut self, _: SyncRequest, page: Page, now: Instant) {
        for entry in page.events {
            self.push(entry, now);
        }
        if page.has_more {
            self.ask();
        }
    }

    fn fail(&mut self, _: SyncRequest, _: Instant) {}

    fn wait(&mut self, now: Instant) -> Instant {
        now
    }

    fn drain(&mut self) -> Vec<FeedCommand> {
        std::mem::take(&mut self.commands)
    }
}

/// A log as one reader may see it.
struct Log {
    epoch: Epoch,
    head: Seq,
    min_seq: Seq,
    visible: BTreeMap<Seq, Entry>,
}

impl Log {
    fn append(&mut self, visible: bool) {
        self.head = self.head.next();
        if visible {
            self.visible.insert(self.head, entry(self.head.get()));
        }
    }

    fn trim_before(&mut self, min_seq: u64) {
        self.min_seq = seq(min_seq);
        self.visible.retain(|seq, _| *seq >= self.min_seq);
    }

    fn page(&self, asked: SyncRequest, limit: usize) -> Result<Page, ErrorCode> {
        if asked.epoch.is_some_and(|epoch| epoch != self.epoch) {
            return Err(ErrorCode::EpochChanged);
        }
        if asked.after > self.head {
            return Err(ErrorCode::CursorAhead);
        }
        let beyond = || self.visible.range(asked.after.next()..).map(|(_, entry)| entry);
        let events: Vec<_> = beyond().take(limit).cloned().collect();
        let has_more = beyond().count() > limit;
        Ok(Page {
            epoch: self.epoch,
            min_seq: self.min_seq,
            head: self.head,
            next_after: match events.last() {
                Some(last) if has_more => last.seq,
                Some(_) | None => self.head,
            },
            has_more,
            trimmed: asked.after.next() < self.min_seq,
            events,
        })
    }
}

/// A command, reduced to what tests about catching up compare.
#[derive(Debug, PartialEq)]
enum Seen {
    Applied(Vec<Seq>),
    Asked(SyncRequest),
    Other,
}

fn seen(reader: &mut FeedReader) -> Vec<Seen> {
    commands(reader)
        .into_iter()
        .map(|command| match command {
            FeedCommand::Apply(advance) => {
                Seen::Applied(advance.entries.iter().map(|entry| entry.seq).collect())
            }
            FeedCommand::Sync(request) => Seen::Asked(request),
            FeedCommand::Acknowledge | FeedCommand::Reset { .. } | FeedCommand::Refused { .. } => Seen::Other,
        })
        .collect()
}

/// Answers a question and all that follow from it; returns what else the reader wanted.
fn drive(reader: &mut FeedReader, log: &Log, first: SyncRequest, now: Instant) -> Vec<Seen> {
    let mut others = Vec::new();
    let mut question = Some(first);
    while let Some(asked) = question.take() {
        answer(reader, log, asked, now);
        for seen in seen(reader) {
            match seen {
                Seen::Asked(next) => question = Some(next),
                other @ (Seen::Applied(_) | Seen::Other) => others.push(other),
            }
        }
    }
    others
}

fn applied(seen: Vec<Seen>) -> Vec<Seq> {
    seen.into_iter()
        .flat_map(|seen| match seen {
            Seen::Applied(seqs) => seqs,
            Seen::Asked(_) | Seen::Other => Vec::new(),
        })
        .collect()
}

fn answer(reader: &mut FeedReader, log: &Log, asked: SyncRequest, now: Instant) {
    reader.handle_page(asked, log.page(asked, 50).unwrap(), now).unwrap();
}

fn assert_starts_over(code: ErrorCode, reason: ResetReason) {
    let (mut reader, now) = reader_at(7);
    reader.handle_event(epoch(), entry(9), now);
    commands(&mut reader);

    reader.handle_sync_refused(asked(7), code, None, now);
    assert_eq!(commands(&mut reader), [FeedCommand::Reset { reason }, first_sync()]);
    assert_eq!(reader.position(), None);

    let restored = Log { epoch: next_epoch(), ..log(9) };
    answer(&mut reader, &restored, first_question(), now);
    assert_eq!(applied(seen(&mut reader)), seqs(1..=9));
    assert_eq!(reader.position(), Some(next_life(9)));
}

fn epoch() -> Epoch {
    Epoch::new(5).unwrap()
}

fn next_epoch() -> Epoch {
    Epoch::new(6).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "where a test's time starts doesn't matter")]
fn start() -> Instant {
    Instant::now()
}

fn seq(number: u64) -> Seq {
    Seq::new(number).unwrap()
}

fn seqs(range: RangeInclusive<u64>) -> Vec<Seq> {
    range.map(seq).collect()
}

fn place(number: u64) -> Position {
    Position { epoch: epoch(), seq: seq(number) }
}

fn next_life(number: u64) -> Position {
    Position { epoch: next_epoch(), seq: seq(number) }
}

fn entry(number: u64) -> Entry {
    Entry {
        seq: seq(number),
        kind: Kind::Message,
        sender: UserId::new("alice").unwrap(),
        key: None,
        ts: Timestamp::new(0).unwrap(),
        body: Body::from_value(&number).unwrap(),
    }
}

fn log(head: u64) -> Log {
    Log {
        epoch: epoch(),
        head: seq(head),
        min_seq: Seq::FIRST,
        visible: (1..=head).map(|number| (seq(number), entry(number))).collect(),
    }
}

fn asked_in(epoch: Epoch, after: u64) -> SyncRequest {
    SyncRequest { after: seq(after), epoch: Some(epoch) }
}

fn asked(after: u64) -> SyncRequest {
    asked_in(epoch(), after)
}

fn first_question() -> SyncRequest {
    SyncRequest { after: Seq::ZERO, epoch: None }
}

fn sync(after: u64) -> FeedCommand {
    FeedCommand::Sync(asked(after))
}

fn first_sync() -> FeedCommand {
    FeedCommand::Sync(first_question())
}

fn apply(range: RangeInclusive<u64>) -> FeedCommand {
    let head = *range.end();
    apply_to(range, head)
}

fn apply_to(range: RangeInclusive<u64>, head: u64) -> FeedCommand {
    FeedCommand::Apply(Advance {
        position: place(*range.end()),
        entries: range.map(entry).collect(),
        trimmed: None,
        head: seq(head),
    })
}

fn reader() -> FeedReader {
    FeedReader::new(FeedReaderConfig::default(), None, 0)
}

/// A connected reader that has nothing to do.
fn reader_at(number: u64) -> (FeedReader, Instant) {
    let mut reader = FeedReader::new(FeedReaderConfig::default(), Some(place(number)), 0);
    connect(&mut reader, asked(number));
    (reader, start())
}

fn connect(reader: &mut FeedReader, question: SyncRequest) {
    reader.handle_connected();
    let page = Page {
        epoch: question.epoch.unwrap(),
        min_seq: Seq::FIRST,
        head: question.after,
        next_after: question.after,
        has_more: false,
        trimmed: false,
        events: Vec::new(),
    };
    reader.handle_page(question, page, start()).unwrap();
    commands(reader);
}

fn commands(reader: &mut FeedReader) -> Vec<FeedCommand> {
    std::iter::from_fn(|| reader.poll_command()).collect()
}
