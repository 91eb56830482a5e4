//! The file: who may use it, how connections to it are set up, and its schema.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, MAIN_DB, OpenFlags};

use crate::{Migrated, OpenError};

mod embedded {
    refinery::embed_migrations!("migrations/sqlite");
}

/// Marks a file as a database of gapless: `gapl`.
const APPLICATION_ID: i32 = i32::from_be_bytes(*b"gapl");
/// How long to wait for a lock that somebody else holds for a moment: a backup, or a person with the SQLite shell.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait where it can be tried again later.
const SHORT_PATIENCE: Duration = Duration::from_millis(20);
/// How many kinds of statement a connection keeps prepared.
const PREPARED_STATEMENTS_MAX: usize = 64;

/// The right to use a file. Whoever holds a clone holds it; it ends with the last one, or with the process, however that
/// ends.
pub(super) type FileLock = Arc<Held>;

/// A file that is locked.
#[derive(Debug)]
pub(super) struct Held(File);

impl Drop for Held {
    /// Closing the file isn't enough: a child that is being started has it open, too, until its program begins.
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::warn!(%error, "the lock of the database's file ends with the process only");
        }
    }
}

/// Takes the file for this process.
///
/// Two processes could share a SQLite file, but the one wouldn't hear the other's news. The lock is on a file next to
/// it, since SQLite loses its own locks when somebody else opens and closes the file.
pub(super) fn lock(path: &Path) -> Result<FileLock, OpenError> {
    let mut lock_path = resolve(path)?.into_os_string();
    lock_path.push("-lock");
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(lock_path)
        .map_err(|error| not_had(path, error))?;
    match lock.try_lock() {
        Ok(()) => Ok(Arc::new(Held(lock))),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { path: path.to_owned() }),
        Err(TryLockError::Error(error)) => Err(not_had(path, error)),
    }
}

/// Opens the connection that writes; makes the file if there is none.
pub(super) fn open_for_writing(path: &Path) -> Result<Connection, OpenError> {
    let connection = open(path)?;
    // SQLite opens a file that may not be written nevertheless, and would fail at the first append.
    if connection.is_readonly(MAIN_DB).map_err(|error| not_opened(path, error))? {
        return Err(OpenError::ReadOnly { path: path.to_owned() });
    }
    claim(path, &connection).map_err(|error| not_opened(path, error))??;
    set_up_for_writing(&connection).map_err(|error| not_opened(path, error))?;
    Ok(connection)
}

/// Opens a connection that can't write.
pub(super) fn open_for_reading(path: &Path) -> Result<Connection, OpenError> {
    let connection = open(path)?;
    connection
        .execute_batch(
            "PRAGMA query_only = ON;
             PRAGMA cache_size = -8192;",
        )
        .map_err(|error| not_opened(path, error))?;
    Ok(connection)
}

/// Opens a connection that copies the write-ahead log into the database.
pub(super) fn open_for_copying(path: &Path) -> Result<Connection, OpenError> {
    let connection = open(path)?;
    set_up_for_writing(&connection).map_err(|error| not_opened(path, error))?;
    Ok(connection)
}

/// Does something that gives up soon when somebody else is in the way.
pub(super) fn with_short_patience<T>(
    connection: &Connection,
    work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    connection.busy_timeout(SHORT_PATIENCE)?;
    let done = work(connection);
    connection.busy_timeout(PATIENCE)?;
    done
}

/// Brings the schema up to date.
pub(super) fn migrate(path: &Path, connection: &mut Connection) -> Result<Migrated, OpenError> {
    let runner = embedded::migrations::runner().set_grouped(true);
    let known = Migrated::newest(&runner);
    let report = runner.run(connection).map_err(|error| OpenError::of_migration(error, known))?;
    let migrated = Migrated::of(&report, known);
    if !migrated.applied.is_empty() {
        tracing::info!(path = %path.display(), version = known, "brought the schema up to date");
    }
    Ok(migrated)
}

fn open(path: &Path) -> Result<Connection, OpenError> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection =
        Connection::open_with_flags(resolve(path)?, flags).map_err(|error| not_opened(path, error))?;
    connection.busy_timeout(PATIENCE).map_err(|error| not_opened(path, error))?;
    connection.set_prepared_statement_cache_capacity(PREPARED_STATEMENTS_MAX);
    Ok(connection)
}

/// Marks an empty file as ours, and refuses one that somebody else has filled.
fn claim(path: &Path, connection: &Connection) -> rusqlite::Result<Result<(), OpenError>> {
    let application: i32 = connection.query_row("PRAGMA application_id", (), |row| row.get(0))?;
    if application == APPLICATION_ID {
        return Ok(Ok(()));
    }
    let is_filled: bool =
        connection.query_row("SELECT EXISTS (SELECT 1 FROM sqlite_schema)", (), |row| row.get(0))?;
    if application != 0 || is_filled {
        return Ok(Err(OpenError::NotADatabase { path: path.to_owned() }));
    }
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    Ok(Ok(()))
}

fn set_up_for_writing(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "PRAGMA journal_mode = WAL;
         PRAGMA synchronous = FULL;
         PRAGMA cache_size = -65536;",
    )
}

/// The file itself, whatever links lead to it.
fn resolve(path: &Path) -> Result<PathBuf, OpenError> {
    if let Ok(resolved) = path.canonicalize() {
        if resolved.is_dir() {
            return Err(OpenError::IsFolder { path: path.to_owned() });
        }
        return Ok(resolved);
    }
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        Some(_) | None => Path::new("."),
    };
    let name = path.file_name().ok_or_else(|| OpenError::NotADatabase { path: path.to_owned() })?;
    let folder = folder.canonicalize().map_err(|_| OpenError::NoFolder { folder: folder.to_owned() })?;
    Ok(folder.join(name))
}

/// The system doesn't let us have the file.
fn not_had(path: &Path, error: impl std::error::Error + Send + Sync + 'static) -> OpenError {
    OpenError::File { path: path.to_owned(), source: Box::new(error) }
}

fn not_opened(path: &Path, error: rusqlite::Error) -> OpenError {
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => OpenError::NotADatabase { path: path.to_owned() },
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => not_had(path, error),
        Some(_) | None => unreachable(error),
    }
}

pub(super) fn unreachable(error: impl std::error::Error + Send + Sync + 'static) -> OpenError {
    OpenError::Unreachable(Box::new(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Behaviour 11
    #[test]
    fn every_commit_is_flushed() {
        let folder = tempfile::tempdir().unwrap();
        let connection = open_for_writing(&folder.path().join("gapless.db")).unwrap();
        let journal: String = connection.query_row("PRAGMA journal_mode", (), |row| row.get(0)).unwrap();
        let synchronous: i32 = connection.query_row("PRAGMA synchronous", (), |row| row.get(0)).unwrap();
        assert_eq!((journal.as_str(), synchronous), ("wal", 2));
    }

    #[test]
    fn a_connection_that_reads_can_not_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gapless.db");
        migrate(&path, &mut open_for_writing(&path).unwrap()).unwrap();
        let reader = open_for_reading(&path).unwrap();
        assert!(reader.execute("DELETE FROM feed", ()).is_err());
    }

    #[test]
    fn a_lock_ends_when_it_is_dropped_even_if_a_child_has_the_file_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gapless.db");
        let held = lock(&path).unwrap();
        let of_a_child = held.0.try_clone().unwrap();
        assert!(matches!(lock(&path), Err(OpenError::InUse { .. })));
        drop(held);
        drop(lock(&path).unwrap());
        drop(of_a_child);
    }
}
