//! Wire messages, ids, positions and codes of gapless.
//!
//! This crate is the contract that `PROTOCOL.md` describes in words: what a frame may say, which values its fields
//! may take, and how frames become types and back. It opens no socket and reads no clock.

mod amount;
mod block;
mod body;
mod chain;
mod chain_topic;
mod client_message;
mod codec;
mod codes;
mod entry;
mod ids;
mod page;
mod position;
mod server_message;
mod subscription;

pub use amount::{Amount, AmountError};
pub use block::{Block, BlockRef, ChainEvent, Change, Effect, block_time};
pub use body::{Body, BodyError};
pub use chain::{BlockHash, BlockNumber, ChainCursor, ChainId, ChainPoint, ChainTextError};
pub use chain_topic::{UnreadableTopic, check_chain_topic};
pub use client_message::ClientMessage;
pub use codec::{DecodeError, DecodeErrorKind, decode_client_message, decode_server_message};
pub use codes::{CloseCode, ErrorCode, NoticeCode};
pub use entry::{Entry, Kind, MembershipChange};
pub use ids::{ConvId, DeviceId, IdError, Key, Rid, SessionId, Topic, UserId, ValueKey};
pub use page::Page;
pub use position::{Epoch, Position, PositionError, Seq, Timestamp};
pub use server_message::{ErrorReply, Event, Notice, Sent, ServerMessage, Welcome};
pub use subscription::{
    Cursor, CursorTooLong, EventType, Mode, Progress, Revoke, Snapshot, Sub, Subscribe, Subscribed,
    TopicEvent, TopicReset, TopicResetReason,
};
