//! The model log that readers are tested against, and the shorthands of the tests.

use gapless_proto::{Body, Kind, Timestamp, UserId};

use super::super::*;

/// A log as one reader may see it.
pub(super) struct Log {
    pub(super) epoch: Epoch,
    pub(super) head: Seq,
    pub(super) min_seq: Seq,
    pub(super) visible: BTreeMap<Seq, Entry>,
}

impl Log {
    pub(super) fn append(&mut self, visible: bool) {
        self.head = self.head.next();
        if visible {
            self.visible.insert(self.head, entry(self.head.get()));
        }
    }

    pub(super) fn trim_before(&mut self, min_seq: u64) {
        self.min_seq = seq(min_seq);
        self.visible.retain(|seq, _| *seq >= self.min_seq);
    }

    pub(super) fn page(&self, asked: SyncRequest, limit: usize) -> Result<Page, ErrorCode> {
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
pub(super) enum Seen {
    Applied(Vec<Seq>),
    Asked(SyncRequest),
    Other,
}

pub(super) fn seen(reader: &mut FeedReader) -> Vec<Seen> {
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
pub(super) fn drive(reader: &mut FeedReader, log: &Log, first: SyncRequest, now: Instant) -> Vec<Seen> {
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

pub(super) fn applied(seen: Vec<Seen>) -> Vec<Seq> {
    seen.into_iter()
        .flat_map(|seen| match seen {
            Seen::Applied(seqs) => seqs,
            Seen::Asked(_) | Seen::Other => Vec::new(),
        })
        .collect()
}

pub(super) fn answer(reader: &mut FeedReader, log: &Log, asked: SyncRequest, now: Instant) {
    reader.handle_page(asked, log.page(asked, 50).unwrap(), now).unwrap();
}

pub(super) fn assert_starts_over(code: ErrorCode, reason: ResetReason) {
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

pub(super) fn epoch() -> Epoch {
    Epoch::new(5).unwrap()
}

pub(super) fn next_epoch() -> Epoch {
    Epoch::new(6).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "where a test's time starts doesn't matter")]
pub(super) fn start() -> Instant {
    Instant::now()
}

pub(super) fn seq(number: u64) -> Seq {
    Seq::new(number).unwrap()
}

pub(super) fn seqs(range: RangeInclusive<u64>) -> Vec<Seq> {
    range.map(seq).collect()
}

pub(super) fn place(number: u64) -> Position {
    Position { epoch: epoch(), seq: seq(number) }
}

pub(super) fn next_life(number: u64) -> Position {
    Position { epoch: next_epoch(), seq: seq(number) }
}

pub(super) fn entry(number: u64) -> Entry {
    Entry {
        seq: seq(number),
        kind: Kind::Message,
        sender: UserId::new("alice").unwrap(),
        key: None,
        ts: Timestamp::new(0).unwrap(),
        body: Body::from_value(&number).unwrap(),
    }
}

pub(super) fn log(head: u64) -> Log {
    Log {
        epoch: epoch(),
        head: seq(head),
        min_seq: Seq::FIRST,
        visible: (1..=head).map(|number| (seq(number), entry(number))).collect(),
    }
}

pub(super) fn asked_in(epoch: Epoch, after: u64) -> SyncRequest {
    SyncRequest { after: seq(after), epoch: Some(epoch) }
}

pub(super) fn asked(after: u64) -> SyncRequest {
    asked_in(epoch(), after)
}

pub(super) fn first_question() -> SyncRequest {
    SyncRequest { after: Seq::ZERO, epoch: None }
}

pub(super) fn sync(after: u64) -> FeedCommand {
    FeedCommand::Sync(asked(after))
}

pub(super) fn first_sync() -> FeedCommand {
    FeedCommand::Sync(first_question())
}

pub(super) fn apply(range: RangeInclusive<u64>) -> FeedCommand {
    let head = *range.end();
    apply_to(range, head)
}

pub(super) fn apply_to(range: RangeInclusive<u64>, head: u64) -> FeedCommand {
    FeedCommand::Apply(Advance {
        position: place(*range.end()),
        entries: range.map(entry).collect(),
        trimmed: None,
        head: seq(head),
    })
}

pub(super) fn reader() -> FeedReader {
    FeedReader::new(FeedReaderConfig::default(), None, 0)
}

/// A connected reader that has nothing to do.
pub(super) fn reader_at(number: u64) -> (FeedReader, Instant) {
    let mut reader = FeedReader::new(FeedReaderConfig::default(), Some(place(number)), 0);
    connect(&mut reader, asked(number));
    (reader, start())
}

pub(super) fn connect(reader: &mut FeedReader, question: SyncRequest) {
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

pub(super) fn commands(reader: &mut FeedReader) -> Vec<FeedCommand> {
    std::iter::from_fn(|| reader.poll_command()).collect()
}
