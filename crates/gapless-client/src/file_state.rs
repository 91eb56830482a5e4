//! Local state in a file.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gapless_core::{OutboxId, OutboxMessage};
use gapless_proto::{Body, ConvId, Epoch, Key, Position, Seq, UserId};
use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, TableDefinition};
use serde::{Deserialize, Serialize};

use crate::{Change, LocalState, Snapshot};

#[cfg(test)]
mod tests;

/// Keeps positions and the outbox in a folder, so that they survive a crash of the process and of the machine.
///
/// It keeps no entries. An application that must not lose any between their being held and their being used hands them over
/// with [`HandleFirst`](crate::HandleFirst), or keeps positions in its own database.
///
/// One process at a time uses a folder; a second one is refused.
#[derive(Debug)]
pub struct FileState {
    database: Arc<Database>,
    path: Arc<Path>,
}

/// Why a folder can't be used.
#[derive(Debug, thiserror::Error)]
pub enum FileStateError {
    /// Another process uses it.
    #[error("{} is in use by another process; end that one, or give each process a folder of its own", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The file isn't what was written. Positions and unsent messages in it can't be trusted.
    #[error(
        "{} is damaged: {damage}; bring it back from a backup, or move it away to start over (then entries come again, and \
         messages that weren't sent are lost)",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        damage: String,
    },
    /// The file was written by a newer version.
    #[error("{} is of version {found}, but this program knows {VERSION}; use a newer program", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The version that was found.
        found: u64,
    },
    /// The disk or the file system failed.
    #[error("{} can't be read or written", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// How.
        #[source]
        error: io::Error,
    },
}

const FILE: &str = "state.redb";
/// Where a file is made, so that one that exists is always whole.
const NEW_FILE: &str = "state.redb.new";

const VERSION: u64 = 1;
const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");
const TEXTS: TableDefinition<'_, &str, &str> = TableDefinition::new("texts");
/// Conversation → epoch and seq.
const POSITIONS: TableDefinition<'_, &str, (u64, u64)> = TableDefinition::new("positions");
/// Number in the outbox → a [`StoredMessage`] in JSON.
const OUTBOX: TableDefinition<'_, u64, &str> = TableDefinition::new("outbox");

#[derive(Serialize, Deserialize)]
struct StoredMessage {
    conv: ConvId,
    key: Key,
    body: Body,
}

impl FileState {
    /// Opens the state in a folder, or makes both.
    pub fn open(folder: &Path) -> Result<Self, FileStateError> {
        let path = folder.join(FILE);
        let io = |error| FileStateError::Io { path: path.clone(), error };
        fs::create_dir_all(folder).map_err(io)?;
        if !path.try_exists().map_err(io)? {
            create(folder, &path)?;
        }
        if fs::metadata(&path).map_err(io)?.len() == 0 {
            return Err(FileStateError::Damaged { path, damage: "it is empty".to_owned() });
        }

        let mut builder = Database::builder();
        builder.set_check_integrity_on_open(true);
        let database = builder.open(&path).map_err(|error| from_open(&path, error))?;
        let state = Self { database: Arc::new(database), path: Arc::from(path) };
        state.check_version()?;
        Ok(state)
    }

    fn check_version(&self) -> Result<(), FileStateError> {
        let read = || -> Result<Option<u64>, redb::Error> {
            let reading = self.database.begin_read()?;
            let version = reading.open_table(NUMBERS)?.get("version")?;
            Ok(version.map(|version| version.value()))
        };
        match read().map_err(|error| from_use(&self.path, error))? {
            Some(VERSION) => Ok(()),
            Some(found) => Err(FileStateError::Version { path: self.path.to_path_buf(), found }),
            None => Err(self.damaged("it has no version")),
        }
    }

    fn read(&self) -> Result<Snapshot, FileStateError> {
        let (user, positions, messages) = self.read_raw().map_err(|error| from_use(&self.path, error))?;
        let mut snapshot = Snapshot::default();
        if let Some(user) = user {
            snapshot.user = Some(UserId::new(&user).map_err(|error| self.damaged(&error.to_string()))?);
        }
        for (conv, epoch, seq) in positions {
            let conv = ConvId::new(&conv).map_err(|error| self.damaged(&error.to_string()))?;
            let epoch = Epoch::new(epoch).map_err(|error| self.damaged(&error.to_string()))?;
            let seq = Seq::new(seq).map_err(|error| self.damaged(&error.to_string()))?;
            snapshot.positions.insert(conv, Position { epoch, seq });
        }
        for (id, text) in messages {
            let StoredMessage { conv, key, body } =
                serde_json::from_str(&text).map_err(|error| self.damaged(&error.to_string()))?;
            snapshot.outbox.push(OutboxMessage { id: OutboxId::new(id), conv, key, body });
        }
        Ok(snapshot)
    }

