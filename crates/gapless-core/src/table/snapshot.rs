//! Which transactions had ended at one moment.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Which transactions had ended at one moment: what PostgreSQL calls `pg_snapshot`, as in `10:20:10,14,15`.
///
/// All below the first number had ended, none from the second on, and of those in between all but the ones that are listed.
/// Subtransactions aren't listed.
///
/// The default is that of a moment before all transactions.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Snapshot {
    xmin: u64,
    xmax: u64,
    in_flight: Vec<u64>,
}

/// A text isn't a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this is no snapshot of PostgreSQL; it has the form `10:20:10,14,15`")]
pub struct SnapshotError;

impl Snapshot {
    /// Below this, every transaction had ended.
    pub fn xmin(&self) -> u64 {
        self.xmin
    }

    /// From this on, none had.
    pub fn xmax(&self) -> u64 {
        self.xmax
    }

    /// Whether a transaction had ended. `xid` is that of a whole transaction, not of a subtransaction.
    pub fn has_ended(&self, xid: u64) -> bool {
        xid < self.xmin || (xid < self.xmax && self.in_flight.binary_search(&xid).is_err())
    }

    /// Whether all that had ended at another moment had ended here. False where that can't be told from what is listed.
    pub fn includes(&self, other: &Self) -> bool {
        self.xmax >= other.xmax && !self.in_flight.iter().any(|xid| other.has_ended(*xid))
    }

    /// Those that were listed as open at an earlier moment and have ended since, in their order.
    pub fn ended_since(&self, base: &Self) -> Vec<u64> {
        base.in_flight.iter().copied().filter(|xid| self.has_ended(*xid)).collect()
    }

    /// The same with about so many transactions listed: those from the next one on count as open, so that what they did is left to a
    /// later snapshot. This bounds the size. What had ended at `base`, an earlier snapshot that was bounded alike, has ended here, too.
    #[must_use]
    pub fn capped(mut self, listed_max: usize, base: Option<&Self>) -> Self {
        if let Some(next) = self.in_flight.get(listed_max) {
            // Below the `xmax` of `base`, whoever is open now was already open then, and is one of those listed there.
            self.xmax = base.map_or(*next, |base| base.xmax.max(*next));
            self.in_flight.retain(|xid| *xid < self.xmax);
        }
        self
    }
}

impl FromStr for Snapshot {
    type Err = SnapshotError;

    fn from_str(text: &str) -> Result<Self, SnapshotError> {
        let number = |text: &str| text.parse::<u64>().map_err(|_| SnapshotError);
        let mut parts = text.split(':');
        let (Some(xmin), Some(xmax), Some(listed), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(SnapshotError);
        };
        let (xmin, xmax) = (number(xmin)?, number(xmax)?);
        let listed = listed.split(',').filter(|xid| !xid.is_empty());
        let in_flight = listed.map(number).collect::<Result<Vec<_>, _>>()?;
        let is_in_order = in_flight.windows(2).all(|pair| pair[0] < pair[1]);
        let is_within = in_flight.iter().all(|xid| (xmin..xmax).contains(xid));
        match xmin <= xmax && is_in_order && is_within {
            true => Ok(Self { xmin, xmax, in_flight }),
            false => Err(SnapshotError),
        }
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:", self.xmin, self.xmax)?;
        for (index, xid) in self.in_flight.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{xid}")?;
        }
        Ok(())
    }
}
