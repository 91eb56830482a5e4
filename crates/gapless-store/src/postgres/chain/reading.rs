//! The reads, each one statement.

use std::collections::BTreeMap;

use gapless_core::{ChainEntry, ChainEntryKind};
use gapless_proto::{
    BlockHash, BlockNumber, Body, ChainId, ChainPoint, ChainTextError, Seq, Topic, ValueKey,
};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::super::fault::Fault;
use super::super::readers::Readers;
use super::super::rows::{self, bigint};
use super::statements::{BLOCKS, CHAINS, INFO, LOG, SEQ_AT, VALUES};
use super::{INFO_COLUMNS, block_ref, hash, json, log as log_of};
use crate::{
    CHAIN_ENTRIES_MAX, CHAIN_SLICE_BYTES_MAX, CHAIN_VALUES_MAX, ChainInfo, ChainLogRequest, ChainSlice,
    ChainValues, ChainValuesRequest, KeptBlock, StoreError,
};

pub(in crate::postgres) async fn info(
    readers: &Readers,
    chain: ChainId,
) -> Result<Option<ChainInfo>, StoreError> {
    let row = readers.query_opt(INFO, &[&chain.to_string()]).await?;
    Ok(row.as_ref().map(|row| super::info(row, 0)).transpose()?)
}

pub(in crate::postgres) async fn chains(
    readers: &Readers,
    after: Option<ChainId>,
    limit: u32,
) -> Result<Vec<ChainId>, StoreError> {
    let after = after.map(|chain| chain.to_string()).unwrap_or_default();
    let rows = readers.query(CHAINS, &[&after, &i64::from(limit)]).await?;
    let chains = rows.iter().map(|row| {
        let name: &str = row.try_get(0)?;
        name.parse().map_err(|error: ChainTextError| Fault::unreadable("chain", error))
    });
    Ok(chains.collect::<Result<_, Fault>>()?)
}

pub(in crate::postgres) async fn blocks(
    readers: &Readers,
    chain: ChainId,
    hashes: &[BlockHash],
) -> Result<Vec<KeptBlock>, StoreError> {
    let hashes: Vec<&[u8]> = hashes.iter().map(|hash| &hash.0[..]).collect();
    let rows = readers.query(BLOCKS, &[&chain.to_string(), &hashes]).await?;
    let blocks = rows.iter().map(|row| {
        Ok(KeptBlock { at: block_ref(row, 0)?, parent: hash(row, 2)?, is_canonical: row.try_get(3)? })
    });
    Ok(blocks.collect::<Result<_, Fault>>()?)
}

pub(in crate::postgres) async fn log(
    readers: &Readers,
    request: &ChainLogRequest,
) -> Result<Option<ChainSlice>, StoreError> {
    let limit = request.limit.clamp(1, CHAIN_ENTRIES_MAX);
    let topics: Vec<&str> = request.topics.iter().map(Topic::as_str).collect();
    let up_to = request.up_to.map_or(i64::MAX, |number| bigint(number.get()));
    let (chain, after) = (request.chain.to_string(), bigint(request.after.get()));
    let bytes_max = CHAIN_SLICE_BYTES_MAX as i64;
    let params: [&(dyn ToSql + Sync); 6] =
        [&chain, &topics, &after, &up_to, &i64::from(limit + 1), &bytes_max];
    let rows = readers.query(LOG, &params).await?;
    let Some(first) = rows.first() else {
        return Ok(None);
    };
    let chain = super::info(first, 0)?;
    let mut found = Vec::with_capacity(rows.len());
    for row in &rows {
        if !rows::is_null(row, INFO_COLUMNS)? {
            found.push(entry(row, INFO_COLUMNS)?);
        }
    }
    found.sort_unstable_by_key(|entry: &ChainEntry| entry.seq);
    let covered = match request.up_to {
        None => chain.head,
        Some(_) => rows::seq_or_null(first, INFO_COLUMNS + 10)?.unwrap_or(Seq::ZERO),
    };
    Ok(Some(ChainSlice::of(chain, covered, found, limit)))
}

