//! What isn't known of deleted rows any more.

use super::Snapshot;

/// Notes of deleted rows that were purged, summed up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Floor {
    /// The highest value of the cursor column among them.
    pub at: i64,
    /// The highest transaction that wrote one of them; 0 if none of this database did.
    pub last: u64,
    /// A moment at which all those transactions had ended. So one that is as low, but was open still, wrote none of them.
    pub ended: Snapshot,
}

impl Floor {
    /// Whether all the transactions that may have written what was purged had ended at a moment.
    pub fn is_within(&self, moment: &Snapshot) -> bool {
        let ended_later = self.ended.ended_since(moment);
        self.last < moment.xmax() && ended_later.iter().all(|xid| *xid > self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_has_all_that_was_purged_unless_a_transaction_that_was_open_may_have_written_some() {
        let floor = Floor { at: 0, last: 15, ended: "12:30:12,20".parse().unwrap() };
        for (moment, is_within) in [
            ("16:16:", true),
            ("15:15:", false),
            ("14:40:14", false),
            // Still open when it was purged.
            ("12:40:12,18", true),
            ("12:16:12,13", false),
        ] {
            assert_eq!(floor.is_within(&moment.parse().unwrap()), is_within, "{moment}");
        }
        let foreign = Floor { last: 0, ended: Snapshot::default(), ..floor };
        assert!(foreign.is_within(&"3:3:".parse().unwrap()));
    }
}
