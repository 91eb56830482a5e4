//! What a client has promised to send.

use std::collections::VecDeque;
use std::fmt;

use gapless_proto::{Body, ConvId, Key};

/// Bounds of an [`Outbox`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutboxConfig {
    /// How many messages may be unanswered on a connection.
    pub window: usize,
    /// How many messages it holds.
    pub messages_max: usize,
    /// How many bytes of bodies it holds.
    pub bytes_max: usize,
}

impl Default for OutboxConfig {
    fn default() -> Self {
        Self { window: 32, messages_max: 10_000, bytes_max: 64 << 20 }
    }
}

/// Why an [`Outbox`] takes no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OutboxError {
    /// It holds as many messages as it may.
    #[error("the outbox is full with {messages_max} messages; wait until some of them are sent")]
    TooManyMessages {
        /// The bound.
        messages_max: usize,
    },
    /// It holds as many bytes as it may.
    #[error("the outbox is full with {bytes_max} bytes; wait until some messages are sent")]
    TooManyBytes {
        /// The bound.
        bytes_max: usize,
    },
}

/// Numbers a message in its outbox; a later message has a larger one, also after a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutboxId(u64);

impl OutboxId {
    /// The id with a number that was stored.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for OutboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A message that waits for its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxMessage {
    /// Its place in the order.
    pub id: OutboxId,
    /// Where to.
    pub conv: ConvId,
    /// The sender's name for it, the same at every try.
    pub key: Key,
    /// The content.
    pub body: Body,
}

/// Keeps messages in the order of their pushing until each is answered.
///
/// - A message may be sent only after it is stored, so that a crash can't forget what a server has taken.
/// - Messages are sent in order, up to a window of unanswered ones.
/// - After [`Self::handle_disconnected`] all that is unanswered goes again, in order and before anything newer.
#[derive(Debug)]
pub struct Outbox {
    config: OutboxConfig,
    /// In id order; those in flight stand before all others.
    slots: VecDeque<Slot>,
    bytes: usize,
    in_flight: usize,
    next_id: u64,
}

#[derive(Debug)]
struct Slot {
    message: OutboxMessage,
    state: SlotState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlotState {
    Storing,
    Stored,
    InFlight,
}

impl Outbox {
    /// Takes up what an earlier process has stored and not seen answered.
    pub fn new(config: OutboxConfig, mut stored: Vec<OutboxMessage>) -> Self {
        stored.sort_by_key(|message| message.id);
        Self {
            config,
            bytes: stored.iter().map(|message| message.body.as_str().len()).sum(),
            in_flight: 0,
            next_id: stored.last().map_or(0, |last| last.id.0 + 1),
            slots: stored.into_iter().map(|message| Slot { message, state: SlotState::Stored }).collect(),
        }
    }

    /// Adds a message at the end; the caller stores it, then calls [`Self::handle_stored`].
    pub fn push(&mut self, conv: ConvId, key: Key, body: Body) -> Result<OutboxMessage, OutboxError> {
        let OutboxConfig { messages_max, bytes_max, .. } = self.config;
        if self.slots.len() >= messages_max {
            return Err(OutboxError::TooManyMessages { messages_max });
        }
        let bytes = self.bytes + body.as_str().len();
        if bytes > bytes_max {
            return Err(OutboxError::TooManyBytes { bytes_max });
        }

        let message = OutboxMessage { id: OutboxId(self.next_id), conv, key, body };
        self.next_id += 1;
        self.bytes = bytes;
        self.slots.push_back(Slot { message: message.clone(), state: SlotState::Storing });
        Ok(message)
    }

    /// The message is stored, so it may be sent.
    pub fn handle_stored(&mut self, id: OutboxId) {
        if let Some(index) = self.index(id) {
            self.slots[index].state = SlotState::Stored;
        }
    }

    /// The connection is gone, and with it all answers that were on their way.
    pub fn handle_disconnected(&mut self) {
        self.in_flight = 0;
        for slot in &mut self.slots {
            if slot.state == SlotState::InFlight {
                slot.state = SlotState::Stored;
            }
        }
    }

    /// The message was answered: takes it out.
    pub fn remove(&mut self, id: OutboxId) -> Option<OutboxMessage> {
        let slot = self.slots.remove(self.index(id)?)?;
        self.bytes -= slot.message.body.as_str().len();
        if slot.state == SlotState::InFlight {
            self.in_flight -= 1;
        }
        Some(slot.message)
    }

