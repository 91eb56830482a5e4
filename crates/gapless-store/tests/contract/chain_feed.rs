//! The feed of one chain, as these tests use it.

use gapless_core::{ChainEntry, ChainEntryKind};
use gapless_proto::{
    Block, BlockHash, BlockNumber, BlockRef, Body, ChainEvent, ChainId, Change, Effect, Topic, ValueKey,
};
use gapless_store::{
    ChainInfo, ChainLogRequest, ChainSlice, ChainValues, ChainValuesRequest, IngestError, Ingested, Ingestion,
};

use crate::world::{World, seq};

/// The chain of these tests.
pub(crate) const CHAIN: ChainId = ChainId::new(u64::MAX);

/// More events than any store writes one by one.
pub(crate) const MANY: u32 = 600;

/// The feed of one chain.
pub(crate) struct Feed {
    pub(crate) store: std::sync::Arc<dyn gapless_store::Store>,
}

impl Feed {
    pub(crate) fn of(world: &World) -> Self {
        Self { store: std::sync::Arc::clone(&world.store) }
    }

    pub(crate) async fn take(&self, blocks: &[Block]) -> Ingested {
        self.try_take(blocks).await.unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) async fn try_take(&self, blocks: &[Block]) -> Result<Ingested, IngestError> {
        self.store.ingest(CHAIN, Ingestion { blocks: blocks.to_vec(), ..Ingestion::default() }).await
    }

    pub(crate) async fn finalize(&self, height: u64) {
        let ingestion = Ingestion { finalized: Some(number(height)), ..Ingestion::default() };
        self.store.ingest(CHAIN, ingestion).await.unwrap();
    }

    pub(crate) async fn info(&self) -> ChainInfo {
        self.store.chain(CHAIN).await.unwrap().expect("the feed has begun")
    }

    /// What a reader of the usual topic gets after a seq.
    pub(crate) async fn said(&self, after: u64) -> Vec<String> {
        self.said_of(&["transfers"], after).await
    }

    pub(crate) async fn said_of(&self, topics: &[&str], after: u64) -> Vec<String> {
        words(&self.slice(topics, after, None, 1_000).await.entries)
    }

    pub(crate) async fn slice(
        &self,
        topics: &[&str],
        after: u64,
        up_to: Option<BlockNumber>,
        limit: u32,
    ) -> ChainSlice {
        let topics = topics.iter().map(|name| topic(name)).collect();
        let request = ChainLogRequest { chain: CHAIN, topics, after: seq(after), up_to, limit };
        self.store.chain_log(request).await.unwrap().expect("the feed has begun")
    }

    pub(crate) async fn values(&self, up_to: Option<u64>) -> Vec<String> {
        let values = self.values_page(up_to, None, 100).await.values;
        values.iter().map(|(_, key, value)| format!("{key} {}", value.as_str())).collect()
    }

    pub(crate) async fn values_page(
        &self,
        up_to: Option<u64>,
        after: Option<(Topic, ValueKey)>,
        limit: u32,
    ) -> ChainValues {
        let topics = vec![topic("transfers"), topic("zz")];
        let request = ChainValuesRequest { chain: CHAIN, topics, up_to: up_to.map(number), after, limit };
        self.store.chain_values(request).await.unwrap().expect("the feed has begun")
    }
}

pub(crate) fn words(entries: &[ChainEntry]) -> Vec<String> {
    let words = entries.iter().map(|ChainEntry { seq, kind }| match kind {
        ChainEntryKind::Event { payload, .. } => format!("{seq} {}", payload.as_str().trim_matches('"')),
        ChainEntryKind::Revoke { to, first } => {
            format!("{seq} revoke to {}:{} from {first}", to.block, to.log)
        }
    });
    words.collect()
}

/// A block that is named by its branch and height, as in `a7`, with so many events, each of which adds 1 to one of two holders.
pub(crate) fn block(name: &str, parent: &str, events: u32) -> Block {
    let event = |log: u32| ChainEvent {
        log,
        topic: topic("transfers"),
        payload: Body::from_text(format!("\"{name}-{log}\"")).unwrap(),
        changes: vec![Change {
            key: value_key(&format!("holder-{}", log % 2)),
            effect: Effect::Add("1".parse().unwrap()),
        }],
    };
    let BlockRef { number, hash: own } = at(name);
    Block {
        number,
        hash: own,
        parent: hash(parent),
        time: number.get(),
        events: (0..events).map(event).collect(),
    }
}

pub(crate) fn at(name: &str) -> BlockRef {
    BlockRef { number: number(name[1..].parse().unwrap()), hash: hash(name) }
}

pub(crate) fn number(number: u64) -> BlockNumber {
    BlockNumber::new(number).unwrap()
}

pub(crate) fn hash(name: &str) -> BlockHash {
    let mut bytes = [0; 32];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    BlockHash(bytes)
}

pub(crate) fn value_key(name: &str) -> ValueKey {
    ValueKey::new(name).unwrap()
}

pub(crate) fn topic(name: &str) -> Topic {
    Topic::new(name).unwrap()
}
