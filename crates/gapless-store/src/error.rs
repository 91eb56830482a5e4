//! What can go wrong in a store, an enum an operation.

use std::path::PathBuf;
use std::time::Duration;

use gapless_core::{AppendRefusal, CursorRefusal};
use gapless_proto::{Epoch, Seq};

/// The store can't answer at the moment, or is broken. The source is for the log, never for a peer.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database can't be reached, was restarted, or took too long. Passing.
    #[error("the store can't be reached")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// So much waits that more is refused.
    #[error("the store is busy")]
    Busy,
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// The database holds or says something that this version can't make sense of. Not passing.
    #[error("the store holds what this version can't read")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl StoreError {
    /// Whether trying again later may help.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Busy | Self::Closed => true,
            Self::Broken(_) => false,
        }
    }

    /// When trying again may help.
    pub fn retry_after(&self) -> Duration {
        match self {
            Self::Busy => Duration::from_millis(200),
            Self::Unreachable(_) | Self::Closed | Self::Broken(_) => Duration::from_secs(1),
        }
    }
}

/// Why an append has no entry to show.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// It was refused, and nothing was stored.
    #[error(transparent)]
    Refused(#[from] AppendRefusal),
    /// Whether it was stored isn't known: repeat it with the same key.
    #[error("the append's outcome isn't known; repeat it with the same key")]
    Store(#[from] StoreError),
}

/// Why a conversation wasn't created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// There is one of that name.
    #[error(
        "there is a conversation of that name; `GET /v1/conversations/{{id}}` shows whether it is the one you made before, else \
         choose another name"
    )]
    Exists,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// There is no such conversation, or the reader never was in it.
    #[error("there is no such conversation")]
    NotFound,
    /// The cursor is from another life of the log.
    #[error("the log was rewound since (its epoch is {epoch} now); start it over")]
    EpochChanged {
        /// The present epoch.
        epoch: Epoch,
    },
    /// The cursor is beyond the head.
    #[error("the cursor is beyond the head ({head}) of this log; start it over")]
    CursorAhead {
        /// The head.
        head: Seq,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<CursorRefusal> for PageError {
    fn from(refusal: CursorRefusal) -> Self {
        match refusal {
            CursorRefusal::EpochChanged { epoch } => Self::EpochChanged { epoch },
            CursorRefusal::Ahead { head } => Self::CursorAhead { head },
        }
    }
}

/// Why a store can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no folder for the file.
    #[error("there is no folder {}; create it, or choose another place for the database", folder.display())]
    NoFolder {
        /// The folder.
        folder: PathBuf,
    },
    /// A folder is named where a file should be.
    #[error("{} is a folder; name a file in it, as in sqlite:{}", path.display(), path.join("gapless.db").display())]
    IsFolder {
        /// The folder.
        path: PathBuf,
    },
    /// The system doesn't let this process have the file.
    #[error("{} can't be opened; see that the server's user may write it and the folder that it is in", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file is there and is something else.
    #[error("{} isn't a database of gapless; choose another file", path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// Another process has the file open.
    #[error("{} is in use by another process; stop that one first", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The database server runs, and has no such database.
    #[error(
        "the server has no database {database:?}; create it, as `createdb {database}` does, or name another"
    )]
    NoDatabase {
        /// Its name.
        database: String,
    },
    /// PostgreSQL doesn't let the role make tables; from version 15 on it lets only the database's owner.
    #[error(
        "the role {role:?} may not create tables in the schema {schema:?}; make it the database's owner, or run there \
         as its owner or a superuser: GRANT CREATE ON SCHEMA \"{schema}\" TO \"{role}\""
    )]
    MayNotCreate {
        /// Who the server is to the database.
        role: String,
        /// Where its tables would go.
        schema: String,
    },
    /// The database server isn't one that keeps what the store promises.
    #[error("the database can't be used, since {0}")]
    Unsuitable(&'static str),
    /// The file may be read and not be written.
    #[error("{} may only be read; give the server's user the right to write it", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// The database was written by a later version.
    #[error(
        "the database has schema version {found}, and this program knows up to {known}; run a newer gapless"
    )]
    NewerSchema {
        /// The version that was found.
        found: i32,
        /// The newest version that is known.
        known: i32,
    },
    /// The schema can't be brought up to date.
    #[error("the database's schema can't be brought up to date; restore it from a backup, or see the cause")]
    Migration(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The database can't be reached or read.
    #[error(
        "the database can't be opened; see that it runs and that the address, the user and the rights are correct"
    )]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl OpenError {
    /// What a failed run of the migrations means, given the newest version that this program knows.
    pub(crate) fn of_migration(error: refinery::Error, known: i32) -> Self {
        if let refinery::error::Kind::MissingVersion(found) = error.kind()
            && found.version() > known
        {
            return Self::NewerSchema { found: found.version(), known };
        }
        Self::Migration(Box::new(error))
    }
}
