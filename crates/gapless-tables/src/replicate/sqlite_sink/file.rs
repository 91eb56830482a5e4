//! The file: who may fill it, and how connections to it are set up.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::replicate::sink::SinkError;

/// A file of SQLite that this process fills alone. Clones share that right; it ends with the last one, or with the process.
#[derive(Debug, Clone)]
pub struct SqliteFile {
    path: PathBuf,
    _lock: Arc<Held>,
}

#[derive(Debug)]
struct Held(File);

impl Drop for Held {
    /// Closing isn't enough: a child that is being started has the file open, too, until its program begins.
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::warn!(%error, "the lock of a copy's file ends with the process only");
        }
    }
}

/// How long to wait for a lock that somebody else holds for a moment.
const PATIENCE: Duration = Duration::from_secs(10);

impl SqliteFile {
    /// Takes a file. The lock is on a file next to it, since SQLite loses its own locks when somebody else opens and closes the file.
    pub fn take(path: &Path) -> Result<Self, SinkError> {
        let mut lock_path = path.as_os_str().to_owned();
        lock_path.push("-replica-lock");
        let lock = File::options().create(true).truncate(false).write(true).open(&lock_path);
        let lock = lock
            .map_err(|error| SinkError::Refused(format!("{} can't be made: {error}", lock_path.display())))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: Arc::new(Held(lock)) }),
            Err(TryLockError::WouldBlock) => Err(SinkError::InUse(path.display().to_string())),
            Err(TryLockError::Error(error)) => {
                Err(SinkError::Refused(format!("{} can't be locked: {error}", lock_path.display())))
            }
        }
    }

    /// Opens a connection that writes, each commit flushed; makes the file if there is none.
    pub(super) fn open(&self) -> Result<Connection, SinkError> {
        connect(&self.path, OpenFlags::SQLITE_OPEN_CREATE)
    }
}

/// Opens a connection to a file that somebody else may be filling.
pub(super) fn open_beside(path: &Path) -> Result<Connection, SinkError> {
    if !path.exists() {
        return Err(SinkError::Refused(format!("there is no file {}; correct the path", path.display())));
    }
    connect(path, OpenFlags::empty())
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, SinkError> {
    let flags = flags | OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(sink_error)?;
    connection.busy_timeout(PATIENCE).map_err(sink_error)?;
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL;
             PRAGMA synchronous = FULL;
             PRAGMA cache_size = -8192;",
        )
        .map_err(sink_error)?;
    Ok(connection)
}

/// What an answer of SQLite means.
#[allow(clippy::needless_pass_by_value, reason = "so that it stands in `map_err` by its name")]
pub(super) fn sink_error(error: rusqlite::Error) -> SinkError {
    let text = error.to_string();
    match error.sqlite_error_code() {
        Some(
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::DiskFull
            | ErrorCode::ReadOnly
            | ErrorCode::SystemIoFailure
            | ErrorCode::CannotOpen
            | ErrorCode::OutOfMemory,
        ) => SinkError::Unavailable(text),
        Some(_) | None => SinkError::Failed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_fills_a_file_and_the_next_may_when_it_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("copy.db");
        let held = SqliteFile::take(&path).unwrap();
        let shared = held.clone();
        drop(held);
        assert!(matches!(SqliteFile::take(&path), Err(SinkError::InUse(_))));
        drop(shared);
        SqliteFile::take(&path).unwrap();
    }
}
