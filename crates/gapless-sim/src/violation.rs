//! What a world must never do.

use std::fmt;

/// A guarantee of gapless, by its number in the design.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Guarantee {
    /// G1: all readers see the same order.
    Order,
    /// G2: when an entry is visible, every earlier one is.
    CommitOrder,
    /// G3: a cursor means "I hold everything visible up to here".
    ContiguousCursor,
    /// G5: a position that can't be served gets a named answer, once.
    HonestPositions,
    /// G6: an acknowledged send is on disk, exactly once, and sends keep their order.
    Sends,
    /// G7: whatever gets lost is repaired within bounded time.
    ReplayOrConverge,
    /// G8: what a reader holds, after its revokes, is what the canonical chain has.
    Revocation,
    /// G9: a slow reader costs bounded memory, loses its whole queue and is told so.
    SlowReaders,
    /// G11: nobody gets an entry outside their membership intervals.
    Privacy,
    /// Not one of the numbered ones: no part is ever busy with nothing.
    NoBusyLoop,
}

impl Guarantee {
    const fn number(self) -> &'static str {
        match self {
            Self::Order => "G1",
            Self::CommitOrder => "G2",
            Self::ContiguousCursor => "G3",
            Self::HonestPositions => "G5",
            Self::Sends => "G6",
            Self::ReplayOrConverge => "G7",
            Self::Revocation => "G8",
            Self::SlowReaders => "G9",
            Self::Privacy => "G11",
            Self::NoBusyLoop => "no busy loop",
        }
    }
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.number())
    }
}

/// A guarantee that was broken, and how.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{guarantee} is broken: {how}")]
pub struct Violation {
    /// Which.
    pub guarantee: Guarantee,
    /// How.
    pub how: String,
}

impl Violation {
    pub(crate) fn new(guarantee: Guarantee, how: impl Into<String>) -> Self {
        Self { guarantee, how: how.into() }
    }
}
