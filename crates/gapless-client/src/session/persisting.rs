//! Changes of the local state that aren't made yet, and what follows when they are.

use std::collections::VecDeque;

use gapless_core::{Advance, OutboxId, ResetReason};
use gapless_proto::ConvId;

use super::command::PersistId;
use crate::RefusedSend;

/// What waits for the local state, in order.
#[derive(Debug, Default)]
pub(super) struct Persisting {
    waiting: VecDeque<(PersistId, Consequence)>,
    next_id: u64,
}

/// What follows once a change is made.
#[derive(Debug)]
pub(super) enum Consequence {
    /// The position may be acknowledged, unless the log was rewound meanwhile; the application is told.
    Advanced { conv: ConvId, advance: Advance, is_void: bool },
    /// The application is told.
    Reset { conv: ConvId, reason: ResetReason },
    /// The message may be sent.
    Enqueued(OutboxId),
    /// The application is told that the message is given up.
    Refused(RefusedSend),
    /// Nothing.
    None,
}

impl Persisting {
    /// Notes what follows a change; returns the number of the change.
    pub(super) fn push(&mut self, consequence: Consequence) -> PersistId {
        let id = PersistId(self.next_id);
        self.next_id += 1;
        self.waiting.push_back((id, consequence));
        id
    }

    /// The next consequence of the changes up to `id`.
    pub(super) fn pop(&mut self, up_to: PersistId) -> Option<Consequence> {
        let (_, consequence) = self.waiting.pop_front_if(|(id, _)| *id <= up_to)?;
        Some(consequence)
    }

    /// Positions of `conv` that are on their way are of a log that is no more.
    pub(super) fn void(&mut self, reset_conv: &ConvId) {
        for (_, consequence) in &mut self.waiting {
            match consequence {
                Consequence::Advanced { conv, is_void, .. } if conv == reset_conv => *is_void = true,
                Consequence::Advanced { .. }
                | Consequence::Reset { .. }
                | Consequence::Enqueued(_)
                | Consequence::Refused(_)
                | Consequence::None => {}
            }
        }
    }

    /// Forgets them: they won't be made.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many changes aren't made yet.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }
}
