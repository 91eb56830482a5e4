//! The Rust client of gapless.
//!
//! A [`Client`] keeps itself connected, sends what it was given in order and exactly once, and tells every entry of the
//! conversations that it follows in order, none missed and none twice.
//!
//! What it must not forget over a crash is in a [`LocalState`]: [`MemoryState`] for what may, [`FileState`] for a file, or the
//! application's own database. [`HandleFirst`] hands entries to the application before they count as held.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use gapless_client::{Client, ClientConfig, ClientEvent, Credentials, FileState, TokenSource};
//! use gapless_proto::{Body, ConvId};
//!
//! let credentials = Credentials::Token(TokenSource::fixed("eyJhbGciOi…"));
//! let config = ClientConfig::new("https://chat.example.com".parse()?, credentials);
//! let state = FileState::open("/var/lib/chat".as_ref())?;
//! let (client, mut events) = Client::start(config, state).await?;
//!
//! let demo = ConvId::new("demo")?;
//! client.watch(&demo).await?;
//! let answer = client.send(&demo, Body::from_value(&"hello")?).await?;
//! println!("stored as {}", answer.await?.seq);
//!
//! while let Some(event) = events.next().await {
//!     if let ClientEvent::Entries { advance, .. } = event {
//!         for entry in advance.entries {
//!             println!("{} {}: {}", entry.seq, entry.sender, entry.body.as_str());
//!         }
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The events of a chain are followed with [`Client::subscribe`]; a [`TopicFold`] makes of them, and of what takes them back, what is true.
//!
//! All decisions are in [`Session`], which is pure; the rest of the crate does what it says.

mod client;
mod credentials;
mod event;
mod file_state;
mod handle_first;
mod memory_state;
mod server_url;
mod session;
mod shell;
mod state;
mod topic_fold;

pub use client::{Client, ClientConfig, Events, SendTicket, TicketError, random_key};
pub use credentials::{Credentials, FetchError, TokenSource};
pub use event::{ClientEvent, Delivered, DisconnectReason, Fault, RefusedSend, StopReason};
pub use file_state::{FileState, FileStateError};
pub use gapless_core::{Advance, OutboxId, OutboxMessage, ResetReason};
pub use handle_first::{HandleFirst, HandleFirstError, Handled};
pub use memory_state::MemoryState;
pub use server_url::{ServerUrl, ServerUrlError};
pub use session::{
    Closed, Command, ConnectionId, Follow, PersistId, SendError, Session, SessionConfig, Topics, TopicsId,
    TopicsStart, TopicsTold, WatchError,
};
pub use state::{Change, LocalState, Snapshot};
pub use topic_fold::{FoldError, TopicFold};