/// `seq, kind, block, log, hash, time, topic, payload, state, first`.
fn entry(row: &Row, column: usize) -> Result<ChainEntry, Fault> {
    let kind: &str = row.try_get(column + 1)?;
    let block = super::block_number(row, column + 2)?;
    let log = log_of(row, column + 3)?;
    let kind = match kind {
        "revoke" => {
            ChainEntryKind::Revoke { to: ChainPoint { block, log }, first: rows::seq(row, column + 9)? }
        }
        _ => ChainEntryKind::Event {
            block: gapless_proto::BlockRef { number: block, hash: hash(row, column + 4)? },
            time: rows::count(row, column + 5)?,
            log,
            topic: topic(row, column + 6)?,
            payload: rows::body(row, column + 7)?,
            values: values_after(row, column + 8)?,
        },
    };
    Ok(ChainEntry { seq: rows::seq(row, column)?, kind })
}

fn values_after(row: &Row, column: usize) -> Result<BTreeMap<ValueKey, Body>, Fault> {
    let text: Option<&str> = row.try_get(column)?;
    match text {
        None => Ok(BTreeMap::new()),
        Some(_) => json(row, column),
    }
}

pub(super) fn topic(row: &Row, column: usize) -> Result<Topic, Fault> {
    Topic::new(row.try_get(column)?).map_err(|error| Fault::unreadable("topic", error))
}

pub(super) fn value_key(row: &Row, column: usize) -> Result<ValueKey, Fault> {
    ValueKey::new(row.try_get(column)?).map_err(|error| Fault::unreadable("key of a value", error))
}

pub(in crate::postgres) async fn seq_at(
    readers: &Readers,
    chain: ChainId,
    point: ChainPoint,
) -> Result<Option<Seq>, StoreError> {
    let (chain, block, log) = (chain.to_string(), bigint(point.block.get()), i64::from(point.log));
    let Some(row) = readers.query_opt(SEQ_AT, &[&chain, &block, &log]).await? else {
        return Ok(None);
    };
    let is_whole = rows::seq(&row, 0)? == Seq::FIRST;
    Ok(rows::seq_or_null(&row, 1)?.or_else(|| is_whole.then_some(Seq::ZERO)))
}

pub(in crate::postgres) async fn values(
    readers: &Readers,
    request: &ChainValuesRequest,
) -> Result<Option<ChainValues>, StoreError> {
    let limit = request.limit.clamp(1, CHAIN_VALUES_MAX);
    let mut topics: Vec<&str> = request.topics.iter().map(Topic::as_str).collect();
    topics.sort_unstable();
    let (after_topic, after_key) =
        request.after.as_ref().map_or(("", ""), |(topic, key)| (topic.as_str(), key.as_str()));
    let up_to = request.up_to.map_or(i64::MAX, |number| bigint(number.get()));
    let rows = readers
        .query(
            VALUES,
            &[
                &request.chain.to_string(),
                &up_to,
                &i64::from(u32::MAX),
                &topics,
                &after_topic,
                &after_key,
                &i64::from(limit + 1),
            ],
        )
        .await?;
    let Some(first) = rows.first() else {
        return Ok(None);
    };
    Ok(Some(values_of(&rows, first, request.up_to, limit as usize)?))
}

fn values_of(
    rows: &[Row],
    first: &Row,
    up_to: Option<BlockNumber>,
    limit: usize,
) -> Result<ChainValues, Fault> {
    let chain = super::info(first, 0)?;
    let head = chain.block.map(|block| block.number).unwrap_or_default();
    let block = up_to.map_or(head, |number| number.min(head));
    // Without an event that is kept, what is known ends before the oldest.
    let (seq, log) = match rows::seq_or_null(first, INFO_COLUMNS)? {
        None => (chain.min_seq.prev(), 0),
        Some(seq) if super::block_number(first, INFO_COLUMNS + 1)? == block => {
            (seq, log_of(first, INFO_COLUMNS + 2)?)
        }
        Some(seq) => (seq, 0),
    };
    /// Behind the last event: `topic, key, value`.
    const VALUE: usize = INFO_COLUMNS + 3;
    let mut values = Vec::new();
    for row in rows {
        let key: Option<&str> = row.try_get(VALUE + 1)?;
        if key.is_some() {
            values.push((topic(row, VALUE)?, value_key(row, VALUE + 1)?, rows::body(row, VALUE + 2)?));
        }
    }
    values.sort_unstable_by(|(topic, key, _), (other_topic, other_key, _)| {
        (topic, key).cmp(&(other_topic, other_key))
    });
    let has_more = values.len() > limit;
    values.truncate(limit);
    Ok(ChainValues { chain, point: ChainPoint { block, log }, seq, values, has_more })
}
