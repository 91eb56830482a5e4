//! What a client must not forget.

use std::collections::BTreeMap;
use std::future::Future;

use gapless_core::{Advance, OutboxId, OutboxMessage};
use gapless_proto::{ConvId, Position, UserId};

/// Keeps what a client must not forget over a crash: how far it is in each conversation, and what it has promised to send.
///
/// An application that must handle every entry exactly once implements this in its own database: [`Change::Advance`] then
/// stores what the entries cause and the position in one transaction. With anything else a crash between the two repeats or
/// loses the handling, whichever comes second.
///
/// # Guarantees that an implementation gives
///
/// - When [`Self::apply`] returns `Ok`, the changes survive a crash of the process and of the machine.
/// - Each change is there whole or not at all, and never without those before it.
/// - Two processes never share a state.
///
/// A client that gets an error stops with it, since going on would acknowledge what isn't kept.
pub trait LocalState: Send + 'static {
    /// What can go wrong.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Reads what is kept; called once, before anything else.
    fn load(&mut self) -> impl Future<Output = Result<Snapshot, Self::Error>> + Send;

    /// Makes changes for good, in order.
    fn apply(&mut self, changes: &[Change]) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// What is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Whose state it is; `None` until the first connection.
    pub user: Option<UserId>,
    /// How far each conversation is held.
    pub positions: BTreeMap<ConvId, Position>,
    /// The unanswered messages.
    pub outbox: Vec<OutboxMessage>,
}

/// A change of what is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The state belongs to this user from now on.
    Claim(UserId),
    /// The cursor of a conversation moves over entries.
    Advance {
        /// The conversation.
        conv: ConvId,
        /// The entries, each once and in order, and the position after them.
        advance: Advance,
    },
    /// The log was rewound: the conversation's position, and whatever came of its entries, is void.
    Reset {
        /// The conversation.
        conv: ConvId,
    },
    /// A message is to be sent.
    Enqueue(OutboxMessage),
    /// A message was answered.
    Dequeue(OutboxId),
}

impl Snapshot {
    /// Makes a change, as an implementation that keeps everything in memory does.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Claim(user) => self.user = Some(user.clone()),
            Change::Advance { conv, advance } => {
                self.positions.insert(conv.clone(), advance.position);
            }
            Change::Reset { conv } => {
                self.positions.remove(conv);
            }
            Change::Enqueue(message) => self.outbox.push(message.clone()),
            Change::Dequeue(id) => self.outbox.retain(|message| message.id != *id),
        }
    }
}
