//! What the hub needs to know from the store, and the task that reads it.

use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use gapless_core::{FeedNews, Fresh, Standing};
use gapless_proto::{CloseCode, ConvId, Entry, Epoch, Event, Position, Seq};
use gapless_store::{FeedHead, LogSlice, Membership, PAGE_ENTRIES_MAX, Store, StoreError};
use tokio::sync::mpsc;

use super::{HubHandle, SessionHandle};
use crate::mailbox::Order;
use crate::socket::Frame;
use crate::store_trouble;

/// How many reads may wait. A raised epoch asks for one a session and conversation; beyond this, sessions are ended instead
/// and come back with backoff.
const READS_WAITING_MAX: usize = 65_536;
/// How many reads run at a time, so that the store keeps room for what clients ask.
const READS_RUNNING_MAX: usize = 8;

/// A question of the hub.
#[derive(Debug)]
pub(super) enum HubRead {
    /// What comes after a seq.
    Log { conv: ConvId, after: Seq },
    /// How a session's user stands to a conversation.
    Standing { session: SessionHandle, conv: ConvId },
}

/// The end where questions come in.
pub(super) struct HubReads(mpsc::Sender<HubRead>);

/// The task's end.
pub(crate) struct HubReader(mpsc::Receiver<HubRead>);

pub(super) fn channel() -> (HubReads, HubReader) {
    let (sender, receiver) = mpsc::channel(READS_WAITING_MAX);
    (HubReads(sender), HubReader(receiver))
}

impl HubReads {
    /// Queues a question, or gives it back when too many wait.
    pub(super) fn queue(&self, read: HubRead) -> Result<(), HubRead> {
        self.0.try_send(read).map_err(|error| match error {
            mpsc::error::TrySendError::Full(read) | mpsc::error::TrySendError::Closed(read) => read,
        })
    }
}

impl HubReader {
    /// Answers the hub's questions, for as long as the hub exists.
    pub(crate) async fn run(mut self, hub: HubHandle, store: Arc<dyn Store>) {
        stream::poll_fn(|context| self.0.poll_recv(context))
            .for_each_concurrent(READS_RUNNING_MAX, |read| answer(&hub, &*store, read))
            .await;
    }
}

async fn answer(hub: &HubHandle, store: &dyn Store, read: HubRead) {
    match read {
        HubRead::Log { conv, after } => {
            hub.meters().log_reads.increment(1);
            match store.log(&conv, after, PAGE_ENTRIES_MAX).await {
                Ok(Some(LogSlice { feed, entries })) => hub.handle_log(feed_news(conv, feed, entries)),
                Ok(None) => hub.handle_fetch_failed(&conv),
                Err(error) => {
                    store_trouble::tell(&error, "read missing news");
                    hub.handle_fetch_failed(&conv);
                }
            }
        }
        HubRead::Standing { session, conv } => {
            hub.meters().look_ups.increment(1);
            match store.membership(&conv, session.user()).await {
                Ok(found) => hub.handle_looked_up(&session, &conv, found.map(standing)),
                Err(error) => end(&session, &error),
            }
        }
    }
}

fn end(session: &SessionHandle, error: &StoreError) {
    store_trouble::tell(error, "look up a membership");
    session.mailbox().order(Order::End(CloseCode::Unavailable));
}

/// A membership, as the hub takes it.
pub(super) fn standing(Membership { conv, feed, latest }: Membership) -> Standing {
    Standing { conv, position: position(feed), members: feed.members, latest }
}

/// News, with each entry encoded once for all who get it.
pub(super) fn feed_news(conv: ConvId, feed: FeedHead, entries: Vec<Entry>) -> FeedNews<Frame> {
    let entries = entries.into_iter().map(|entry| encode(&conv, feed.epoch, entry)).collect();
    FeedNews { conv, position: position(feed), members: feed.members, entries }
}

fn encode(conv: &ConvId, epoch: Epoch, entry: Entry) -> Fresh<Frame> {
    let event = Event { conv: conv.clone(), epoch, entry };
    let frame = Frame::from(event.encode());
    Fresh { entry: event.entry, frame }
}

fn position(FeedHead { epoch, head, .. }: FeedHead) -> Position {
    Position { epoch, seq: head }
}
