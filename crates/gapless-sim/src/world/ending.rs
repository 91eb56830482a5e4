//! How a world ends: calm comes, and within bounded time everyone holds everything.

use std::time::{Duration, Instant};

use gapless_proto::ServerMessage;

use super::{Event, World};
use crate::dice::Dice;
use crate::weather::Weather;
use crate::{Guarantee, Violation};

/// Between two looks at whether all is well.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How long what users have begun may still take.
const AFTERMATH: Duration = Duration::from_secs(4);

/// From the calm to convergence. The longest way there is: a dead connection is noticed (35 s), its successor waits (45 s), a sync
/// waits (45 s), a reader that seemed not to react is hinted again (60 s).
const CONVERGENCE_MAX: Duration = Duration::from_secs(240);

/// How long nothing but heartbeats must be heard for a world to be quiet: longer than any wait there is.
const SILENCE: Duration = Duration::from_secs(100);

/// From convergence to quiet.
const QUIET_MAX: Duration = Duration::from_secs(400);

/// How far a world is on its way to its end.
#[derive(Debug)]
pub(super) struct Ending {
    /// Whether the world must also fall quiet, which takes long.
    must_fall_quiet: bool,
    stage: Stage,
    last_frame: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    /// There is mischief still.
    Storm,
    Calm {
        since: Instant,
    },
    Converged {
        since: Instant,
    },
    Reached,
}

impl Ending {
    pub(super) fn new(dice: &mut Dice) -> Self {
        Self { must_fall_quiet: dice.below(8) == 0, stage: Stage::Storm, last_frame: None }
    }

    pub(super) fn is_reached(&self) -> bool {
        matches!(self.stage, Stage::Reached)
    }

    /// A device was sent a frame.
    pub(super) fn note_frame(&mut self, message: &ServerMessage, now: Instant) {
        if !matches!(message, ServerMessage::Ping | ServerMessage::Pong) {
            self.last_frame = Some(now);
        }
    }
}

impl World {
    /// All mischief is over: everything runs, and nothing fails any more.
    pub(super) fn calm_down(&mut self) {
        self.note(|| "--- the calm");
        self.weather = Weather::calm();
        self.ending.stage = Stage::Calm { since: self.now() };
        self.store_is_back();
        for gateway in self.gateways.keys().copied().collect::<Vec<_>>() {
            self.gateway_starts(gateway);
        }
        for device in self.devices.keys().copied().collect::<Vec<_>>() {
            self.device_starts(device);
            if let Some(node) = self.devices.get_mut(&device)
                && node.asleep_until.is_some()
            {
                node.asleep_until = Some(self.clock.now());
                self.device_wakes(device);
            }
        }
        self.plan_in(LOOK_EVERY, Event::Look);
    }

    pub(super) fn look(&mut self) {
        self.plan_in(LOOK_EVERY, Event::Look);
        let now = self.now();
        match self.ending.stage {
            Stage::Storm | Stage::Reached => {}
            // What users have begun in the storm isn't over at once.
            Stage::Calm { since } if now - since < AFTERMATH || !self.store.commits.is_idle() => {}
            Stage::Calm { since } => match self.checks.converged() {
                Ok(()) => {
                    self.note(|| "--- all have converged");
                    self.ending.stage = if self.ending.must_fall_quiet {
                        Stage::Converged { since: now }
                    } else {
                        Stage::Reached
                    };
                }
                Err(violation) if now - since > CONVERGENCE_MAX => self.uphold(Err(violation)),
                Err(_) => {}
            },
            Stage::Converged { since } => {
                self.uphold(self.checks.converged());
                let last = self.ending.last_frame.unwrap_or(since).max(since);
                if now - last >= SILENCE {
                    self.ending.stage = Stage::Reached;
                } else if now - since > QUIET_MAX {
                    let how = "everyone holds everything, and still there is talk".to_owned();
                    self.uphold(Err(Violation::new(Guarantee::NoBusyLoop, how)));
                }
            }
        }
    }
}
