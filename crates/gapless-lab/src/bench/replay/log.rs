//! A chain with many events, brought in as a follower does it.

use gapless_proto::{
    Block, BlockHash, BlockNumber, Body, ChainCursor, ChainEvent, ChainId, ChainPoint, Seq, Topic,
};
use gapless_store::{INGESTION_BLOCKS_MAX, Ingestion};
use serde_json::json;

use crate::database::Database;

/// The topic, as clients and as the feed name it.
pub(super) const TOPIC: &str = "chain:1:transfers";
pub(super) const CHAIN: ChainId = ChainId::new(1);
pub(super) const TOPIC_IN_FEED: &str = "transfers";
/// How many events a block has.
const EVENTS_A_BLOCK: u64 = 50;

/// Makes the feed with so many events, in blocks from 1 on.
pub(super) async fn fill(database: &Database, events: u64) -> anyhow::Result<()> {
    let store = database.open_store().await?;
    let blocks: Vec<u64> = (1..=events / EVENTS_A_BLOCK).collect();
    for blocks in blocks.chunks(INGESTION_BLOCKS_MAX) {
        let blocks = blocks.iter().map(|number| block(*number)).collect::<anyhow::Result<_>>()?;
        store.ingest(CHAIN, Ingestion { blocks, ..Ingestion::default() }).await?;
    }
    store.close().await;
    database.plain_sql().await?.run("VACUUM ANALYZE chain_entry").await
}

/// The cursor of a client that has seen all events but the last `missed`.
pub(super) fn cursor(events: u64, missed: u64) -> anyhow::Result<String> {
    let seq = events - missed;
    if seq == 0 {
        return Ok(format!("{CHAIN}:0:0"));
    }
    let (block, log) = (1 + (seq - 1) / EVENTS_A_BLOCK, (seq - 1) % EVENTS_A_BLOCK);
    let point = ChainPoint { block: BlockNumber::new(block)?, log: u32::try_from(log)? };
    Ok(ChainCursor { chain: CHAIN, point, seq: Some(Seq::new(seq)?) }.to_string())
}

fn block(number: u64) -> anyhow::Result<Block> {
    let events = (0..EVENTS_A_BLOCK).map(|log| event(number, log)).collect::<anyhow::Result<_>>()?;
    let number = BlockNumber::new(number)?;
    let (hash, parent) = (hash(number.get()), hash(number.get() - 1));
    Ok(Block { number, hash, parent, time: 1_700_000_000 + number.get(), events })
}

fn event(block: u64, log: u64) -> anyhow::Result<ChainEvent> {
    let nth = block * EVENTS_A_BLOCK + log;
    let payload = json!({
        "address": "0x5fbdb2315678afecb367f032d93f642f64180aa3",
        "tx": format!("0x{nth:064x}"),
        "args": {"from": format!("0x{block:040x}"), "to": format!("0x{log:040x}"), "value": nth.to_string()},
    });
    Ok(ChainEvent {
        log: u32::try_from(log)?,
        topic: Topic::new(TOPIC_IN_FEED)?,
        payload: Body::from_value(&payload)?,
        changes: Vec::new(),
    })
}

fn hash(number: u64) -> BlockHash {
    let mut hash = [0; 32];
    hash[..8].copy_from_slice(&number.to_be_bytes());
    BlockHash(hash)
}
