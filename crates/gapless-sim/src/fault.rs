//! What can be built wrong on purpose, so that the checks prove that they see.

use std::fmt;

use crate::Guarantee;

/// One strategy replaced by a broken one. All of it happens in the models around the pure parts; those stay as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A client asks for what comes after the largest seq it has seen, not after what it holds without a gap.
    LargestSeenCursor,
    /// A client acknowledges a position before it is stored.
    AckBeforePersisting,
    /// A client that comes back sends what is new before what is unanswered.
    OutboxAfterNewSends,
    /// A client gives a message another key when it sends it again.
    ResendWithNewKey,
    /// The store tells of a transaction before it is on disk.
    PushBeforeCommit,
    /// The store answers an append before it is on disk.
    AnswerBeforeCommit,
    /// A gateway lets a send follow one of the same connection that failed.
    SendsFollowFailures,
    /// The store lets a former member's cursor pass what they would see if they came back.
    PassTheAbsence,
    /// A connection's full queue drops only its oldest frame, and tells nobody.
    DropOnlyTheOldest,
    /// A gateway pushes to everyone who is connected.
    PushWithoutMembership,
    /// A gateway registers a session only after it has read where its user's conversations are.
    RegisterAfterReading,
    /// A gateway doesn't look for readers who lag behind.
    NoSweep,
    /// A gateway trusts that it gets all news.
    NoHeadsPoll,
    /// A gateway reads only once where a session's conversations are.
    NoReload,
}

impl Fault {
    /// All there are.
    pub const ALL: [Self; 14] = [
        Self::LargestSeenCursor,
        Self::AckBeforePersisting,
        Self::OutboxAfterNewSends,
        Self::ResendWithNewKey,
        Self::PushBeforeCommit,
        Self::AnswerBeforeCommit,
        Self::SendsFollowFailures,
        Self::PassTheAbsence,
        Self::DropOnlyTheOldest,
        Self::PushWithoutMembership,
        Self::RegisterAfterReading,
        Self::NoSweep,
        Self::NoHeadsPoll,
        Self::NoReload,
    ];

    /// The guarantees of which one is seen broken.
    pub const fn breaks(self) -> &'static [Guarantee] {
        match self {
            Self::LargestSeenCursor | Self::AckBeforePersisting | Self::PassTheAbsence => {
                &[Guarantee::ContiguousCursor]
            }
            Self::OutboxAfterNewSends | Self::SendsFollowFailures => &[Guarantee::Sends],
            Self::ResendWithNewKey | Self::AnswerBeforeCommit => &[Guarantee::Sends],
            Self::PushBeforeCommit => &[Guarantee::CommitOrder],
            Self::DropOnlyTheOldest => &[Guarantee::SlowReaders],
            Self::PushWithoutMembership => &[Guarantee::Privacy],
            Self::RegisterAfterReading => &[Guarantee::Privacy, Guarantee::ReplayOrConverge],
            Self::NoSweep | Self::NoHeadsPoll | Self::NoReload => &[Guarantee::ReplayOrConverge],
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl std::str::FromStr for Fault {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|fault| fault.to_string() == name)
            .ok_or_else(|| format!("there is no fault {name}; there are {:?}", Self::ALL))
    }
}
