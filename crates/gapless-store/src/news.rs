//! What a store tells of its commits.

use std::collections::BTreeMap;

use gapless_core::{AppendBatch, FeedRow};
use gapless_proto::{ConvId, Entry};
use tokio::sync::mpsc;

use crate::{ChainNews, FeedHead};

/// What one commit did to one feed.
///
/// News of one feed comes in seq order from one store, but it may be lost: when the receiver lags by
/// [`NEWS_WAITING_MAX`] commits, further news is dropped. Receivers notice the gap by seq and read [`crate::Store::log`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// The feed.
    pub conv: ConvId,
    /// Where it is after the commit.
    pub feed: FeedHead,
    /// What was appended, in seq order; empty when only the epoch was raised.
    pub entries: Vec<Entry>,
}

impl News {
    /// What a batch did, a piece for each feed that it changed.
    pub(crate) fn of_batch(batch: &AppendBatch) -> Vec<Self> {
        let mut entries: BTreeMap<&ConvId, Vec<Entry>> = BTreeMap::new();
        for (conv, entry) in batch.entries() {
            entries.entry(conv).or_default().push(entry.clone());
        }
        let news = batch.changed_feeds().map(|(conv, row)| {
            let entries = entries.remove(conv).unwrap_or_default();
            Self { conv: conv.clone(), feed: row.into(), entries }
        });
        news.collect()
    }
}

impl From<&FeedRow> for FeedHead {
    fn from(row: &FeedRow) -> Self {
        Self { epoch: row.epoch, head: row.head, members: row.members }
    }
}

/// How many commits' news may wait.
pub(crate) const NEWS_WAITING_MAX: usize = 4_096;

/// What a commit was about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitNews {
    /// Conversations: what it did to each.
    Conversations(Vec<News>),
    /// The feed of a chain.
    Chain(ChainNews),
}

/// Where the news of a store arrives, commit by commit.
pub type NewsReceiver = mpsc::Receiver<CommitNews>;

/// The store's end.
#[derive(Debug, Clone)]
pub(crate) struct NewsSender(mpsc::Sender<CommitNews>);

impl NewsSender {
    pub(crate) fn channel() -> (Self, NewsReceiver) {
        let (sender, receiver) = mpsc::channel(NEWS_WAITING_MAX);
        (Self(sender), receiver)
    }

    /// Passes on what a commit did to conversations, or drops it when too much waits already.
    pub(crate) fn publish(&self, news: Vec<News>) {
        if !news.is_empty() {
            self.pass_on(CommitNews::Conversations(news));
        }
    }

    /// Passes on what a commit did to the feed of a chain, or drops it when too much waits already.
    pub(crate) fn publish_chain(&self, news: ChainNews) {
        self.pass_on(CommitNews::Chain(news));
    }

    fn pass_on(&self, news: CommitNews) {
        if let Err(mpsc::error::TrySendError::Full(_)) = self.0.try_send(news) {
            metrics::counter!("gapless_news_dropped_total").increment(1);
        }
    }
}
