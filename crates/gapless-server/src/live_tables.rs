//! The tables of which somebody is told as they change.
//!
//! Of each there is one reader, the *poller*, for as long as anyone follows it. What it finds goes into a tail in memory that all share; a
//! subscription ([`Follow`]) looks there when its connection takes something, and reads the table itself only where the tail doesn't reach
//! back. Which of both, and how that leaves no seam, is decided by [`gapless_core::TableFollower`].

mod begin;
mod follow;
mod live_table;
mod poller;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use gapless_tables::Served;

pub(crate) use self::begin::Begin;
pub(crate) use self::follow::Follow;
pub(crate) use self::live_table::{Attached, LiveTable};

/// The tables that were followed here, by their names.
#[derive(Default)]
pub(crate) struct LiveTables(Mutex<HashMap<String, Arc<LiveTable>>>);

impl LiveTables {
    /// A table as it is followed.
    pub(crate) fn get(&self, served: &Arc<Served>) -> Arc<LiveTable> {
        let mut tables = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let table = tables.entry(served.name().to_owned());
        Arc::clone(table.or_insert_with(|| Arc::new(LiveTable::new(Arc::clone(served)))))
    }
}
