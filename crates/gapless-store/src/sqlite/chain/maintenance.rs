//! Deletes what isn't kept any longer, in the caller's transaction.

use gapless_proto::{ChainId, Seq, Timestamp};
use rusqlite::{Connection, params};

use super::super::columns::integer;
use super::info;
use crate::{ChainInfo, ChainNews};

/// How many entries a step of a trim deletes at most.
const STEP_ENTRIES_MAX: u64 = 1_000;

/// Takes one step of a trim. Returns the oldest seq kept, and whether that was the last step; `None` when there is no such feed.
pub(in crate::sqlite) fn trim_step(
    connection: &Connection,
    chain: ChainId,
    below: Seq,
) -> rusqlite::Result<Option<(Seq, bool)>> {
    let chain = chain.to_string();
    let Some(info) = info(connection, &chain)? else {
        return Ok(None);
    };
    let goal = below.min(info.head.next());
    if goal <= info.min_seq {
        return Ok(Some((info.min_seq, true)));
    }
    let step = Seq::new(info.min_seq.get() + STEP_ENTRIES_MAX).unwrap_or(goal).min(goal);
    let (first, end) = (integer(info.min_seq.get()), integer(step.get()));
    // Of a value, what came before its newest version is of no use once the log below is gone.
    for statement in [
        "DELETE FROM chain_value WHERE chain = ?1 AND (topic, key, seq) IN (
             SELECT o.topic, o.key, o.seq FROM chain_value n CROSS JOIN chain_value o
              WHERE n.chain = ?1 AND n.seq >= ?2 AND n.seq < ?3
                AND o.chain = ?1 AND o.topic = n.topic AND o.key = n.key AND o.seq < n.seq)",
        "DELETE FROM chain_entry WHERE chain = ?1 AND seq >= ?2 AND seq < ?3",
    ] {
        connection.prepare_cached(statement)?.execute(params![chain, first, end])?;
    }
    connection
        .prepare_cached("UPDATE chain SET min_seq = ?2 WHERE chain = ?1")?
        .execute(params![chain, end])?;
    Ok(Some((step, step == goal)))
}

/// Begins a feed anew. `None` when there is none.
pub(in crate::sqlite) fn restart(
    connection: &Connection,
    chain: ChainId,
    now: Timestamp,
) -> rusqlite::Result<Option<ChainNews>> {
    let name = chain.to_string();
    let Some(before) = info(connection, &name)? else {
        return Ok(None);
    };
    for table in ["chain_block", "chain_entry", "chain_value"] {
        connection.execute(&format!("DELETE FROM {table} WHERE chain = ?1"), params![name])?;
    }
    let info = ChainInfo {
        epoch: before.epoch.raised(now),
        min_seq: before.head.next(),
        block: None,
        finalized: None,
        ..before
    };
    connection.execute(
        "UPDATE chain SET epoch = ?2, min_seq = ?3, finalized = NULL WHERE chain = ?1",
        params![name, integer(info.epoch.get()), integer(info.min_seq.get())],
    )?;
    Ok(Some(ChainNews { chain, info, entries: Vec::new() }))
}
