//! What has happened, so that a run that proves nothing is noticed.

use std::collections::BTreeMap;
use std::fmt;

/// Kinds of things that must happen now and then.
pub trait Landmarks: Copy + Ord + fmt::Debug + 'static {
    /// All there are.
    const ALL: &'static [Self];
}

/// Something that must happen now and then, or the checks have nothing to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Landmark {
    /// A device has connected again.
    Reconnect,
    /// A device has found its gateway gone.
    ConnectFailed,
    /// A connection has died without a word to one of its ends.
    HalfOpen,
    /// An entry was pushed to a device.
    Push,
    /// A push was lost, doubled or late.
    PushMangled,
    /// An answer was lost, doubled or late.
    AnswerMangled,
    /// A device has moved its cursor over several entries at once: a page, or pushes that waited for one before them.
    CaughtUp,
    /// A device has passed entries that are gone.
    TrimPassed,
    /// A device was told to start a conversation over since its epoch is over.
    ResetByEpoch,
    /// A user was refused a conversation.
    SyncRefused,
    /// A slow reader has lost its queue.
    Overflow,
    /// A reader was hinted.
    Hint,
    /// News of a commit was lost, doubled or late.
    NewsMangled,
    /// A gateway has read a log to close a gap in the news.
    LogFetched,
    /// A gateway has looked somebody up again.
    LookedUp,
    /// A send was answered from an earlier try.
    DuplicateSend,
    /// A send was refused for good.
    SendRefused,
    /// A transaction has failed and left nothing.
    CommitRolledBack,
    /// A transaction has reached the disk, but its lane never learned it.
    CommitUnheard,
    /// A gateway's process was killed.
    GatewayCrash,
    /// A gateway was stopped in good order.
    GatewayDrain,
    /// A device's process was killed.
    DeviceCrash,
    /// A device was killed with changes that weren't on its disk.
    ChangesLost,
    /// A device has slept.
    DeviceSlept,
    /// The store couldn't be reached for a while.
    StoreOutage,
    /// A log was trimmed.
    Trim,
    /// The store was put back to a backup.
    Restore,
    /// A restore has taken entries back.
    EntriesLostInRestore,
    /// An epoch was raised without a restore.
    EpochRaised,
    /// Somebody has joined.
    Join,
    /// Somebody has left or was removed.
    Leave,
    /// Somebody has come back.
    Rejoin,
    /// An entry was of a kind that clients don't know.
    UnknownKind,
}

/// How often each landmark was passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coverage<L>(BTreeMap<L, u64>);

impl Landmarks for Landmark {
    const ALL: &'static [Self] = &[
        Self::Reconnect,
        Self::ConnectFailed,
        Self::HalfOpen,
        Self::Push,
        Self::PushMangled,
        Self::AnswerMangled,
        Self::CaughtUp,
        Self::TrimPassed,
        Self::ResetByEpoch,
        Self::SyncRefused,
        Self::Overflow,
        Self::Hint,
        Self::NewsMangled,
        Self::LogFetched,
        Self::LookedUp,
        Self::DuplicateSend,
        Self::SendRefused,
        Self::CommitRolledBack,
        Self::CommitUnheard,
        Self::GatewayCrash,
        Self::GatewayDrain,
        Self::DeviceCrash,
        Self::ChangesLost,
        Self::DeviceSlept,
        Self::StoreOutage,
        Self::Trim,
        Self::Restore,
        Self::EntriesLostInRestore,
        Self::EpochRaised,
        Self::Join,
        Self::Leave,
        Self::Rejoin,
        Self::UnknownKind,
    ];
}

impl<L: Landmarks> Coverage<L> {
    pub(crate) fn note(&mut self, landmark: L) {
        self.add(landmark, 1);
    }

    pub(crate) fn add(&mut self, landmark: L, times: u64) {
        *self.0.entry(landmark).or_default() += times;
    }

    /// How often it was passed.
    pub fn of(&self, landmark: L) -> u64 {
        self.0.get(&landmark).copied().unwrap_or_default()
    }

    /// Adds what another world has passed.
    pub fn merge(&mut self, other: &Self) {
        for (landmark, times) in &other.0 {
            self.add(*landmark, *times);
        }
    }

    /// What was never passed.
    pub fn missing(&self) -> Vec<L> {
        L::ALL.iter().copied().filter(|landmark| self.of(*landmark) == 0).collect()
    }
}

impl<L> Default for Coverage<L> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<L: Landmarks> fmt::Display for Coverage<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        L::ALL.iter().try_for_each(|landmark| writeln!(f, "{:>9} {landmark:?}", self.of(*landmark)))
    }
}
