//! Where a copy goes.

use async_trait::async_trait;

use super::page::{Page, Values};
use super::plan::Misfit;
use super::position::Position;
use crate::wire::TableDescription;

/// Where the copy of one table goes.
///
/// Whoever has prepared it has it alone. Pages and positions are written together, so that whatever happens, the position that
/// [`prepare`](Self::prepare) tells is the one that its rows have led to.
#[async_trait]
pub trait Sink: Send {
    /// How it wants its values.
    fn values(&self) -> Values;

    /// Takes the target for us alone, makes or checks it, and tells how far its copy is. To be called first, after each failure, and when
    /// the table is described in another way.
    async fn prepare(&mut self, description: &TableDescription) -> Result<Position, SinkError>;

    /// Notes another position without any rows.
    async fn note(&mut self, from: &Position, to: &Position) -> Result<(), SinkError>;

    /// Writes a page and the position that it leads to, both or neither; nothing if the target isn't at `from` any more.
    async fn apply(&mut self, page: &Page, from: &Position, to: &Position) -> Result<(), SinkError>;

    /// Takes away all rows and the position, so that a copy begins anew.
    async fn clear(&mut self) -> Result<(), SinkError>;
}

/// Why a target doesn't take something.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// Somebody else fills it.
    #[error("another replicator fills {0}; stop that one first")]
    InUse(String),
    /// Rows of it were repaired since the page was asked for, which may be older than they are now.
    #[error("rows were repaired meanwhile; ask for the page again")]
    Repaired,
    /// It can't hold the copy.
    #[error(transparent)]
    Misfit(#[from] Misfit),
    /// It must be changed before it can hold the copy.
    #[error("{0}")]
    Refused(String),
    /// It may be there again soon.
    #[error("the target can't be written at the moment: {0}")]
    Unavailable(String),
    /// It answers with what won't pass by itself.
    #[error("the target refuses: {0}")]
    Failed(String),
}

impl SinkError {
    /// Its name in metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::InUse(_) => "in_use",
            Self::Misfit(_) => "misfit",
            Self::Refused(_) => "refused",
            Self::Repaired => "repaired",
            Self::Unavailable(_) => "unavailable",
            Self::Failed(_) => "failed",
        }
    }

    /// Whether the same may go well later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unavailable(_) | Self::Repaired => true,
            Self::InUse(_) | Self::Misfit(_) | Self::Refused(_) | Self::Failed(_) => false,
        }
    }
}
