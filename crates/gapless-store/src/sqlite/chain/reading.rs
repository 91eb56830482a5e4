//! The reads. Each is one transaction, so all that it returns belongs to one moment.

use std::collections::BTreeSet;

use gapless_core::{ChainEntry, ChainEntryKind};
use gapless_proto::{BlockHash, BlockNumber, BlockRef, Body, ChainId, ChainPoint, Seq, Topic, ValueKey};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::super::columns::{Columns, integer};
use super::is_clearing;
use crate::{
    CHAIN_ENTRIES_MAX, CHAIN_SLICE_BYTES_MAX, CHAIN_VALUES_MAX, ChainInfo, ChainLogRequest, ChainSlice,
    ChainValues, ChainValuesRequest, KeptBlock, StoreError,
};

pub(in crate::sqlite) fn info(
    connection: &Connection,
    chain: ChainId,
) -> Result<Option<ChainInfo>, StoreError> {
    Ok(super::info(connection, &chain.to_string())?)
}

pub(in crate::sqlite) fn chains(
    connection: &Connection,
    after: Option<ChainId>,
    limit: u32,
) -> Result<Vec<ChainId>, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT chain FROM chain WHERE chain > ?1 ORDER BY chain LIMIT ?2")?;
    let after = after.map(|chain| chain.to_string()).unwrap_or_default();
    let names = statement.query_map(params![after, limit], |row| row.get::<_, String>(0))?;
    let chains = names.map(|name| name?.parse().map_err(|error| StoreError::Broken(Box::new(error))));
    chains.collect()
}

pub(in crate::sqlite) fn blocks(
    connection: &Connection,
    chain: ChainId,
    hashes: &[BlockHash],
) -> Result<Vec<KeptBlock>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT number, hash, parent, canonical FROM chain_block WHERE chain = ?1 AND hash = ?2",
    )?;
    let mut blocks = Vec::new();
    for hash in hashes {
        let block = statement.query_row(params![chain.to_string(), hash.0], |row| {
            let mut columns = Columns::of(row);
            let at = BlockRef { number: columns.block_number()?, hash: columns.hash()? };
            Ok(KeptBlock { at, parent: columns.hash()?, is_canonical: columns.flag()? })
        });
        blocks.extend(block.optional()?);
    }
    Ok(blocks)
}

pub(in crate::sqlite) fn log(
    connection: &Connection,
    request: &ChainLogRequest,
) -> Result<Option<ChainSlice>, StoreError> {
    let transaction = connection.unchecked_transaction()?;
    let chain = request.chain.to_string();
    let Some(info) = super::info(&transaction, &chain)? else {
        return Ok(None);
    };
    let limit = request.limit.clamp(1, CHAIN_ENTRIES_MAX);
    let mut found = revokes(&transaction, &chain, request, info.min_seq, limit + 1)?;
    for topic in &request.topics {
        found.extend(events(&transaction, &chain, topic, request, info.min_seq, limit)?);
    }
    found.sort_by_key(|entry| entry.seq);
    let covered = match request.up_to {
        None => info.head,
        Some(block) => {
            let last = last_event(&transaction, &chain, ChainPoint { block, log: u32::MAX })?;
            last.map_or(Seq::ZERO, |(seq, _)| seq)
        }
    };
    Ok(Some(ChainSlice::of(info, covered, found, limit)))
}

/// The events of a topic; one more than a slice may have, if there is one, so that it is known of.
fn events(
    connection: &Connection,
    chain: &str,
    topic: &Topic,
    request: &ChainLogRequest,
    min_seq: Seq,
    limit: u32,
) -> rusqlite::Result<Vec<ChainEntry>> {
    let mut statement = connection.prepare_cached(
        "SELECT seq, block, hash, time, log, topic, payload, state FROM chain_entry
          WHERE chain = ?1 AND topic = ?2 AND seq > ?3 AND seq >= ?6 AND void_at IS NULL AND block <= ?4
          ORDER BY seq LIMIT ?5",
    )?;
    let up_to = request.up_to.map_or(i64::MAX, |number| integer(number.get()));
    let (after, min_seq) = (integer(request.after.get()), integer(min_seq.get()));
    let params = params![chain, topic.as_str(), after, up_to, limit + 1, min_seq];
    let rows = statement.query_map(params, event)?;
    let (mut events, mut bytes) = (Vec::new(), 0);
    for event in rows {
        let event = event?;
        let is_beyond = bytes >= CHAIN_SLICE_BYTES_MAX;
        bytes += event.bytes();
        events.push(event);
        if is_beyond {
            break;
        }
    }
    Ok(events)
}

/// Those revokes that take back something of the topics that the reader may hold; of what is trimmed, nobody knows.
fn revokes(
    connection: &Connection,
    chain: &str,
    request: &ChainLogRequest,
    min_seq: Seq,
    limit: u32,
) -> rusqlite::Result<Vec<ChainEntry>> {
    let mut statement = connection.prepare_cached(
        "SELECT r.seq, r.block, r.log, r.first FROM chain_entry r
          WHERE r.chain = ?1 AND r.kind = 'revoke' AND r.seq > ?2 AND r.seq >= ?5 AND r.first <= ?2
            AND (r.first < ?5 OR EXISTS (
                SELECT 1 FROM json_each(?3) t CROSS JOIN chain_entry e
                 WHERE e.chain = ?1 AND e.topic = t.value AND e.seq >= r.first AND e.seq <= ?2
                   AND e.void_at = r.seq))
          ORDER BY r.seq LIMIT ?4",
    )?;
    let topics = request.topics.iter().map(Topic::as_str).collect::<serde_json::Value>().to_string();
    let (after, min_seq) = (integer(request.after.get()), integer(min_seq.get()));
    let rows = statement.query_map(params![chain, after, topics, limit, min_seq], |row| {
        let mut columns = Columns::of(row);
        let seq = columns.seq()?;
        let to = ChainPoint { block: columns.block_number()?, log: columns.log()? };
        Ok(ChainEntry { seq, kind: ChainEntryKind::Revoke { to, first: columns.seq()? } })
    })?;
    rows.collect()
}

