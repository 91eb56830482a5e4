//! Where one is in a feed.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The largest integer on the wire, 2⁵³ − 1: the largest that JavaScript keeps exact.
pub(crate) const INTEGER_MAX: u64 = (1 << 53) - 1;

/// Why a number can't be a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PositionError {
    /// The number is beyond 2⁵³ − 1.
    #[error("{what} {number} is too large; the largest is 9007199254740991")]
    TooLarge {
        /// Which number was meant.
        what: &'static str,
        /// The number that was given.
        number: u64,
    },
}

macro_rules! integer {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(try_from = "u64")]
        pub struct $name(u64);

        impl $name {
            /// Makes one from a number of at most 2⁵³ − 1.
            pub fn new(number: u64) -> Result<Self, PositionError> {
                if number > INTEGER_MAX {
                    return Err(PositionError::TooLarge { what: $what, number });
                }
                Ok(Self(number))
            }

            /// The number.
            pub const fn get(self) -> u64 {
                self.0
            }
        }

        impl TryFrom<u64> for $name {
            type Error = PositionError;

            fn try_from(number: u64) -> Result<Self, PositionError> {
                Self::new(number)
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let number: u64 = text.parse().map_err(|_| format!("{} must be a whole number, 0 or more", $what))?;
                Self::new(number).map_err(|error| error.to_string())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

integer!(
    /// The number of an entry in its feed: contiguous from 1. As a cursor, 0 stands before the first entry.
    Seq,
    "seq"
);
integer!(
    /// Which life of a log a seq belongs to.
    ///
    /// A feed's first epoch is the Unix time of its creation in milliseconds; whoever rewinds the log (a restore from
    /// backup) raises it to the time of that moment or by one, whichever is more. So no epoch is ever used twice, not even by a
    /// log that was restored twice from the same backup, or created anew under an old name.
    Epoch,
    "epoch"
);
integer!(
    /// Milliseconds since the Unix epoch, as the store's clock had it. For people; order is told by [`Seq`].
    Timestamp,
    "timestamp"
);

impl Seq {
    /// Before the first entry.
    pub const ZERO: Self = Self(0);
    /// The first entry of a feed.
    pub const FIRST: Self = Self(1);

    /// The seq after this one.
    ///
    /// # Panics
    ///
    /// Beyond 2⁵³ − 1, which a feed with a million entries a second reaches after 285 years.
    #[must_use]
    pub fn next(self) -> Self {
        assert!(self.0 < INTEGER_MAX, "a feed has at most {INTEGER_MAX} entries");
        Self(self.0 + 1)
    }

    /// The seq before this one; [`Seq::ZERO`] stays.
    #[must_use]
    pub const fn prev(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

impl Timestamp {
    /// The latest there is: some time in the year 287,396.
    pub const MAX: Self = Self(INTEGER_MAX);
}

impl Epoch {
    /// The epoch that follows when a log is rewound at `now`.
    #[must_use]
    pub fn raised(self, now: Timestamp) -> Self {
        Self((self.0 + 1).max(now.0))
    }

    /// The epoch of a feed that is created at `now`.
    pub fn of_creation(now: Timestamp) -> Self {
        Self(now.0.max(1))
    }
}

/// A place in one life of a feed: everything up to `seq` in `epoch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position {
    /// The life of the log.
    pub epoch: Epoch,
    /// The last seq that is passed.
    pub seq: Seq,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.seq, self.epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_never_used_twice_even_if_the_same_backup_is_restored_twice() {
        let backup = Epoch(1_000);
        let first_restore = backup.raised(Timestamp(5_000));
        let second_restore = backup.raised(Timestamp(9_000));
        assert!(backup < first_restore && first_restore < second_restore);
    }

    #[test]
    fn an_epoch_rises_even_when_the_clock_went_back() {
        assert_eq!(Epoch(9_000).raised(Timestamp(10)), Epoch(9_001));
    }

    #[test]
    fn a_position_beyond_what_javascript_keeps_exact_is_refused() {
        assert!(Seq::new(INTEGER_MAX).is_ok());
        assert!(serde_json::from_str::<Seq>("9007199254740992").is_err());
        assert!(serde_json::from_str::<Seq>("-1").is_err());
        assert!(serde_json::from_str::<Seq>("1.5").is_err());
    }
}
