//! What an answer of PostgreSQL means for a copy.

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use crate::replicate::sink::SinkError;

/// What keeps a page from being written.
#[derive(Debug)]
pub(super) enum Trouble {
    Database(Error),
    /// Somebody else has moved the position.
    Moved,
    /// Somebody has repaired rows.
    Repaired,
    /// Nobody has prepared the target.
    Unprepared,
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Database(error)
    }
}

impl From<Trouble> for SinkError {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Database(error) => sink_error(error),
            Trouble::Moved => Self::InUse("the target, and has moved its position".to_owned()),
            Trouble::Repaired => Self::Repaired,
            Trouble::Unprepared => Self::Unavailable("it has to be prepared first".to_owned()),
        }
    }
}

/// What an answer means.
#[allow(clippy::needless_pass_by_value, reason = "so that it stands in `map_err` by its name")]
pub(super) fn sink_error(error: Error) -> SinkError {
    let text = text(&error);
    match error.code() {
        Some(code) if !is_passing(code) => SinkError::Failed(text),
        Some(_) | None => SinkError::Unavailable(text),
    }
}

/// Whether the same may go well later. A table or a column that vanished is looked up again, which tells more.
fn is_passing(code: &SqlState) -> bool {
    // Connections, resources, states of objects, operators, the system, conflicts; not authentication, contents, names.
    const CLASSES: [&str; 6] = ["08", "53", "55", "57", "58", "40"];
    CLASSES.contains(&code.code().get(..2).unwrap_or_default())
        || [
            SqlState::READ_ONLY_SQL_TRANSACTION,
            SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
            SqlState::UNDEFINED_TABLE,
            SqlState::UNDEFINED_COLUMN,
            SqlState::FEATURE_NOT_SUPPORTED,
        ]
        .contains(code)
}

fn text(error: &Error) -> String {
    let Some(found) = error.as_db_error() else {
        // What lies below is what tells most.
        return std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    };
    let column = found.column().map(|column| format!(", column `{column}`")).unwrap_or_default();
    let details = found.detail().map(|detail| format!(" ({detail})")).unwrap_or_default();
    format!("{}{column}{details}", found.message())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Table behaviour 11
    #[test]
    fn a_target_that_is_full_or_read_only_or_restarts_is_tried_again() {
        for code in [
            SqlState::DISK_FULL,
            SqlState::TOO_MANY_CONNECTIONS,
            SqlState::READ_ONLY_SQL_TRANSACTION,
            SqlState::ADMIN_SHUTDOWN,
            SqlState::LOCK_NOT_AVAILABLE,
            SqlState::T_R_DEADLOCK_DETECTED,
        ] {
            assert!(is_passing(&code), "{code:?}");
        }
        for code in [
            SqlState::INSUFFICIENT_PRIVILEGE,
            SqlState::INVALID_PASSWORD,
            SqlState::CHECK_VIOLATION,
            SqlState::UNDEFINED_OBJECT,
            SqlState::INVALID_CATALOG_NAME,
        ] {
            assert!(!is_passing(&code), "{code:?}");
        }
    }
}
