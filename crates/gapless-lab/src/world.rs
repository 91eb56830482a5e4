//! What an experiment finds: a database, a conversation in it, and a server.

use std::net::SocketAddr;

use anyhow::Context as _;
use gapless_core::{History, SyncRequest};
use gapless_proto::{Body, ConvId, Entry, Key, Position, Seq, UserId};
use gapless_store::Creation;
use gapless_testkit::Gateway;

use crate::database::{Database, Databases, StoreKind};
use crate::plain_sql::PlainSql;
use crate::raw_client::RawClient;
use crate::server;

/// Who is in the conversation.
pub(crate) const MEMBERS: [&str; 3] = ["ann", "bob", "cyd"];
/// The conversation's id.
const CONVERSATION: &str = "lab";
/// How many entries the log begins with: the joins of its members.
pub(crate) const JOINS: u64 = MEMBERS.len() as u64;

/// One experiment's database with one conversation, in which all see everything, and the server on it.
pub(crate) struct World {
    kind: StoreKind,
    database: Database,
    server: Option<Gateway>,
    conv: ConvId,
}

impl World {
    /// Makes the database and the conversation, and starts the server.
    pub(crate) async fn begin(databases: &Databases) -> anyhow::Result<Self> {
        let conv = ConvId::new(CONVERSATION)?;
        let database = databases.fresh().await?;
        let store = database.open_store().await?;
        let [creator, others @ ..] = MEMBERS.map(UserId::new);
        let creation = Creation {
            conv: conv.clone(),
            creator: creator?,
            members: others.into_iter().collect::<Result<_, _>>()?,
            history: History::All,
        };
        store.create(creation).await.context("creating the conversation")?;
        store.close().await;
        let mut world = Self { kind: databases.kind(), database, server: None, conv };
        world.start_server().await?;
        Ok(world)
    }

    /// Stops the server and deletes the database.
    pub(crate) async fn end(mut self) -> anyhow::Result<()> {
        self.stop_server().await?;
        self.database.discard().await
    }

    /// Stops the server, does something to what it keeps, and starts it again.
    pub(crate) async fn tamper(
        &mut self,
        deed: impl AsyncFnOnce(&Database) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.stop_server().await?;
        deed(&self.database).await?;
        self.start_server().await
    }

    /// Which store this is about.
    pub(crate) fn kind(&self) -> StoreKind {
        self.kind
    }

    /// The conversation.
    pub(crate) fn conv(&self) -> &ConvId {
        &self.conv
    }

    /// Where the server listens.
    pub(crate) fn address(&self) -> anyhow::Result<SocketAddr> {
        Ok(self.server.as_ref().context("the server is stopped")?.address())
    }

    /// Connects as a user.
    pub(crate) async fn connect(&self, user: &str) -> anyhow::Result<RawClient> {
        RawClient::connect(self.address()?, user).await
    }

    /// A connection that speaks SQL to the same database.
    pub(crate) async fn plain_sql(&self) -> anyhow::Result<PlainSql> {
        self.database.plain_sql().await
    }

    /// Sends `count` messages one after the other.
    pub(crate) async fn say(&self, sender: &mut RawClient, count: u64) -> anyhow::Result<()> {
        for _ in 0..count {
            sender.send(&self.conv, fresh_key()?, text("something")?).await?;
        }
        Ok(())
    }

    /// Reads the whole log in pages, as one who begins.
    pub(crate) async fn whole_log(&self, reader: &mut RawClient) -> anyhow::Result<Vec<Entry>> {
        Ok(self.pages_from(reader, NOTHING, 200).await?.0)
    }

    /// Reads page by page from a position to the end. Returns what came, and where that was.
    pub(crate) async fn pages_from(
        &self,
        reader: &mut RawClient,
        mut asked: SyncRequest,
        limit: u32,
    ) -> anyhow::Result<(Vec<Entry>, Position)> {
        let mut entries = Vec::new();
        loop {
            let page = reader.sync(&self.conv, asked, limit).await?;
            let page = page.map_err(|error| anyhow::anyhow!("a sync was refused: {error:?}"))?;
            entries.extend(page.events);
            asked = SyncRequest { after: page.next_after, epoch: Some(page.epoch) };
            if !page.has_more {
                return Ok((entries, Position { epoch: page.epoch, seq: page.next_after }));
            }
        }
    }

    async fn start_server(&mut self) -> anyhow::Result<()> {
        self.server = Some(server::serve(&self.database.url()).await?);
        Ok(())
    }

    async fn stop_server(&mut self) -> anyhow::Result<()> {
        match self.server.take() {
            Some(server) => server::stop(server).await,
            None => Ok(()),
        }
    }
}

/// The question of one who holds nothing.
pub(crate) const NOTHING: SyncRequest = SyncRequest { after: Seq::ZERO, epoch: None };

/// A key that was never used before in this process.
pub(crate) fn fresh_key() -> anyhow::Result<Key> {
    use std::sync::atomic::{AtomicU64, Ordering};
    static USED: AtomicU64 = AtomicU64::new(0);
    Ok(Key::new(&format!("k-{}", USED.fetch_add(1, Ordering::Relaxed)))?)
}

/// A body with a text in it.
pub(crate) fn text(text: &str) -> anyhow::Result<Body> {
    Ok(Body::from_value(&serde_json::json!({ "text": text }))?)
}

/// The seqs of entries, as plain numbers.
pub(crate) fn seqs(entries: &[Entry]) -> Vec<u64> {
    entries.iter().map(|entry| entry.seq.get()).collect()
}
