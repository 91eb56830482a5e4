//! What can be built wrong around the pure parts of chains, so that the checks prove that they see.

use std::fmt;

use crate::Guarantee;

/// One strategy replaced by a broken one. All of it happens in the models around the pure parts; those stay as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChainFault {
    /// A client passes over events of a block and log that it has had already.
    DeduplicateByPlace,
    /// A client gives back only the place of its cursor, without the seq.
    ResumeByPlace,
    /// A gateway reads the values first, and only then where the feed is that goes on from them.
    SnapshotBeforeSubscribing,
    /// A gateway tells of a revoke after the first event of the new branch.
    RevokeAfterNewBranch,
    /// A gateway gives a revoke the seq of the place that still holds, not its own.
    RevokeWithOldSeq,
    /// A gateway never moves the cursor of a quiet subscription.
    NoProgress,
    /// A gateway drops only the oldest of what waits for a slow reader, and tells nobody.
    DropOnlyTheOldest,
    /// A gateway takes a block for confirmed when it has one block less on it than it should.
    ConfirmedTooEarly,
    /// A gateway trusts that it gets all news of a chain.
    NoHeadsPoll,
    /// A store that begins a feed anew lets its seqs go on where they were.
    RestartWithoutGap,
    /// A store trims the events of the oldest block to which a reorg may go back, so that a revoke can't name the last place that holds.
    TrimForkPoint,
    /// A follower takes a head that is lower than before for a reorg.
    LowerHeadIsReorg,
    /// A follower believes a node that says that a block has no logs.
    BelieveNoLogs,
}

impl ChainFault {
    /// All there are.
    pub const ALL: [Self; 13] = [
        Self::DeduplicateByPlace,
        Self::ResumeByPlace,
        Self::SnapshotBeforeSubscribing,
        Self::RevokeAfterNewBranch,
        Self::RevokeWithOldSeq,
        Self::NoProgress,
        Self::DropOnlyTheOldest,
        Self::ConfirmedTooEarly,
        Self::NoHeadsPoll,
        Self::RestartWithoutGap,
        Self::TrimForkPoint,
        Self::LowerHeadIsReorg,
        Self::BelieveNoLogs,
    ];

    /// The guarantees of which one is seen broken.
    pub const fn breaks(self) -> &'static [Guarantee] {
        match self {
            Self::DeduplicateByPlace
            | Self::ResumeByPlace
            | Self::SnapshotBeforeSubscribing
            | Self::ConfirmedTooEarly
            | Self::TrimForkPoint
            | Self::LowerHeadIsReorg
            | Self::BelieveNoLogs => &[Guarantee::Revocation],
            Self::RevokeAfterNewBranch | Self::RevokeWithOldSeq => &[Guarantee::Order],
            Self::NoProgress | Self::RestartWithoutGap => &[Guarantee::HonestPositions],
            Self::DropOnlyTheOldest => &[Guarantee::ContiguousCursor],
            Self::NoHeadsPoll => &[Guarantee::ReplayOrConverge],
        }
    }
}

impl fmt::Display for ChainFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl std::str::FromStr for ChainFault {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|fault| fault.to_string() == name)
            .ok_or_else(|| format!("there is no fault {name}; there are {:?}", Self::ALL))
    }
}
