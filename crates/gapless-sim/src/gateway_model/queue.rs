//! What waits for one connection, and whether its reader is told what it loses.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use gapless_core::{Delivery, DeliveryConfig, Outgoing};
use gapless_proto::{ConvId, Position};

use crate::store_model::Frame;
use crate::{Fault, Guarantee, Violation};

/// The real [`Delivery`], or a broken one, with a ledger of what it owes its reader.
#[derive(Debug)]
pub(crate) struct Queue {
    strategy: Strategy,
    config: DeliveryConfig,
    /// Handed in, and neither written nor covered by a written hint.
    owed: BTreeMap<ConvId, BTreeSet<Position>>,
    /// Each frame that is held anywhere in the strategy holds one, too.
    counter: Arc<()>,
}

/// A frame that is counted as long as somebody holds it.
#[derive(Debug)]
struct Counted {
    frame: Frame,
    _held: Arc<()>,
}

#[derive(Debug)]
enum Strategy {
    WholeGoes(Delivery<Counted>),
    OldestGoes { frames: VecDeque<Counted>, hints: BTreeMap<ConvId, Position> },
}

impl Queue {
    pub(crate) fn new(config: DeliveryConfig, fault: Option<Fault>) -> Self {
        let strategy = if fault == Some(Fault::DropOnlyTheOldest) {
            Strategy::OldestGoes { frames: VecDeque::new(), hints: BTreeMap::new() }
        } else {
            Strategy::WholeGoes(Delivery::new(config))
        };
        Self { strategy, config, owed: BTreeMap::new(), counter: Arc::new(()) }
    }

    pub(crate) fn push(&mut self, conv: ConvId, position: Position, frame: Frame) {
        self.owed.entry(conv.clone()).or_default().insert(position);
        let counted = Counted { frame, _held: Arc::clone(&self.counter) };
        match &mut self.strategy {
            Strategy::WholeGoes(delivery) => delivery.handle_event(conv, position, counted, 1),
            Strategy::OldestGoes { frames, .. } => {
                frames.push_back(counted);
                if frames.len() > self.config.queued_frames_max {
                    frames.pop_front();
                }
            }
        }
    }

    pub(crate) fn hint(&mut self, conv: ConvId, position: Position) {
        self.owed.entry(conv.clone()).or_default().insert(position);
        match &mut self.strategy {
            Strategy::WholeGoes(delivery) => delivery.handle_hint(conv, position),
            Strategy::OldestGoes { hints, .. } => {
                let hinted = hints.entry(conv).or_insert(position);
                *hinted = position.max(*hinted);
            }
        }
    }

    pub(crate) fn poll(&mut self) -> Option<Outgoing<Frame>> {
        let outgoing = match &mut self.strategy {
            Strategy::WholeGoes(delivery) => delivery.poll_outgoing()?,
            Strategy::OldestGoes { frames, hints } => match hints.pop_first() {
                Some((conv, position)) => Outgoing::Hint { conv, position },
                None => Outgoing::Event(frames.pop_front()?),
            },
        };
        Some(match outgoing {
            Outgoing::Event(Counted { frame, .. }) => {
                let position = Position { epoch: frame.epoch, seq: frame.entry.seq };
                if let Some(owed) = self.owed.get_mut(&frame.conv) {
                    owed.remove(&position);
                }
                Outgoing::Event(frame)
            }
            Outgoing::Hint { conv, position } => {
                if let Some(owed) = self.owed.get_mut(&conv) {
                    owed.retain(|owed| *owed > position);
                }
                Outgoing::Hint { conv, position }
            }
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        match &self.strategy {
            Strategy::WholeGoes(delivery) => delivery.is_empty(),
            Strategy::OldestGoes { frames, hints } => frames.is_empty() && hints.is_empty(),
        }
    }

    pub(crate) fn overflows(&self) -> u64 {
        match &self.strategy {
            Strategy::WholeGoes(delivery) => delivery.overflows(),
            Strategy::OldestGoes { .. } => 0,
        }
    }

    /// G9: the queue is bounded, and nothing is dropped without a word.
    pub(crate) fn check(&self) -> Result<(), Violation> {
        let held = Arc::strong_count(&self.counter) - 1;
        if held > self.config.queued_frames_max {
            let how = format!("{held} frames wait for one connection");
            return Err(Violation::new(Guarantee::SlowReaders, how));
        }
        match self.owed.iter().find(|(_, owed)| !owed.is_empty()) {
            Some((conv, owed)) if self.is_empty() => {
                let how = format!("{owed:?} of {conv} were dropped and the reader wasn't told");
                Err(Violation::new(Guarantee::SlowReaders, how))
            }
            Some(_) | None => Ok(()),
        }
    }
}