    fn read_raw(&self) -> Result<RawSnapshot, redb::Error> {
        let reading = self.database.begin_read()?;
        let user = reading.open_table(TEXTS)?.get("user")?.map(|user| user.value().to_owned());
        let mut positions = Vec::new();
        for row in reading.open_table(POSITIONS)?.iter()? {
            let (conv, position) = row?;
            let (epoch, seq) = position.value();
            positions.push((conv.value().to_owned(), epoch, seq));
        }
        let mut messages = Vec::new();
        for row in reading.open_table(OUTBOX)?.iter()? {
            let (id, message) = row?;
            messages.push((id.value(), message.value().to_owned()));
        }
        Ok((user, positions, messages))
    }

    fn damaged(&self, damage: &str) -> FileStateError {
        FileStateError::Damaged { path: self.path.to_path_buf(), damage: damage.to_owned() }
    }
}

/// User, positions and outbox as they stand in the file.
type RawSnapshot = (Option<String>, Vec<(String, u64, u64)>, Vec<(u64, String)>);

impl LocalState for FileState {
    type Error = FileStateError;

    async fn load(&mut self) -> Result<Snapshot, FileStateError> {
        self.read()
    }

    async fn apply(&mut self, changes: &[Change]) -> Result<(), FileStateError> {
        let rows = changes.iter().map(Row::from).collect();
        let database = self.database.clone();
        // A commit waits for the disk, which a runtime's thread must not.
        let writing = tokio::task::spawn_blocking(move || write(&database, rows));
        match writing.await {
            Ok(outcome) => outcome.map_err(|error| from_use(&self.path, error)),
            Err(error) => Err(FileStateError::Io { path: self.path.to_path_buf(), error: error.into() }),
        }
    }
}

/// A change as it goes into the file.
enum Row {
    User(UserId),
    Position(ConvId, Position),
    NoPosition(ConvId),
    Message(OutboxMessage),
    NoMessage(OutboxId),
}

impl From<&Change> for Row {
    fn from(change: &Change) -> Self {
        match change {
            Change::Claim(user) => Self::User(user.clone()),
            Change::Advance { conv, advance } => Self::Position(conv.clone(), advance.position),
            Change::Reset { conv } => Self::NoPosition(conv.clone()),
            Change::Enqueue(message) => Self::Message(message.clone()),
            Change::Dequeue(id) => Self::NoMessage(*id),
        }
    }
}

/// Makes all changes in one transaction and returns when they are on the disk.
fn write(database: &Database, rows: Vec<Row>) -> Result<(), redb::Error> {
    let writing = database.begin_write()?;
    {
        let mut texts = writing.open_table(TEXTS)?;
        let mut positions = writing.open_table(POSITIONS)?;
        let mut outbox = writing.open_table(OUTBOX)?;
        for row in rows {
            match row {
                Row::User(user) => drop(texts.insert("user", user.as_str())?),
                Row::Position(conv, position) => {
                    positions.insert(conv.as_str(), (position.epoch.get(), position.seq.get()))?;
                }
                Row::NoPosition(conv) => drop(positions.remove(conv.as_str())?),
                Row::Message(OutboxMessage { id, conv, key, body }) => {
                    outbox.insert(id.get(), encode(conv, key, body).as_str())?;
                }
                Row::NoMessage(id) => drop(outbox.remove(id.get())?),
            }
        }
    }
    writing.commit()?;
    Ok(())
}

fn encode(conv: ConvId, key: Key, body: Body) -> String {
    serde_json::to_string(&StoredMessage { conv, key, body })
        .expect("a message holds only texts and JSON that was checked")
}

/// Makes a file aside and then gives it its name, so that a crash leaves it whole or not there.
fn create(folder: &Path, path: &Path) -> Result<(), FileStateError> {
    let new = folder.join(NEW_FILE);
    let io = |error| FileStateError::Io { path: path.to_path_buf(), error };
    let database = Database::create(&new).map_err(|error| from_open(&new, error))?;
    prepare(&database).map_err(|error| from_use(&new, error))?;
    drop(database);
    fs::rename(&new, path).map_err(io)?;
    // The name is durable only when the folder is.
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io)
}

fn prepare(database: &Database) -> Result<(), redb::Error> {
    let writing = database.begin_write()?;
    writing.open_table(NUMBERS)?.insert("version", VERSION)?;
    writing.open_table(TEXTS)?;
    writing.open_table(POSITIONS)?;
    writing.open_table(OUTBOX)?;
    writing.commit()?;
    Ok(())
}

fn from_open(path: &Path, error: DatabaseError) -> FileStateError {
    if matches!(error, DatabaseError::DatabaseAlreadyOpen) {
        return FileStateError::InUse { path: path.to_path_buf() };
    }
    from_use(path, error.into())
}

fn from_use(path: &Path, error: redb::Error) -> FileStateError {
    let path = path.to_path_buf();
    if matches!(error, redb::Error::PreviousIo) {
        return FileStateError::Io { path, error: io::Error::other(error) };
    }
    if let redb::Error::Io(error) = error {
        // The file's first bytes aren't those of a database, or it ends too early.
        let is_content = [io::ErrorKind::InvalidData, io::ErrorKind::UnexpectedEof].contains(&error.kind());
        return if is_content {
            FileStateError::Damaged { path, damage: error.to_string() }
        } else {
            FileStateError::Io { path, error }
        };
    }
    FileStateError::Damaged { path, damage: error.to_string() }
}
