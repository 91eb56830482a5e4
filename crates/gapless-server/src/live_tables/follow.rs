//! One subscription to a table under way.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, Stream};
use gapless_core::{FollowerStep, PROGRESS_PAUSE, TableFollower};
use gapless_proto::{Cursor, Topic, TopicResetReason};
use gapless_tables::{Changes, CursorError, SourceError};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tracing::debug;

use super::live_table::{Attached, LiveTable, PassEnd, own_cursor};
use crate::told::{ReaderPosition, Told};
use crate::wakers::Wake;

/// How many changes are read at a time by one who is behind.
const PAGE_CHANGES: u32 = 200;
/// How long to wait after the source failed.
const SOURCE_PAUSE: Duration = Duration::from_secs(1);

/// Tells one reader what changes in a table, as a stream that ends with a reset. Whoever doesn't poll it costs nothing.
pub(crate) struct Follow {
    attached: Attached,
    wake: Wake,
    passed: watch::Receiver<()>,
    follower: TableFollower<PassEnd>,
    /// Where the reader is behind all that is queued.
    cursor: Cursor,
    /// A pass whose moment is before that of the cursor.
    too_early: Option<PassEnd>,
    /// What was read and isn't told yet: at most one page.
    queue: VecDeque<Told>,
    reading: Option<BoxFuture<'static, Read>>,
    told_at: Instant,
    timer: Option<Pin<Box<Sleep>>>,
    is_ended: bool,
}

/// What a reader who is behind has waited for.
enum Read {
    Changes(Result<Changes, SourceError>),
    /// The pass that was to end where another one did would be before the reader's last one.
    TooEarly(PassEnd),
    /// Another pass has ended.
    Passed,
}

impl Follow {
    pub(super) fn new(attached: Attached, follower: TableFollower<PassEnd>, cursor: Cursor) -> Self {
        Self {
            wake: attached.table().wait(),
            passed: attached.table().passed(),
            attached,
            follower,
            cursor,
            too_early: None,
            queue: VecDeque::new(),
            reading: None,
            told_at: Instant::now(),
            timer: None,
            is_ended: false,
        }
    }

    /// The whole name of its topic.
    pub(crate) fn topic(&self) -> &Topic {
        self.attached.table().topic()
    }

    /// Drops what waits and ends with a reset.
    pub(super) fn reset(&mut self, reason: TopicResetReason) {
        self.queue = VecDeque::from([Told::reset(reason)]);
        self.reading = None;
        self.is_ended = true;
    }

    /// Does what there is to do next; `None` when that is to wait until the tail grows.
    fn advance(&mut self) -> Option<Next> {
        self.passed.mark_unchanged();
        let table = Arc::clone(self.attached.table());
        let tail = table.tail();
        let too_early = self.too_early.as_ref();
        match self.follower.next(&tail, |end| too_early != Some(end)) {
            FollowerStep::Tell(told) => {
                if let ReaderPosition::At(cursor) = told.position() {
                    self.cursor = cursor.clone();
                }
                Some(Next::Tell(told.clone()))
            }
            FollowerStep::Read(end) => {
                let (end, cursor) = (end.clone(), self.cursor.clone());
                self.reading = Some(Box::pin(read(Arc::clone(&table), cursor, end)));
                Some(Next::Read)
            }
            FollowerStep::Wait => {
                let newest = tail.newest().filter(|_| self.follower.is_through(&tail));
                self.progress(newest.map(|end| end.of.cursor.clone()))
            }
            FollowerStep::WaitForPass => {
                let mut passed = self.passed.clone();
                self.reading = Some(Box::pin(async move {
                    // It ends only with the table.
                    let _ = passed.changed().await;
                    Read::Passed
                }));
                Some(Next::Read)
            }
        }
    }

    /// Tells the newest cursor when it is due, and is another one: so idle never turns into expired.
    fn progress(&mut self, newest: Option<Cursor>) -> Option<Next> {
        let now = Instant::now();
        if self.told_at + PROGRESS_PAUSE <= now {
            self.told_at = now;
            if let Some(cursor) = newest.filter(|newest| *newest != self.cursor) {
                self.cursor = cursor.clone();
                return Some(Next::Tell(Told::progress(cursor)));
            }
        }
        self.timer = Some(Box::pin(sleep_until(self.told_at + PROGRESS_PAUSE)));
        None
    }

    fn handle_read(&mut self, read: Read) {
        match read {
            Read::Passed => {}
            Read::TooEarly(end) => self.too_early = Some(end),
            Read::Changes(Ok(changes)) => {
                let Changes { changes, cursor, has_more, began } = changes;
                let table = Arc::clone(self.attached.table());
                self.queue.extend(changes.into_iter().map(|change| table.told(change)));
                self.cursor = own_cursor(&cursor);
                self.follower.handle_page(&table.tail(), began.is_some(), has_more);
            }
            Read::Changes(Err(SourceError::Cursor(error))) => {
                self.reset(lost(&error).unwrap_or(TopicResetReason::EpochChanged));
            }
            Read::Changes(Err(error)) => {
                debug!(%error, "a follower waits for the source of a table");
                self.reading = Some(Box::pin(async move {
                    sleep(SOURCE_PAUSE).await;
                    Read::Passed
                }));
            }
        }
    }
}

/// What follows next.
enum Next {
    Tell(Told),
    Read,
}

/// Reads a page of the table for one who is behind.
async fn read(table: Arc<LiveTable>, cursor: Cursor, end: PassEnd) -> Read {
    let _turn = table.turn().await;
    let served = table.served();
    let may_begin = match served.source().await {
        Ok(source) => source.may_begin(cursor.as_str(), &end.moment).map_err(SourceError::Cursor),
        Err(error) => Err(error),
    };
    match may_begin {
        Ok(true) => Read::Changes(served.changes(cursor.as_str(), PAGE_CHANGES, Some(end.moment)).await),
        Ok(false) => Read::TooEarly(end),
        Err(error) => Read::Changes(Err(error)),
    }
}

/// Why a position can't be served any more, if it ever could.
pub(super) fn lost(error: &CursorError) -> Option<TopicResetReason> {
    match error {
        CursorError::Invalid | CursorError::OtherTable(_) => None,
        CursorError::OtherCluster | CursorError::OtherIncarnation | CursorError::OtherMeaning => {
            Some(TopicResetReason::EpochChanged)
        }
        CursorError::Expired { .. } => Some(TopicResetReason::CursorExpired),
    }
}

impl Stream for Follow {
    type Item = Told;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Told>> {
        loop {
            if let Some(told) = self.queue.pop_front() {
                self.told_at = Instant::now();
                return Poll::Ready(Some(told));
            }
            if self.is_ended {
                return Poll::Ready(None);
            }
            if let Some(reading) = &mut self.reading {
                let Poll::Ready(read) = reading.poll_unpin(context) else { return Poll::Pending };
                self.reading = None;
                self.handle_read(read);
                continue;
            }
            // Before the look at the tail, so that nothing comes unnoticed between.
            self.wake.waker.register(context.waker());
            match self.advance() {
                Some(Next::Tell(told)) => {
                    self.told_at = Instant::now();
                    return Poll::Ready(Some(told));
                }
                Some(Next::Read) => {}
                None => {
                    let Some(timer) = &mut self.timer else { return Poll::Pending };
                    if timer.as_mut().poll(context).is_pending() {
                        return Poll::Pending;
                    }
                    self.timer = None;
                }
            }
        }
    }
}
