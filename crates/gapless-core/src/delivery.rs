//! What waits to be written to one connection.

use std::collections::{BTreeMap, VecDeque};

use gapless_proto::{ConvId, Position};

#[cfg(test)]
mod tests;

/// Holds what the hub has for one connection until the socket takes it.
///
/// The queue is bounded. When it overflows, all of it goes, never a part (G9): every conversation in it falls back to one hint, and
/// stays there until that hint is taken; then it is pushed again. So a reader that doesn't read costs at most the bound plus
/// one hint a conversation.
///
/// Feed it with the `handle_*` methods and drain [`Self::poll_outgoing`].
#[derive(Debug)]
pub struct Delivery<F> {
    config: DeliveryConfig,
    queue: VecDeque<Queued<F>>,
    queued_bytes: usize,
    /// The newest position of each conversation that must be hinted.
    hints: BTreeMap<ConvId, Position>,
    overflows: u64,
}

/// The bounds of a [`Delivery`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryConfig {
    /// How many frames may wait.
    pub queued_frames_max: usize,
    /// How many bytes may wait.
    pub queued_bytes_max: usize,
}

impl Default for DeliveryConfig {
    fn default() -> Self {
        Self { queued_frames_max: 1_000, queued_bytes_max: 1 << 20 }
    }
}

/// What to write next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outgoing<F> {
    /// A pushed entry.
    Event(F),
    /// "There is more: pull."
    Hint {
        /// Where.
        conv: ConvId,
        /// The newest position that the reader may see.
        position: Position,
    },
}

#[derive(Debug)]
struct Queued<F> {
    conv: ConvId,
    position: Position,
    frame: F,
    bytes: usize,
}

impl<F> Delivery<F> {
    /// An empty one.
    pub fn new(config: DeliveryConfig) -> Self {
        Self { config, queue: VecDeque::new(), queued_bytes: 0, hints: BTreeMap::new(), overflows: 0 }
    }

    /// Queues a pushed entry of `bytes` bytes.
    pub fn handle_event(&mut self, conv: ConvId, position: Position, frame: F, bytes: usize) {
        if let Some(hinted) = self.hints.get_mut(&conv) {
            *hinted = position.max(*hinted);
            return;
        }
        self.queued_bytes += bytes;
        self.queue.push_back(Queued { conv, position, frame, bytes });
        if self.queue.len() > self.config.queued_frames_max
            || self.queued_bytes > self.config.queued_bytes_max
        {
            self.overflow();
        }
    }

    /// Queues a hint; of several for one conversation only the newest is kept.
    pub fn handle_hint(&mut self, conv: ConvId, position: Position) {
        let hinted = self.hints.entry(conv).or_insert(position);
        *hinted = position.max(*hinted);
    }

    /// Takes what to write next.
    pub fn poll_outgoing(&mut self) -> Option<Outgoing<F>> {
        if let Some((conv, position)) = self.hints.pop_first() {
            return Some(Outgoing::Hint { conv, position });
        }
        let Queued { frame, bytes, .. } = self.queue.pop_front()?;
        self.queued_bytes -= bytes;
        if self.queue.is_empty() {
            // An idle connection keeps no memory of its last burst.
            self.queue = VecDeque::new();
        }
        Some(Outgoing::Event(frame))
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.hints.is_empty()
    }

    /// How often the queue went.
    pub fn overflows(&self) -> u64 {
        self.overflows
    }

    fn overflow(&mut self) {
        self.overflows += 1;
        self.queued_bytes = 0;
        for Queued { conv, position, .. } in std::mem::take(&mut self.queue) {
            self.handle_hint(conv, position);
        }
    }
}