    /// The next message to send, if the window allows one; it counts as in flight from now on.
    pub fn next_to_send(&mut self) -> Option<OutboxMessage> {
        if self.in_flight >= self.config.window {
            return None;
        }
        let slot = self.slots.get_mut(self.in_flight)?;
        match slot.state {
            SlotState::Stored => {
                slot.state = SlotState::InFlight;
                self.in_flight += 1;
                Some(slot.message.clone())
            }
            // Whatever comes after it waits as well: the order is the order of pushing.
            SlotState::Storing | SlotState::InFlight => None,
        }
    }

    /// How many messages are unanswered, whether sent or not.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether every message is answered.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The unanswered messages in order.
    pub fn messages(&self) -> impl Iterator<Item = &OutboxMessage> {
        self.slots.iter().map(|slot| &slot.message)
    }

    fn index(&self, id: OutboxId) -> Option<usize> {
        self.slots.binary_search_by_key(&id, |slot| slot.message.id).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_sent_only_after_it_is_stored() {
        let mut outbox = outbox(2);
        let a = push(&mut outbox, "a");
        assert_eq!(sendable(&mut outbox), [""; 0]);

        outbox.handle_stored(a);
        assert_eq!(sendable(&mut outbox), ["a"]);
    }

    #[test]
    fn a_stored_message_waits_for_one_before_it_that_is_not() {
        let mut outbox = outbox(2);
        let a = push(&mut outbox, "a");
        let b = push(&mut outbox, "b");

        outbox.handle_stored(b);
        assert_eq!(sendable(&mut outbox), [""; 0]);
        outbox.handle_stored(a);
        assert_eq!(sendable(&mut outbox), ["a", "b"]);
    }

    #[test]
    fn the_window_holds_messages_back_until_one_is_answered() {
        let mut outbox = outbox(2);
        let ids = ["a", "b", "c"].map(|key| push_stored(&mut outbox, key));
        assert_eq!(sendable(&mut outbox), ["a", "b"]);

        outbox.remove(ids[1]);
        assert_eq!(sendable(&mut outbox), ["c"]);
    }

    // Behaviour 12
    #[test]
    fn after_a_disconnect_what_is_unanswered_goes_before_what_is_new() {
        let mut outbox = outbox(8);
        let ids = ["a", "b", "c"].map(|key| push_stored(&mut outbox, key));
        assert_eq!(sendable(&mut outbox), ["a", "b", "c"]);
        outbox.remove(ids[1]);

        outbox.handle_disconnected();
        push_stored(&mut outbox, "new");
        assert_eq!(sendable(&mut outbox), ["a", "c", "new"]);
    }

    // Behaviour 12
    #[test]
    fn after_a_restart_the_stored_order_holds_and_ids_go_on() {
        let mut before = outbox(8);
        for key in ["a", "b", "c"] {
            push_stored(&mut before, key);
        }
        let mut stored: Vec<_> = before.messages().cloned().collect();
        stored.reverse();

        let mut after = Outbox::new(OutboxConfig::default(), stored);
        let new = push_stored(&mut after, "new");
        assert!(after.messages().all(|message| message.id <= new));
        assert_eq!(sendable(&mut after), ["a", "b", "c", "new"]);
    }

    #[test]
    fn a_full_outbox_refuses_and_takes_again_once_there_is_room() {
        let config = OutboxConfig { messages_max: 2, bytes_max: 1_000, ..OutboxConfig::default() };
        let mut outbox = Outbox::new(config, Vec::new());
        let a = push_stored(&mut outbox, "a");
        push_stored(&mut outbox, "b");

        let key = Key::new("c").unwrap();
        assert_eq!(
            outbox.push(conv(), key.clone(), body()),
            Err(OutboxError::TooManyMessages { messages_max: 2 })
        );
        outbox.remove(a);
        let large = Body::from_value(&"x".repeat(1_000)).unwrap();
        assert_eq!(
            outbox.push(conv(), key.clone(), large),
            Err(OutboxError::TooManyBytes { bytes_max: 1_000 })
        );
        assert!(outbox.push(conv(), key, body()).is_ok());
    }

    fn outbox(window: usize) -> Outbox {
        let config = OutboxConfig { window, ..OutboxConfig::default() };
        Outbox::new(config, Vec::new())
    }

    fn conv() -> ConvId {
        ConvId::new("demo").unwrap()
    }

    fn body() -> Body {
        Body::from_value(&1).unwrap()
    }

    fn push(outbox: &mut Outbox, key: &str) -> OutboxId {
        outbox.push(conv(), Key::new(key).unwrap(), body()).unwrap().id
    }

    fn push_stored(outbox: &mut Outbox, key: &str) -> OutboxId {
        let id = push(outbox, key);
        outbox.handle_stored(id);
        id
    }

    fn sendable(outbox: &mut Outbox) -> Vec<String> {
        std::iter::from_fn(|| outbox.next_to_send()).map(|message| message.key.to_string()).collect()
    }
}
