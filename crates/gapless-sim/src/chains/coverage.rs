//! What must happen now and then in worlds of chains, or the checks have nothing to check.

use crate::coverage::{Coverage, Landmarks};

/// How often each [`ChainLandmark`] was passed.
pub type ChainCoverage = Coverage<ChainLandmark>;

macro_rules! landmarks {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Something that must happen now and then, or the checks have nothing to check.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum ChainLandmark {
            $($(#[$doc])* $name,)*
        }

        impl Landmarks for ChainLandmark {
            const ALL: &'static [Self] = &[$(Self::$name,)*];
        }
    };
}

landmarks! {
    /// A chain has left a branch.
    Reorg,
    /// A chain has left a branch and come back to it.
    ThereAndBack,
    /// A chain has got shorter by a reorg.
    ReorgToShorter,
    /// A chain has got shorter, and nothing contradicts what was.
    Rollback,
    /// A branch without events was left for another without any.
    ReorgOfEmptyBlocks,
    /// A chain was reorganised twice within 50 ms.
    TwoReorgsAtOnce,
    /// A transaction was mined again one block later.
    MinedAgainLater,
    /// A transaction was mined again in the same place of another block.
    MinedAgainInPlace,
    /// A sibling of the head has taken its place.
    Sibling,
    /// A chain has taken back what can't be taken back.
    DeepReorg,
    /// A chain has left heights out.
    HeightsLeftOut,
    /// A node was announced a head that isn't the next one.
    HeadSkipped,
    /// A node has shown an older head than before.
    HeadFellBack,
    /// A node has gone over to a fork that isn't canonical.
    NodeStrayed,
    /// A node's head has stood still for a while.
    NodeFrozen,
    /// A node couldn't be reached, was too slow or refused.
    NodeFailed,
    /// A node has said that a block has no logs, which it has.
    LogsDenied,
    /// A node has told logs of another block, logs that were taken back, or one twice.
    LogsMixed,
    /// A node has had no receipts for a block.
    ReceiptsDenied,
    /// A node has not known a block that it had shown.
    BlockUnknown,
    /// A follower has asked for receipts since the bloom promises more.
    ReceiptsAsked,
    /// A follower has left a node whose head stood still.
    NodeStalled,
    /// A follower has seen that a node lags.
    NodeLagged,
    /// A follower has taken blocks by ranges.
    RangeTaken,
    /// A follower was killed.
    FollowerCrash,
    /// A follower was killed while blocks were being taken.
    FollowerCrashInIngestion,
    /// A follower has called an operator.
    Alarm,
    /// An operator has begun a feed anew.
    Restart,
    /// Blocks were taken, and the follower wasn't told.
    IngestionUnheard,
    /// An ingestion has failed and left nothing.
    IngestionFailed,
    /// A log has a revoke.
    Revoked,
    /// Blocks were taken back that had no events.
    RevokedNothing,
    /// Orphans have become canonical again.
    Adopted,
    /// The store couldn't be reached for a while.
    StoreOutage,
    /// A log was trimmed.
    Trim,
    /// The store was put back to a backup.
    Restore,
    /// A restore has taken entries back.
    EntriesLostInRestore,
    /// News of a commit was lost.
    NewsLost,
    /// News of a commit came twice.
    NewsDoubled,
    /// News of a commit came late or out of order.
    NewsLate,
    /// A gateway has found by itself that a chain has grown.
    HeadsPolled,
    /// A gateway's process was killed.
    GatewayCrash,
    /// A subscription was told from the tail in memory.
    TailTold,
    /// A subscription was told from the store.
    LogRead,
    /// A client was killed.
    ReaderCrash,
    /// A client was killed that had more than its disk has.
    ReaderLostSome,
    /// A client has slept.
    ReaderSlept,
    /// A connection has brought nothing for a while.
    ReaderStalled,
    /// A connection has broken.
    LinkBroken,
    /// A subscription has gone on at its cursor.
    Resumed,
    /// The first thing that a client was told when it came back was a revoke.
    RevokeFirst,
    /// A client has come back and was spared events that were void by then.
    SparedVoidEvents,
    /// A client was told of an event in a place where it had been told of another.
    SamePlaceAgain,
    /// A client was told of a revoke.
    RevokeTold,
    /// A client was told of a confirmed event.
    ConfirmedTold,
    /// A client was told values.
    SnapshotTold,
    /// A client was told values in several parts.
    SnapshotInParts,
    /// Events were taken back between a snapshot's beginning and its end.
    ReorgDuringSnapshot,
    /// Events were taken back while a subscription read the log.
    ReorgDuringReplay,
    /// A quiet subscription's cursor was moved.
    Progress,
    /// A client was told `cursor_expired`.
    ResetExpired,
    /// A client was told `epoch_changed`.
    ResetEpoch,
    /// A client was told `slow_consumer`.
    ResetSlow,
    /// A client was told `deep_reorg`.
    ResetDeep,
    /// A client was told `cursor_ahead`.
    ResetAhead,
    /// A revoke has gone back further than a client remembers.
    FoldTooDeep,
}
