//! The words that the sentences are made of.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use gapless_core::{Append, Appended, Authority, History, Operation};
use gapless_proto::{Body, ConvId, Entry, Key, Page, Position, Seq, UserId};
use gapless_store::{
    AppendError, CommitNews, Creation, FeedInfo, News, NewsReceiver, PAGE_ENTRIES_MAX, PageError,
    PageRequest, Reader, Store,
};

/// A database that one test has for itself. It outlives the stores that are opened on it.
#[async_trait]
pub(crate) trait Database: Send + Sync + 'static {
    /// Opens a store on what the database holds.
    async fn open(&self) -> (Arc<dyn Store>, NewsReceiver);

    /// Makes the database fail every transaction that inserts an entry, until [`Self::mend`].
    async fn break_inserts(&self);

    /// Takes [`Self::break_inserts`] back.
    async fn mend(&self);
}

/// One test's database, the store that is open on it, and the news of that store.
pub(crate) struct World {
    pub(crate) database: Box<dyn Database>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) news: NewsReceiver,
}

impl World {
    pub(crate) async fn begin(database: impl Database) -> Self {
        let (store, news) = database.open().await;
        Self { database: Box::new(database), store, news }
    }

    /// Closes the store and opens another on the same database: a restart.
    pub(crate) async fn reopen(&mut self) {
        self.store.close().await;
        (self.store, self.news) = self.database.open().await;
    }

    /// Creates a conversation; the first member is the creator, each sees from their join on.
    pub(crate) async fn create(&self, name: &str, members: &[&str]) -> Conversation {
        self.create_with(History::FromJoin, name, members).await
    }

    pub(crate) async fn create_with(&self, history: History, name: &str, members: &[&str]) -> Conversation {
        let conversation = self.conversation(name);
        self.store
            .create(creation(history, name, members))
            .await
            .unwrap_or_else(|error| panic!("creating {name} failed: {error}"));
        conversation
    }

    /// A conversation as the present store has it.
    pub(crate) fn conversation(&self, name: &str) -> Conversation {
        Conversation { store: Arc::clone(&self.store), id: conv(name) }
    }
}

/// A conversation, and what one does in it. A clone is the same conversation.
#[derive(Clone)]
pub(crate) struct Conversation {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) id: ConvId,
}

impl Conversation {
    /// Sends, as a member.
    pub(crate) async fn send(&self, sender: &str, name: &str, text: &str) -> Result<Appended, AppendError> {
        self.append(message(sender, name, body(text))).await
    }

    /// Sends something that must be new, and returns its seq.
    pub(crate) async fn say(&self, sender: &str, name: &str) -> u64 {
        let appended = self.send(sender, name, name).await;
        let appended = appended.unwrap_or_else(|error| panic!("{sender} could not send {name}: {error}"));
        assert!(!appended.duplicate, "{name} was sent before");
        appended.position.seq.get()
    }

    /// Sends `count` messages one after the other.
    pub(crate) async fn say_many(&self, sender: &str, prefix: &str, count: usize) {
        for number in 0..count {
            self.say(sender, &format!("{prefix}{number}")).await;
        }
    }

    /// One adds another, both being able to; returns the seq of the join entry.
    pub(crate) async fn join(&self, who: &str, by: &str) -> u64 {
        seq_of(self.append(joining(who, by)).await)
    }

    /// One removes another, or leaves; returns the seq of the leave entry.
    pub(crate) async fn leave(&self, who: &str, by: &str) -> u64 {
        seq_of(self.append(leaving(who, by)).await)
    }

    /// Appends on the acting user's own authority.
    pub(crate) async fn append(&self, operation: Operation) -> Result<Appended, AppendError> {
        self.append_as(Authority::Member, operation).await
    }

    pub(crate) async fn append_as(
        &self,
        authority: Authority,
        operation: Operation,
    ) -> Result<Appended, AppendError> {
        self.store.append(self.request(authority, operation), None).await
    }

    pub(crate) fn request(&self, authority: Authority, operation: Operation) -> Append {
        Append { conv: self.id.clone(), authority, operation }
    }

    /// A page that must be given.
    pub(crate) async fn page(&self, reader: &str, after: u64, limit: u32) -> Page {
        let page = self.try_page(reader, after, limit).await;
        page.unwrap_or_else(|error| panic!("{reader} got no page after {after}: {error}"))
    }

    pub(crate) async fn try_page(&self, reader: &str, after: u64, limit: u32) -> Result<Page, PageError> {
        self.store.page(self.page_request(reader, after, limit)).await
    }

