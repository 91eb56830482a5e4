//! Why a statement came to nothing.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::error::SqlState;

use crate::StoreError;

/// Why a statement came to nothing; for the log, never for a peer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// The database refused it, or the connection broke.
    #[error("PostgreSQL failed")]
    Database(#[from] tokio_postgres::Error),
    /// There is no connection.
    #[error("PostgreSQL can't be connected to")]
    Connecting(#[source] tokio_postgres::Error),
    /// The database said nothing.
    #[error("PostgreSQL gave no answer within {0:?}")]
    Silent(Duration),
    /// It was not tried, since connecting failed a moment ago.
    #[error("connecting to PostgreSQL failed a moment ago ({last}); the next attempt follows soon")]
    BackingOff {
        /// How that failed, in words.
        last: Arc<str>,
    },
    /// A row says something that can't be.
    #[error("a stored {what} can't be read")]
    Unreadable {
        /// Which value.
        what: &'static str,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Fault {
    pub(super) fn unreadable(
        what: &'static str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Unreadable { what, source: source.into() }
    }

    /// The fault and its causes, in words.
    pub(super) fn words(&self) -> String {
        let mut words = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            words.push_str(&format!(": {error}"));
            cause = error.source();
        }
        words
    }

    /// Whether the database has refused a statement on a connection that lives: then its transaction is rolled back.
    pub(super) fn is_refusal(&self) -> bool {
        match self {
            Self::Database(error) => error.as_db_error().is_some() && !self.is_of_connection(),
            Self::Connecting(_) | Self::Silent(_) | Self::BackingOff { .. } | Self::Unreadable { .. } => {
                false
            }
        }
    }

    /// Whether only this connection is to blame, so that a fresh one may do better at once.
    ///
    /// Among these is the complaint about a plan that was cached before a migration.
    pub(super) fn is_of_connection(&self) -> bool {
        match self {
            Self::Database(error) => match error.as_db_error() {
                None => true,
                Some(database) => {
                    let class = &database.code().code()[..2];
                    class == "08"
                        || [
                            SqlState::ADMIN_SHUTDOWN,
                            SqlState::CRASH_SHUTDOWN,
                            SqlState::FEATURE_NOT_SUPPORTED,
                            SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
                        ]
                        .contains(database.code())
                }
            },
            Self::Connecting(_) | Self::Silent(_) | Self::BackingOff { .. } | Self::Unreadable { .. } => {
                false
            }
        }
    }
}

/// Waits for an answer of the database, but not for ever: one that is frozen says nothing at all.
pub(super) async fn within<T>(
    patience: Duration,
    answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, Fault> {
    match timeout(patience, answer).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Fault::Silent(patience)),
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        (&Arc::new(fault)).into()
    }
}

impl From<&Arc<Fault>> for StoreError {
    fn from(fault: &Arc<Fault>) -> Self {
        let source = Box::new(Arc::clone(fault));
        match **fault {
            Fault::Database(_) | Fault::Connecting(_) | Fault::Silent(_) | Fault::BackingOff { .. } => {
                Self::Unreachable(source)
            }
            Fault::Unreadable { .. } => Self::Broken(source),
        }
    }
}
