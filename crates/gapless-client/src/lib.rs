//! The Rust client of gapless: a pure [`Session`] that decides, and what keeps its state.

mod event;
mod session;
mod state;

pub use event::{ClientEvent, Delivered, DisconnectReason, Fault, RefusedSend, StopReason};
pub use gapless_core::{Advance, OutboxId, OutboxMessage, ResetReason};
pub use session::{
    Closed, Command, ConnectionId, Follow, PersistId, SendError, Session, SessionConfig, WatchError,
};
pub use state::{Change, LocalState, Snapshot};