fn event(row: &Row<'_>) -> rusqlite::Result<ChainEntry> {
    let mut columns = Columns::of(row);
    let seq = columns.seq()?;
    let block = BlockRef { number: columns.block_number()?, hash: columns.hash()? };
    let kind = ChainEntryKind::Event {
        block,
        time: columns.count()?,
        log: columns.log()?,
        topic: columns.topic()?,
        payload: columns.body()?,
        values: if columns.is_null()? { Default::default() } else { columns.json()? },
    };
    Ok(ChainEntry { seq, kind })
}

pub(in crate::sqlite) fn seq_at(
    connection: &Connection,
    chain: ChainId,
    point: ChainPoint,
) -> Result<Option<Seq>, StoreError> {
    let transaction = connection.unchecked_transaction()?;
    let chain = chain.to_string();
    let Some(info) = super::info(&transaction, &chain)? else {
        return Ok(None);
    };
    let last = last_event(&transaction, &chain, point)?;
    Ok(last.map(|(seq, _)| seq).or_else(|| (info.min_seq == Seq::FIRST).then_some(Seq::ZERO)))
}

pub(in crate::sqlite) fn values(
    connection: &Connection,
    request: &ChainValuesRequest,
) -> Result<Option<ChainValues>, StoreError> {
    let transaction = connection.unchecked_transaction()?;
    let chain = request.chain.to_string();
    let Some(info) = super::info(&transaction, &chain)? else {
        return Ok(None);
    };
    let head = info.block.map(|block| block.number).unwrap_or_default();
    let block = request.up_to.map_or(head, |number| number.min(head));
    let last = last_event(&transaction, &chain, ChainPoint { block, log: u32::MAX })?;
    // Without an event that is kept, what is known ends before the oldest.
    let (seq, last) = last.unwrap_or((info.min_seq.prev(), ChainPoint { block, log: 0 }));
    let log = if last.block == block { last.log } else { 0 };
    let limit = request.limit.clamp(1, CHAIN_VALUES_MAX) as usize;
    let mut values = Vec::new();
    let topics = if is_clearing(&transaction, &chain)? { &[][..] } else { &request.topics };
    for topic in topics.iter().collect::<BTreeSet<_>>() {
        let after = match &request.after {
            Some((passed, _)) if topic < passed => continue,
            Some((passed, key)) if topic == passed => key.as_str(),
            Some(_) | None => "",
        };
        let room = limit + 1 - values.len();
        values.extend(values_of_topic(&transaction, &chain, topic, block, after, room)?);
        if values.len() > limit {
            break;
        }
    }
    let has_more = values.len() > limit;
    values.truncate(limit);
    Ok(Some(ChainValues { chain: info, point: ChainPoint { block, log }, seq, values, has_more }))
}

/// Steps from key to key, however often a value has changed.
fn values_of_topic(
    connection: &Connection,
    chain: &str,
    topic: &Topic,
    block: BlockNumber,
    after: &str,
    limit: usize,
) -> rusqlite::Result<Vec<(Topic, ValueKey, Body)>> {
    let mut statement = connection.prepare_cached(
        "WITH RECURSIVE named (key) AS (
             SELECT (SELECT min(key) FROM chain_value WHERE chain = ?1 AND topic = ?2 AND key > ?3)
             UNION ALL
             SELECT (SELECT min(key) FROM chain_value WHERE chain = ?1 AND topic = ?2 AND key > named.key)
               FROM named WHERE named.key IS NOT NULL
         )
         SELECT named.key,
                (SELECT value FROM chain_value v
                  WHERE v.chain = ?1 AND v.topic = ?2 AND v.key = named.key AND v.block <= ?4
                  ORDER BY v.seq DESC LIMIT 1) AS value
           FROM named
          WHERE named.key IS NOT NULL AND value IS NOT NULL
          LIMIT ?5",
    )?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows =
        statement.query_map(params![chain, topic.as_str(), after, integer(block.get()), limit], |row| {
            let mut columns = Columns::of(row);
            Ok((topic.clone(), columns.value_key()?, columns.body()?))
        })?;
    rows.collect()
}

/// The last event that holds and is at or before a place.
fn last_event(
    connection: &Connection,
    chain: &str,
    point: ChainPoint,
) -> rusqlite::Result<Option<(Seq, ChainPoint)>> {
    if is_clearing(connection, chain)? {
        return Ok(None);
    }
    let mut statement = connection.prepare_cached(
        "SELECT seq, block, log FROM chain_entry
          WHERE chain = ?1 AND kind = 'event' AND void_at IS NULL AND (block, log) <= (?2, ?3)
          ORDER BY block DESC, log DESC, seq DESC LIMIT 1",
    )?;
    let last = statement.query_row(params![chain, integer(point.block.get()), point.log], |row| {
        let mut columns = Columns::of(row);
        Ok((columns.seq()?, ChainPoint { block: columns.block_number()?, log: columns.log()? }))
    });
    last.optional()
}
