//! Entries reach the application before they count as held.

use gapless_proto::ConvId;
use tokio::task::spawn_blocking;

use crate::{Advance, Change, LocalState, Snapshot};

/// A [`LocalState`] that hands entries to the application before the position behind them is kept.
///
/// So every entry is handled at least once: a crash between the two hands it over again. For exactly once, keep the position in
/// the database that the handling changes, in the same transaction (see [`LocalState`]).
///
/// The handler may block; meanwhile the connection is kept, and once enough waits for it, nothing more is read from the server.
///
/// An error of the handler stops the client before anything is acknowledged. An entry that can't be used (an unknown kind, a
/// body that makes no sense) is no reason for one, since it comes again after every restart: pass it over.
#[derive(Debug)]
pub struct HandleFirst<S, H> {
    state: S,
    /// `None` only while it runs, or after it panicked.
    handle: Option<H>,
}

/// What a handler is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handled<'a> {
    /// New entries, in order.
    Entries(&'a ConvId, &'a Advance),
    /// The log was rewound: what was handled of this conversation is void.
    Reset(&'a ConvId),
}

/// Why changes weren't made.
#[derive(Debug, thiserror::Error)]
pub enum HandleFirstError<S, H>
where
    S: std::error::Error + 'static,
    H: std::error::Error + 'static,
{
    /// The local state failed.
    #[error(transparent)]
    State(S),
    /// The application couldn't take the entries.
    #[error("the application could not take the entries")]
    Handle(#[source] H),
    /// The handler panicked.
    #[error("the application's handler panicked")]
    Panicked,
}

impl<S, H> HandleFirst<S, H> {
    /// Calls `handle` with all that `state` is to keep of conversations, before it does.
    pub fn new(state: S, handle: H) -> Self {
        Self { state, handle: Some(handle) }
    }
}

impl<S, H, E> LocalState for HandleFirst<S, H>
where
    S: LocalState,
    H: FnMut(Handled<'_>) -> Result<(), E> + Send + 'static,
    E: std::error::Error + Send + Sync + 'static,
{
    type Error = HandleFirstError<S::Error, E>;

    async fn load(&mut self) -> Result<Snapshot, Self::Error> {
        self.state.load().await.map_err(HandleFirstError::State)
    }

    async fn apply(&mut self, changes: &[Change]) -> Result<(), Self::Error> {
        let to_handle: Vec<_> =
            changes.iter().filter(|change| as_handled(change).is_some()).cloned().collect();
        if !to_handle.is_empty() {
            let mut handle = self.handle.take().ok_or(HandleFirstError::Panicked)?;
            let handling = spawn_blocking(move || {
                let outcome = to_handle.iter().filter_map(as_handled).try_for_each(&mut handle);
                (handle, outcome)
            });
            let (handle, outcome) = handling.await.map_err(|_| HandleFirstError::Panicked)?;
            self.handle = Some(handle);
            outcome.map_err(HandleFirstError::Handle)?;
        }
        self.state.apply(changes).await.map_err(HandleFirstError::State)
    }
}

fn as_handled(change: &Change) -> Option<Handled<'_>> {
    match change {
        Change::Advance { conv, advance } => Some(Handled::Entries(conv, advance)),
        Change::Reset { conv } => Some(Handled::Reset(conv)),
        Change::Claim(_) | Change::Enqueue(_) | Change::Dequeue(_) => None,
    }
}
