//! Copies what is committed from the write-ahead log into the database itself, beside the writer.
//!
//! SQLite would do this within a commit now and then, and whoever waits for that commit would wait for all of the copying.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;

use super::file;
use crate::OpenError;

/// At how many pages the log is copied. A page that changed often since is copied once; reads look through all of the log.
const PAGES_BEFORE_COPYING: u64 = 8_000;
/// With how many pages not yet copied the writer finishes by itself. Until it does, the log only grows.
const PAGES_LEFT_TO_WRITER_MAX: u64 = 500;
/// At how many pages the writer finishes whatever is left, so that the log doesn't grow without end.
const PAGES_MAX: u64 = 100_000;

/// The writer's end: says when to copy, and begins the log anew.
#[derive(Debug)]
pub(super) struct Checkpoints {
    phase: Phase,
    /// At how many pages to copy the next time.
    due_at: u64,
    is_copying: Arc<AtomicBool>,
    /// Gone when the thread is to end.
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Growing,
    Copying,
}

/// The log's length in pages, and how many of those are copied.
#[derive(Debug, Clone, Copy)]
struct Log {
    pages: u64,
    copied: u64,
}

impl Checkpoints {
    /// Starts the thread that copies. `connection` is the writer's, which then copies nothing unasked.
    pub(super) fn start(path: &Path, connection: &Connection) -> Result<Self, OpenError> {
        connection.pragma_update(None, "wal_autocheckpoint", 0).map_err(file::unreachable)?;
        let copying = file::open_for_copying(path)?;
        let is_copying = Arc::new(AtomicBool::new(false));
        let (wake, woken) = sync_channel(1);
        let thread = thread::Builder::new().name("gapless-copier".to_owned()).spawn({
            let is_copying = Arc::clone(&is_copying);
            move || {
                while woken.recv().is_ok() {
                    note_failure(checkpoint(&copying, "PASSIVE"));
                    is_copying.store(false, Ordering::Release);
                }
            }
        });
        Ok(Self {
            phase: Phase::Growing,
            due_at: PAGES_BEFORE_COPYING,
            is_copying,
            wake: Some(wake),
            thread: Some(thread.map_err(file::unreachable)?),
        })
    }

    /// Does what is due after a commit; returns soon.
    pub(super) fn after_commit(&mut self, connection: &Connection) {
        if self.is_copying.load(Ordering::Acquire) {
            return;
        }
        // Only asks how things are.
        let Some(log) = note_failure(checkpoint(connection, "NOOP")) else {
            return;
        };
        let is_left_to_writer = log.pages - log.copied <= PAGES_LEFT_TO_WRITER_MAX || log.pages >= PAGES_MAX;
        match self.phase {
            Phase::Growing if log.pages < self.due_at => {}
            Phase::Copying if is_left_to_writer => self.begin_anew(connection, log),
            Phase::Growing | Phase::Copying => self.copy(),
        }
    }

    fn copy(&mut self) {
        self.phase = Phase::Copying;
        self.is_copying.store(true, Ordering::Release);
        if let Some(wake) = &self.wake {
            // The thread takes one order before it lets go of `is_copying`, so there is room.
            let _ = wake.try_send(());
        }
    }

    /// Copies the rest and lets the next commit begin at the start of the log, unless a read of the old log goes on.
    fn begin_anew(&mut self, connection: &Connection, log: Log) {
        self.phase = Phase::Growing;
        let rest = file::with_short_patience(connection, |connection| checkpoint(connection, "RESTART"));
        self.due_at = match note_failure(rest) {
            Some(rest) if rest.copied == rest.pages => PAGES_BEFORE_COPYING,
            Some(_) | None => log.pages + PAGES_BEFORE_COPYING,
        };
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.wake = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that copies the write-ahead log panicked");
        }
    }
}

fn checkpoint(connection: &Connection, mode: &str) -> rusqlite::Result<Log> {
    let mut statement = connection.prepare_cached(&format!("PRAGMA wal_checkpoint({mode})"))?;
    statement.query_row((), |row| {
        let (pages, copied): (i64, i64) = (row.get(1)?, row.get(2)?);
        // Both are -1 while there is no log.
        let pages = pages.try_into().unwrap_or(0);
        Ok(Log { pages, copied: copied.try_into().unwrap_or(pages) })
    })
}

/// A log that can't be copied now, as on a full disk, is copied later; nothing is lost.
fn note_failure<T>(outcome: rusqlite::Result<T>) -> Option<T> {
    outcome
        .inspect_err(
            |error| tracing::warn!(%error, "the write-ahead log could not be copied; trying again later"),
        )
        .ok()
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    struct Writing {
        folder: TempDir,
        connection: Connection,
        checkpoints: Checkpoints,
    }

    impl Writing {
        fn begin() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("gapless.db");
            let connection = file::open_for_writing(&path).unwrap();
            let checkpoints = Checkpoints::start(&path, &connection).unwrap();
            connection.execute_batch("CREATE TABLE number (number INTEGER)").unwrap();
            Self { folder, connection, checkpoints }
        }

        /// Commits until the log is so many pages long.
        fn commit_to(&mut self, pages: u64) {
            while self.log().pages < pages {
                self.commit();
            }
        }

        fn commit(&self) {
            self.connection.execute("INSERT INTO number VALUES (1)", ()).unwrap();
        }

        /// Lets the thread copy to its end.
        fn after_commit(&mut self) {
            self.checkpoints.after_commit(&self.connection);
            while self.checkpoints.is_copying.load(Ordering::Acquire) {
                thread::yield_now();
            }
        }

        fn log(&self) -> Log {
            checkpoint(&self.connection, "NOOP").unwrap()
        }
    }

    #[test]
    fn a_long_log_is_copied_and_begun_anew() {
        let mut writing = Writing::begin();
        writing.checkpoints.due_at = 20;
        writing.commit_to(19);
        writing.after_commit();
        assert_eq!(writing.log().copied, 0);

        writing.commit_to(20);
        writing.after_commit();
        assert_eq!((writing.log().pages, writing.log().copied), (20, 20));
        writing.commit_to(25);
        writing.after_commit();
        writing.commit();
        assert!(writing.log().pages < 20, "the log goes on growing: {:?}", writing.log());
    }

    #[test]
    fn a_read_that_goes_on_puts_the_new_beginning_off() {
        let mut writing = Writing::begin();
        let reader = file::open_for_reading(&writing.folder.path().join("gapless.db")).unwrap();
        reader.execute_batch("BEGIN; SELECT * FROM number").unwrap();
        writing.checkpoints.due_at = 20;
        writing.commit_to(20);
        writing.after_commit();
        writing.after_commit();
        assert!(writing.checkpoints.due_at > PAGES_BEFORE_COPYING);
        writing.commit();
        assert!(writing.log().pages > 20);

        reader.execute_batch("COMMIT").unwrap();
        writing.checkpoints.due_at = 20;
        writing.after_commit();
        writing.after_commit();
        writing.commit();
        assert!(writing.log().pages < 20);
    }
}
