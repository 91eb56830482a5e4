//! A client as it should be: a socket, and the contiguous cursor of gapless's own core.

use std::time::Instant;

use gapless_core::{Advance, FeedCommand, FeedReader, FeedReaderConfig, ResetReason, SyncRequest};
use gapless_proto::{ConvId, Entry, Position, Rid, ServerMessage};

use crate::raw_client::RawClient;

/// Follows one conversation, and notes all that its reader decides.
pub(crate) struct Follower {
    client: RawClient,
    conv: ConvId,
    page_entries: u32,
    reader: FeedReader,
    asked: Option<(Rid, SyncRequest)>,
    notes: Notes,
}

/// What a reader decided.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// What was applied since the last reset, in that order.
    pub(crate) log: Vec<Entry>,
    /// Where the cursor was, step by step.
    pub(crate) cursors: Vec<Position>,
    /// How often it asked for a page.
    pub(crate) syncs: u64,
    /// Why it started over, each time.
    pub(crate) resets: Vec<ResetReason>,
}

impl Follower {
    /// Begins at a position, or with nothing, and asks for its first page.
    pub(crate) async fn begin(
        client: RawClient,
        conv: &ConvId,
        position: Option<Position>,
        page_entries: u32,
    ) -> anyhow::Result<Self> {
        let reader = FeedReader::new(FeedReaderConfig::default(), position, 7);
        let notes = Notes::default();
        let mut follower = Self { client, conv: conv.clone(), page_entries, reader, asked: None, notes };
        follower.reader.handle_connected();
        follower.carry_out().await?;
        Ok(follower)
    }

    /// The connection, for one who wants to see a message before the reader does.
    pub(crate) fn client(&mut self) -> &mut RawClient {
        &mut self.client
    }

    /// What the reader decided so far.
    pub(crate) fn notes(&self) -> &Notes {
        &self.notes
    }

    /// Everything visible up to here was applied.
    pub(crate) fn position(&self) -> Option<Position> {
        self.reader.position()
    }

    /// How many pushed entries wait for those before them.
    pub(crate) fn pending(&self) -> usize {
        self.reader.pending()
    }

    /// Goes on until the cursor is at `head`.
    pub(crate) async fn follow_to(&mut self, head: u64) -> anyhow::Result<()> {
        self.follow_until(|follower| follower.position().is_some_and(|position| position.seq.get() >= head))
            .await
    }

    /// Goes on, message by message, until `done`.
    pub(crate) async fn follow_until(&mut self, done: impl Fn(&Self) -> bool) -> anyhow::Result<()> {
        while !done(self) {
            let message = self.client.next().await?;
            self.take(message).await?;
        }
        Ok(())
    }

    /// Hands the reader one message.
    pub(crate) async fn take(&mut self, message: ServerMessage) -> anyhow::Result<()> {
        let now = Instant::now();
        match message {
            ServerMessage::Event(event) => self.reader.handle_event(event.epoch, event.entry, now),
            ServerMessage::Hint { epoch, head, .. } => self.reader.handle_hint(epoch, head, now),
            ServerMessage::Page { rid, page, .. } => {
                if let Some(asked) = self.answered(rid) {
                    self.reader.handle_page(asked, page, now)?;
                }
            }
            ServerMessage::Error(error) => {
                if let Some(asked) = error.rid.and_then(|rid| self.answered(rid)) {
                    self.reader.handle_sync_refused(asked, error.code, None, now);
                }
            }
            ServerMessage::Welcome(_)
            | ServerMessage::Sent(_)
            | ServerMessage::Renewed { .. }
            | ServerMessage::Ping
            | ServerMessage::Pong
            | ServerMessage::Notice(_)
            | ServerMessage::Subscribed(_)
            | ServerMessage::Unsubscribed { .. }
            | ServerMessage::Snapshot(_)
            | ServerMessage::TopicEvent(_)
            | ServerMessage::Revoke(_)
            | ServerMessage::Reset(_)
            | ServerMessage::Progress(_)
            | ServerMessage::Unknown { .. } => {}
        }
        self.carry_out().await
    }

    fn answered(&mut self, rid: Rid) -> Option<SyncRequest> {
        let (_, asked) = self.asked.take_if(|(awaited, _)| *awaited == rid)?;
        Some(asked)
    }

    async fn carry_out(&mut self) -> anyhow::Result<()> {
        while let Some(command) = self.reader.poll_command() {
            match command {
                FeedCommand::Sync(asked) => {
                    self.notes.syncs += 1;
                    let rid = self.client.start_sync(&self.conv, asked, self.page_entries).await?;
                    self.asked = Some((rid, asked));
                }
                FeedCommand::Apply(advance) => self.notes.apply(advance),
                FeedCommand::Reset { reason } => {
                    self.notes.resets.push(reason);
                    self.notes.log.clear();
                    self.notes.cursors.clear();
                }
                FeedCommand::Refused { code } => anyhow::bail!("the conversation is refused: {code:?}"),
                FeedCommand::Acknowledge => {}
            }
        }
        Ok(())
    }
}

impl Notes {
    fn apply(&mut self, advance: Advance) {
        self.log.extend(advance.entries);
        self.cursors.push(advance.position);
    }
}