    pub(crate) fn page_request(&self, reader: &str, after: u64, limit: u32) -> PageRequest {
        PageRequest {
            conv: self.id.clone(),
            reader: Reader::User(user(reader)),
            after: seq(after),
            epoch: None,
            limit,
        }
    }

    /// Pages from a cursor to the head, as a client does.
    pub(crate) async fn read_all(&self, reader: &str, after: u64, limit: u32) -> Vec<Entry> {
        let mut entries = Vec::new();
        let mut after = after;
        loop {
            let page = self.page(reader, after, limit).await;
            assert!(page.events.len() <= limit as usize, "a page is over its limit");
            entries.extend(page.events);
            assert!(
                !page.has_more || page.next_after.get() > after,
                "a page that isn't the last must move on"
            );
            after = page.next_after.get();
            if !page.has_more {
                return entries;
            }
        }
    }

    /// The whole log as it is kept, seen by nobody in particular.
    pub(crate) async fn log(&self) -> Vec<Entry> {
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let after = entries.last().map_or(Seq::ZERO, |entry| entry.seq);
            let slice = self.store.log(&self.id, after, PAGE_ENTRIES_MAX).await.unwrap();
            let slice = slice.expect("the conversation exists");
            if slice.entries.is_empty() {
                return entries;
            }
            entries.extend(slice.entries);
        }
    }

    pub(crate) async fn info(&self) -> FeedInfo {
        self.store.info(&self.id).await.unwrap().expect("the conversation exists")
    }

    pub(crate) async fn head(&self) -> u64 {
        self.info().await.feed.head.get()
    }
}

/// What a commit did, that was about conversations.
pub(crate) fn of_conversations(commit: CommitNews) -> Vec<News> {
    match commit {
        CommitNews::Conversations(news) => news,
        CommitNews::Chain(news) => panic!("{news:?}"),
    }
}

pub(crate) fn creation(history: History, name: &str, members: &[&str]) -> Creation {
    let (creator, others) = members.split_first().expect("a conversation has a creator");
    Creation {
        conv: conv(name),
        creator: user(creator),
        members: others.iter().map(|member| user(member)).collect(),
        history,
    }
}

pub(crate) fn message(sender: &str, name: &str, body: Body) -> Operation {
    Operation::Message { sender: user(sender), key: key(name), body }
}

pub(crate) fn joining(who: &str, by: &str) -> Operation {
    Operation::Join { user: user(who), by: user(by) }
}

pub(crate) fn leaving(who: &str, by: &str) -> Operation {
    Operation::Leave { user: user(who), by: user(by) }
}

pub(crate) fn conv(name: &str) -> ConvId {
    ConvId::new(name).unwrap()
}

pub(crate) fn user(name: &str) -> UserId {
    UserId::new(name).unwrap()
}

pub(crate) fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

pub(crate) fn seq(number: u64) -> Seq {
    Seq::new(number).unwrap()
}

/// A text as a body.
pub(crate) fn body(text: &str) -> Body {
    Body::from_value(&text).unwrap()
}

pub(crate) fn position_of(outcome: Result<Appended, AppendError>) -> Position {
    outcome.expect("it must be taken").position
}

pub(crate) fn seq_of(outcome: Result<Appended, AppendError>) -> u64 {
    position_of(outcome).seq.get()
}

/// Queues appends in their order and waits for all of them.
pub(crate) async fn in_order<F>(appends: Vec<F>)
where
    F: Future<Output = Result<Appended, AppendError>> + Unpin,
{
    let mut waiting = Vec::new();
    for mut append in appends {
        match (&mut append).now_or_never() {
            Some(outcome) => drop(position_of(outcome)),
            None => waiting.push(append),
        }
    }
    for append in waiting {
        position_of(append.await);
    }
}

/// Sends many messages without waiting for each.
pub(crate) async fn say_at_once(chat: &Conversation, sender: &str, count: usize) {
    let sends = (0..count).map(|number| {
        let operation = message(sender, &format!("k{number}"), body("hi"));
        chat.store.append(chat.request(Authority::Member, operation), None)
    });
    in_order(sends.collect()).await;
}

/// Entries as they would stand on the wire.
pub(crate) fn text_of(entries: &[Entry]) -> String {
    serde_json::to_string(entries).unwrap()
}

pub(crate) fn seqs(entries: &[Entry]) -> Vec<u64> {
    entries.iter().map(|entry| entry.seq.get()).collect()
}
