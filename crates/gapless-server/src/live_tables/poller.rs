//! Finds what changes in a table, for all who follow it.

use std::sync::Arc;
use std::time::Duration;

use gapless_core::Repeats;
use gapless_tables::{Bell, Changes, Consistency, Moment, SourceError};
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use super::live_table::{LiveTable, PassEnd, own_cursor};

/// How often a table is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often it is where changes are announced.
const LOOK_EVERY_ANNOUNCED: Duration = Duration::from_secs(1);
/// How long to wait after a failure.
const FAILED_PAUSE: Duration = Duration::from_secs(1);
/// How many changes are read at a time.
const PAGE_CHANGES: u32 = 1_000;

/// Looks again and again, until the server stops or nobody follows the table any more.
pub(super) async fn poll(table: &Arc<LiveTable>, stops: impl Future<Output = ()>) {
    debug!(table = table.served().name(), "polling");
    tokio::select! {
        () = stops => {}
        () = look_again(table) => debug!(table = table.served().name(), "nobody follows it any more"),
    }
}

async fn look_again(table: &Arc<LiveTable>) {
    let mut poller = Poller {
        table: Arc::clone(table),
        place: None,
        bell: None,
        repeats: Repeats::default(),
        has_failed: false,
    };
    while !table.is_left() {
        match poller.look().await {
            Ok(()) => poller.wait().await,
            Err(error) => {
                poller.handle_failed(&error);
                sleep(FAILED_PAUSE).await;
            }
        }
    }
}

struct Poller {
    table: Arc<LiveTable>,
    place: Option<Place>,
    bell: Option<Bell>,
    repeats: Repeats,
    has_failed: bool,
}

/// How far it is.
struct Place {
    cursor: String,
    /// The moment of the pass that is under way.
    pass: Option<Moment>,
}

impl Poller {
    /// Reads until a pass has ended.
    async fn look(&mut self) -> Result<(), SourceError> {
        let served = self.table.served();
        if self.bell.is_none() {
            // Before the look, so that nothing is announced unheard between.
            self.bell = served.source().await?.listen().await?;
        }
        let Some(place) = &mut self.place else {
            let (cursor, moment) = served.newest().await?;
            self.table.begin(PassEnd { moment, cursor: own_cursor(&cursor) });
            self.place = Some(Place { cursor, pass: None });
            self.repeats = Repeats::default();
            return Ok(());
        };
        loop {
            let read = served.changes(&place.cursor, PAGE_CHANGES, place.pass.clone()).await?;
            let Changes { mut changes, cursor, has_more, began } = read;
            place.cursor = cursor;
            place.pass = began.or(place.pass.take());
            if served.consistency() == Consistency::Watched {
                self.repeats.handle_reads(self.table.behind_reads());
                changes.retain(|change| self.repeats.is_new(change.key, &change.record));
            }
            let ended = place.pass.take_if(|_| !has_more);
            let end = ended.map(|moment| PassEnd { moment, cursor: own_cursor(&place.cursor) });
            self.table.handle_changes(changes, end);
            if !has_more {
                self.has_failed = false;
                return Ok(());
            }
        }
    }

    /// Waits until it is time to look again.
    async fn wait(&mut self) {
        let Some(bell) = &mut self.bell else { return sleep(LOOK_EVERY).await };
        match timeout(LOOK_EVERY_ANNOUNCED, bell.rung()).await {
            Ok(true) | Err(_) => {}
            Ok(false) => self.bell = None,
        }
    }

    /// What it was told last may be worth nothing any more.
    fn handle_failed(&mut self, error: &SourceError) {
        match error {
            SourceError::Cursor(_) => (self.place, self.bell) = (None, None),
            SourceError::Request(_)
            | SourceError::Setup(_)
            | SourceError::Changed(_)
            | SourceError::Crowded
            | SourceError::Unavailable(_) => {}
        }
        if !std::mem::replace(&mut self.has_failed, true) {
            warn!(table = self.table.served().name(), %error, "its followers are told nothing until it can be read again");
        }
    }
}
