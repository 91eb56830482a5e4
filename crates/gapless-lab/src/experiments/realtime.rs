//! Events of a chain that can be taken back: what a client holds after absences, reorgs, restarts and slowness.
//!
//! The numbers in the names are those of the behaviours that they show.

mod away_and_back;
mod control_drop_oldest;
mod control_timestamp;
mod cursor_expired;
mod push_strategies;
mod reorg;
mod restart_under_many;
mod slow_reader;
mod snapshot_race;

use super::Conditions;
use crate::database::Databases;
use crate::finding::{Finding, Outcome};

/// One of the experiments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Experiment {
    AwayAndBack,
    CursorExpired,
    SlowReader,
    RestartUnderMany,
    SnapshotRace,
    Reorg,
    PushStrategies,
    ControlTimestampCursor,
    ControlDropOldest,
    ControlNoJitter,
    ControlSnapshotFirst,
}

impl Experiment {
    /// All of them, in the order in which they run.
    pub(super) const ALL: &[Self] = &[
        Self::AwayAndBack,
        Self::CursorExpired,
        Self::SlowReader,
        Self::RestartUnderMany,
        Self::SnapshotRace,
        Self::Reorg,
        Self::PushStrategies,
        Self::ControlTimestampCursor,
        Self::ControlDropOldest,
        Self::ControlNoJitter,
        Self::ControlSnapshotFirst,
    ];

    /// Its name, as users quote it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::AwayAndBack => "02-away-and-back",
            Self::CursorExpired => "03-cursor-expired",
            Self::SlowReader => "04-slow-reader",
            Self::RestartUnderMany => "05-restart-under-many",
            Self::SnapshotRace => "06-snapshot-race",
            Self::Reorg => "07-reorg",
            Self::PushStrategies => "push-strategies",
            Self::ControlTimestampCursor => "02-control-timestamp-cursor",
            Self::ControlDropOldest => "04-control-drop-oldest",
            Self::ControlNoJitter => "05-control-no-jitter",
            Self::ControlSnapshotFirst => "06-control-snapshot-first",
        }
    }

    const fn claim(self) -> &'static str {
        match self {
            Self::AwayAndBack => {
                "A client that was away while 12 events came is told the same as one that never left: in number, order and content."
            }
            Self::CursorExpired => {
                "A client that was away for longer than the log is kept is told so once, and begins with a snapshot; every other position that can't be served is named, once."
            }
            Self::SlowReader => {
                "A reader at a tenth of the pace loses its whole queue and is told so once; the server's memory stays bounded, and nobody else is told later."
            }
            Self::PushStrategies => {
                "Four ways to push over a network that drops out: how late something is told, and what is never told, have nothing to do with each other."
            }
            Self::ControlTimestampCursor => {
                "A reader that comes back with the time of the newest event that it has: events are lost, or come twice."
            }
            Self::ControlDropOldest => {
                "A server that drops only the oldest of a full queue: the reader goes on, and can't see the hole."
            }
            Self::RestartUnderMany => {
                "The server is killed, or drained, under many clients: they come back spread over time, and all end with what is true."
            }
            Self::ControlNoJitter => "Clients that all wait the same time come back in waves.",
            Self::SnapshotRace => {
                "An event, or a reorg, at every moment around a subscription with a snapshot: each event is told exactly once."
            }
            Self::ControlSnapshotFirst => {
                "The state is fetched, and then the events are subscribed to: one in between is in neither."
            }
            Self::Reorg => {
                "Three events that were pushed vanish in a reorg: one revoke, then the new branch, also for who was away; who never saw the three sees neither."
            }
        }
    }

    fn is_control(self) -> bool {
        self.name().contains("-control-")
    }

    /// Carries it out.
    pub(super) async fn find(self, databases: &Databases, conditions: Conditions) -> Finding {
        let outcome = match self {
            Self::AwayAndBack => away_and_back::run(databases, conditions).await,
            Self::CursorExpired => cursor_expired::run(databases, conditions).await,
            Self::SlowReader => slow_reader::run(databases, conditions).await,
            Self::PushStrategies => push_strategies::run(databases, conditions).await,
            Self::ControlTimestampCursor => control_timestamp::run(databases, conditions).await,
            Self::ControlDropOldest => control_drop_oldest::run().await,
            Self::RestartUnderMany => restart_under_many::run(databases, conditions).await,
            Self::ControlNoJitter => restart_under_many::control(databases, conditions).await,
            Self::SnapshotRace => snapshot_race::run(databases, conditions).await,
            Self::Reorg => reorg::run(databases, conditions).await,
            Self::ControlSnapshotFirst => snapshot_race::control(databases, conditions).await,
        };
        let (Outcome { checks, exhibits }, failure) = match outcome {
            Ok(outcome) => (outcome, None),
            Err(error) => (Outcome::default(), Some(format!("{error:#}"))),
        };
        Finding {
            name: self.name(),
            claim: self.claim(),
            is_control: self.is_control(),
            checks,
            exhibits,
            failure,
        }
    }
}
