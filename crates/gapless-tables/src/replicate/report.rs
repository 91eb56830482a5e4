//! What a replicator tells about its work.

use std::time::Duration;

/// Something that whoever watches may want to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// The target is ready, and work begins or goes on.
    Ready {
        /// Whether the target has rows of an earlier run.
        goes_on: bool,
        /// About how many rows the table has, if that is known.
        rows_estimate: Option<u64>,
    },
    /// A page is in the target.
    Applied {
        /// Rows put in place.
        upserts: usize,
        /// Rows taken away.
        deletes: usize,
        /// How far the last row is behind the source's clock, while there is more.
        lag: Duration,
        /// Whether there is more at once.
        has_more: bool,
        /// What keeps rows from being delivered, if something does.
        held_by: Option<String>,
    },
    /// Nothing new is there.
    UpToDate,
    /// The table isn't as it was described, so it is looked at again.
    Reshaped,
    /// Rows of the target were repaired by somebody else, so its page is asked for again.
    Repaired,
    /// Something failed and is tried again.
    Failed {
        /// Where.
        side: Side,
        /// What kind of fault, in a word for metrics.
        kind: &'static str,
        /// What happened.
        reason: String,
        /// How long until it is tried again.
        pause: Duration,
        /// How often it has failed without a success in between.
        failures: u32,
    },
}

/// One of the two ends of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Where rows come from.
    Source,
    /// Where they go.
    Target,
}

impl Side {
    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Target => "target",
        }
    }
}
