//! Whatever the network does, a reader ends with the whole log; a "largest seen" cursor, the negative control, doesn't.

use proptest::prelude::*;

use super::super::*;
use super::log::*;

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
