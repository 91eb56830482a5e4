//! Where a reader of a table is, so that it misses no change however late that is committed.
//!
//! A reader goes through the table in *passes*. A pass fixes what has ended when it begins, and delivers the difference to the pass
//! before: first the rows behind the cursor that came late, then those beyond it. What is open meanwhile is left to a later pass, and
//! nothing waits for it.
//!
//! Those who follow one table share what one reader finds, the [`TableTail`]; each of them is a [`TableFollower`].

mod cursor;
mod floor;
mod follower;
mod repeats;
mod snapshot;
mod tail;
#[cfg(test)]
mod tests;

pub use cursor::{Mark, Place, StepEnd, TableCursor, TableStep};
pub use floor::Floor;
pub use follower::{FollowerStep, TableFollower};
pub use repeats::Repeats;
pub use snapshot::{Snapshot, SnapshotError};
pub use tail::{Boundary, Found, TableTail};
