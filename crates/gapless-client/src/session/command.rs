//! What a session wants done.

use std::fmt;

use gapless_proto::ClientMessage;

use crate::{Change, ClientEvent};

/// Numbers a session's connections, so that whatever comes late from an old one is told from its successor's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub(super) u64);

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Numbers the changes of the local state in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PersistId(pub(super) u64);

/// What a [`Session`](crate::Session) wants done. Do them in the order in which they come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Open a connection. What it brings goes to [`handle_message`](crate::Session::handle_message); its failure or end to
    /// [`handle_closed`](crate::Session::handle_closed).
    Connect {
        /// Its number.
        connection: ConnectionId,
        /// Whether the token used last was refused, so that another one is needed.
        fresh_token: bool,
    },
    /// Write a frame.
    Transmit {
        /// To which connection.
        connection: ConnectionId,
        /// What.
        message: ClientMessage,
    },
    /// Give up a connection, open or on its way. Whatever still comes from it is passed over.
    Close {
        /// Which.
        connection: ConnectionId,
    },
    /// Get a fresh token and give it to [`handle_token`](crate::Session::handle_token).
    FetchToken,
    /// Change the local state for good, then call [`handle_persisted`](crate::Session::handle_persisted).
    ///
    /// Changes are made in order. Several may be made together; one is made whole or not at all.
    Persist {
        /// Its number.
        id: PersistId,
        /// What changes.
        change: Change,
    },
    /// Tell the application.
    Report(ClientEvent),
}
