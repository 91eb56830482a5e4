//! Local state that ends with the process.

use std::convert::Infallible;

use crate::{Change, LocalState, Snapshot};

/// Keeps the local state in memory: nothing is lost while the process runs, everything when it ends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryState(Snapshot);

impl MemoryState {
    /// Knows nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts from what was kept elsewhere.
    pub fn from_snapshot(snapshot: Snapshot) -> Self {
        Self(snapshot)
    }
}

impl LocalState for MemoryState {
    type Error = Infallible;

    async fn load(&mut self) -> Result<Snapshot, Infallible> {
        Ok(self.0.clone())
    }

    async fn apply(&mut self, changes: &[Change]) -> Result<(), Infallible> {
        for change in changes {
            self.0.apply(change);
        }
        Ok(())
    }
}
