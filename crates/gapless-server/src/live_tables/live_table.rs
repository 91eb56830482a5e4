//! One table that is followed, and whoever follows it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use gapless_core::TableTail;
use gapless_proto::{Cursor, Topic};
use gapless_tables::{Change, Moment, Served};
use metrics::Counter;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::time::Instant;

use super::poller;
use crate::gateway::Gateway;
use crate::told::{ReaderPosition, Told};
use crate::wakers::{Wake, Wakers};

/// How many changes are remembered, and how many bytes of what is told of them.
const TAIL_CHANGES_MAX: usize = 8_192;
const TAIL_BYTES_MAX: usize = 16 << 20;
/// How many of those who fell behind read a table at a time; the others wait for their turn. So connections are left for the poller, and
/// for those who ask for pages.
const READS_MAX: usize = 2;
/// How long a table is polled after the last follower went: many come back at once.
const LINGER: Duration = Duration::from_secs(10);

/// The changes of a table lately.
pub(super) type Tail = TableTail<Told, PassEnd>;

/// Where a pass of the poller has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PassEnd {
    /// The moment it was of.
    pub(super) moment: Moment,
    /// The cursor of whoever is there.
    pub(super) cursor: Cursor,
}

/// A table that is followed here.
pub(crate) struct LiveTable {
    served: Arc<Served>,
    topic: Topic,
    tail: RwLock<Tail>,
    /// Those who were told everything.
    wakers: Arc<Wakers>,
    /// Tells those who wait for a page that there may be one.
    grown: watch::Sender<()>,
    /// Tells those who are behind that a pass has ended.
    passed: watch::Sender<()>,
    turns: Semaphore,
    /// How many of those who fell behind have begun to read.
    begun_reads: AtomicU64,
    waiters_turns: Semaphore,
    followers: Mutex<Followers>,
    changes: Counter,
    reads: Counter,
}

/// Who follows a table.
struct Followers {
    count: usize,
    is_polled: bool,
    /// When the last one went.
    left_at: Instant,
}

/// Keeps a table polled.
pub(crate) struct Attached(Arc<LiveTable>);

impl LiveTable {
    pub(super) fn new(served: Arc<Served>) -> Self {
        let topic = Topic::new(&format!("table:{}", served.name())).expect("names of tables are short words");
        let table = served.name().to_owned();
        Self {
            topic,
            tail: RwLock::new(TableTail::new(TAIL_CHANGES_MAX, TAIL_BYTES_MAX)),
            wakers: Arc::default(),
            grown: watch::Sender::new(()),
            passed: watch::Sender::new(()),
            turns: Semaphore::new(READS_MAX),
            begun_reads: AtomicU64::new(0),
            waiters_turns: Semaphore::new(READS_MAX),
            followers: Mutex::new(Followers { count: 0, is_polled: false, left_at: Instant::now() }),
            changes: metrics::counter!("gapless_table_changes_total", "table" => table.clone()),
            reads: metrics::counter!("gapless_table_follower_reads_total", "table" => table),
            served,
        }
    }

    /// Where its rows come from.
    pub(super) fn served(&self) -> &Served {
        &self.served
    }

    pub(super) fn topic(&self) -> &Topic {
        &self.topic
    }

    pub(super) fn tail(&self) -> RwLockReadGuard<'_, Tail> {
        self.tail.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn tail_mut(&self) -> RwLockWriteGuard<'_, Tail> {
        self.tail.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a waker woken whenever the tail has grown.
    pub(super) fn wait(&self) -> Wake {
        self.wakers.wait()
    }

    /// Tells when passes end.
    pub(super) fn passed(&self) -> watch::Receiver<()> {
        self.passed.subscribe()
    }

    /// Has the table polled until what is returned is dropped.
    pub(crate) fn attach(self: &Arc<Self>, gateway: &Arc<Gateway>) -> Attached {
        let mut followers = self.followers();
        followers.count += 1;
        if !followers.is_polled {
            followers.is_polled = true;
            let (table, stops) = (Arc::clone(self), Arc::clone(gateway));
            gateway.spawn(async move { poller::poll(&table, stops.drained()).await });
        }
        Attached(Arc::clone(self))
    }

    /// Whether nobody has followed it for a while; if so, it counts as polled by nobody.
    pub(super) fn is_left(&self) -> bool {
        let mut followers = self.followers();
        let is_left = followers.count == 0 && followers.left_at.elapsed() >= LINGER;
        followers.is_polled = !is_left;
        if is_left {
            // Whoever comes next doesn't want what was newest now.
            self.tail_mut().clear();
        }
        is_left
    }

    /// A turn to read the table for oneself, until it is dropped.
    pub(super) async fn turn(&self) -> SemaphorePermit<'_> {
        let turn = self.turns.acquire().await.expect("the semaphore is never closed");
        self.begun_reads.fetch_add(1, Ordering::SeqCst);
        self.reads.increment(1);
        turn
    }

    /// How many of those who fell behind have begun to read, and whether one is at it.
    pub(super) fn behind_reads(&self) -> (u64, bool) {
        let begun = self.begun_reads.load(Ordering::SeqCst);
        (begun, self.turns.available_permits() < READS_MAX)
    }

    /// Begins anew: what comes next doesn't follow on what was told.
    pub(super) fn begin(&self, end: PassEnd) {
        let mut tail = self.tail_mut();
        tail.clear();
        tail.end_pass(end);
        drop(tail);
        self.passed.send_replace(());
        self.wake_all();
    }

    /// Takes in what was found, and whether a pass has ended with it.
    pub(super) fn handle_changes(&self, changes: Vec<Change>, end: Option<PassEnd>) {
        self.changes.increment(changes.len() as u64);
        let told: Vec<Told> = changes.into_iter().map(|change| self.told(change)).collect();
        let has_grown = !told.is_empty();
        let mut tail = self.tail_mut();
        for told in told {
            let bytes = told.len();
            tail.push(told, bytes);
        }
        let has_passed = end.is_some();
        if let Some(end) = end {
            tail.end_pass(end);
        }
        drop(tail);
        if has_passed {
            self.passed.send_replace(());
        }
        if has_grown {
            self.wake_all();
        }
    }

    /// What is told of a change.
    pub(super) fn told(&self, change: Change) -> Told {
        let Change { record, cursor, key: _ } = change;
        let cursor = own_cursor(&cursor);
        let topic = &self.topic;
        // Names of tables and cursors have nothing in them that JSON would escape.
        let rest = format!(r#","cursor":"{cursor}","type":"row","topic":"{topic}","payload":{record}}}"#);
        Told::written("event", ReaderPosition::At(cursor), &rest)
    }

    fn followers(&self) -> MutexGuard<'_, Followers> {
        self.followers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake_all(&self) {
        self.grown.send_replace(());
        self.wakers.wake_all();
    }
}

/// A cursor that this server made.
pub(super) fn own_cursor(cursor: &str) -> Cursor {
    Cursor::new(cursor).expect("no cursor of a table is as long as cursors may be")
}

impl Attached {
    pub(super) fn table(&self) -> &Arc<LiveTable> {
        &self.0
    }

    /// A turn to read a page that was waited for, until it is dropped: all who wait are woken at once.
    pub(crate) async fn turn(&self) -> SemaphorePermit<'_> {
        self.0.waiters_turns.acquire().await.expect("the semaphore is never closed")
    }

    /// Tells when the table has changed from now on.
    pub(crate) fn grown(&self) -> watch::Receiver<()> {
        self.0.grown.subscribe()
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let mut followers = self.0.followers();
        followers.count -= 1;
        followers.left_at = Instant::now();
    }
}
