//! What a reader holds, and how far that is from the truth.

use std::collections::BTreeMap;
use std::time::Instant;

use gapless_testkit::{TrueRow, Work};

use super::fault::Fault;
use crate::latencies::Latencies;

/// A change that a reader was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// A row is there, or has become another.
    Written {
        /// The row.
        id: i64,
        /// The number of the write that made it so.
        version: i64,
    },
    /// A row is gone.
    Deleted {
        /// The row.
        id: i64,
    },
}

/// A copy of the table, made of the changes that one reader was given.
#[derive(Debug)]
pub(super) struct Holding {
    /// The version of each row.
    rows: BTreeMap<i64, i64>,
    /// When each version came first.
    told_at: BTreeMap<i64, Instant>,
    repeated: u64,
    is_stuck: bool,
    queries: Latencies,
}

/// What is wrong with a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Faults {
    pub(super) missing: u64,
    pub(super) stale: u64,
    pub(super) repeated: u64,
    pub(super) phantoms: u64,
    pub(super) is_stuck: bool,
}

impl Holding {
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            rows: BTreeMap::new(),
            told_at: BTreeMap::new(),
            repeated: 0,
            is_stuck: false,
            queries: Latencies::new()?,
        })
    }

    /// Takes a change; says whether it is one that the reader wasn't given before.
    pub(super) fn take(&mut self, change: Change, now: Instant) -> bool {
        match change {
            Change::Written { id, version } => {
                let is_new = !self.told_at.contains_key(&version);
                if is_new {
                    self.told_at.insert(version, now);
                    self.rows.insert(id, version);
                } else {
                    self.repeated += 1;
                }
                is_new
            }
            Change::Deleted { id } => self.rows.remove(&id).is_some(),
        }
    }

    /// The reader got a full page that left its cursor where it was.
    pub(super) fn got_stuck(&mut self) {
        self.is_stuck = true;
    }

    /// The reader waited so long for a page.
    pub(super) fn asked(&mut self, since: Instant) -> anyhow::Result<()> {
        self.queries.record(since.elapsed())
    }

    /// How long the pages took.
    pub(super) fn queries(&self) -> &Latencies {
        &self.queries
    }

    /// From each commit to when the reader was told first, of what it was told at all.
    pub(super) fn lag(&self, work: &Work) -> anyhow::Result<Latencies> {
        let mut lag = Latencies::new()?;
        for (version, told_at) in &self.told_at {
            if let Some(committed_at) = work.committed_at.get(version) {
                lag.record(told_at.saturating_duration_since(*committed_at))?;
            }
        }
        Ok(lag)
    }

    /// Compares the copy with what the table really holds.
    pub(super) fn faults(&self, truth: &BTreeMap<i64, TrueRow>) -> Faults {
        let count = |is_one: &dyn Fn(Option<&i64>, i64) -> bool| {
            truth.iter().filter(|(id, row)| is_one(self.rows.get(id), row.version)).count() as u64
        };
        Faults {
            missing: count(&|held, _| held.is_none()),
            stale: count(&|held, version| held.is_some_and(|held| *held != version)),
            repeated: self.repeated,
            phantoms: self.rows.keys().filter(|id| !truth.contains_key(id)).count() as u64,
            is_stuck: self.is_stuck,
        }
    }
}

impl Faults {
    /// Whether there is any of one kind.
    pub(super) fn has(self, fault: Fault) -> bool {
        match fault {
            Fault::Missing => self.missing > 0,
            Fault::Stale => self.stale > 0,
            Fault::Repeated => self.repeated > 0,
            Fault::Phantom => self.phantoms > 0,
            Fault::Stuck => self.is_stuck,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_is_counted_as_what_it_is() {
        let now = Instant::now();
        let mut holding = Holding::new().unwrap();
        for (id, version) in [(1, 1), (2, 2), (3, 3), (3, 3)] {
            holding.take(Change::Written { id, version }, now);
        }
        // Row 1 is as it is held; 2 was written again; 3 was deleted; 4 was inserted.
        let truth = BTreeMap::from([(1, row(1)), (2, row(5)), (4, row(4))]);
        assert_eq!(
            holding.faults(&truth),
            Faults { missing: 1, stale: 1, repeated: 1, phantoms: 1, is_stuck: false }
        );

        holding.take(Change::Written { id: 2, version: 5 }, now);
        holding.take(Change::Written { id: 4, version: 4 }, now);
        holding.take(Change::Deleted { id: 3 }, now);
        assert_eq!(
            holding.faults(&truth),
            Faults { missing: 0, stale: 0, repeated: 1, phantoms: 0, is_stuck: false }
        );
    }

    #[test]
    fn a_repeated_version_does_not_overwrite_a_newer_one() {
        let mut holding = Holding::new().unwrap();
        assert!(holding.take(Change::Written { id: 1, version: 1 }, Instant::now()));
        assert!(holding.take(Change::Written { id: 1, version: 2 }, Instant::now()));
        assert!(!holding.take(Change::Written { id: 1, version: 1 }, Instant::now()));
        assert_eq!(holding.faults(&BTreeMap::from([(1, row(2))])).stale, 0);
    }

    fn row(version: i64) -> TrueRow {
        TrueRow { status: "paid".to_owned(), version, updated_at_us: 0 }
    }
}
