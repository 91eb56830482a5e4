//! Deletes what isn't kept any longer, in the caller's transaction.

use gapless_proto::{ChainId, Seq, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use super::super::columns::{Columns, integer};
use super::{info, is_clearing};
use crate::{ChainInfo, ChainNews, Rewound};

/// How many entries a step of a trim deletes at most.
const STEP_ENTRIES_MAX: u64 = 1_000;

/// Takes one step of a trim. Returns the oldest seq kept, and whether that was the last step; `None` when there is no such feed.
pub(in crate::sqlite) fn trim_step(
    connection: &Connection,
    chain: ChainId,
    below: Seq,
) -> rusqlite::Result<Option<(Seq, bool)>> {
    if !clear_step(connection, chain)? {
        return Ok(info(connection, &chain.to_string())?.map(|info| (info.min_seq, false)));
    }
    let chain = chain.to_string();
    let Some(info) = info(connection, &chain)? else {
        return Ok(None);
    };
    let goal = below.min(first_revocable(connection, &chain)?.unwrap_or(info.head.next()));
    let goal = torn_stretch(connection, &chain, info.min_seq, goal)?.map_or(goal, |(first, _)| first);
    if goal <= info.min_seq {
        return Ok(Some((info.min_seq, true)));
    }
    let step = step_end(connection, &chain, info.min_seq)?.map_or(goal, |end| end.min(goal));
    let step = match torn_stretch(connection, &chain, info.min_seq, step)? {
        None => step,
        Some((first, _)) if first > info.min_seq => first,
        Some((_, last)) => last.next(),
    };
    let (first, end) = (integer(info.min_seq.get()), integer(step.get()));
    // Of a value, what came before its newest version is of no use once the log below is gone.
    for statement in [
        "DELETE FROM chain_value WHERE chain = ?1 AND (topic, key, seq) IN (
             SELECT o.topic, o.key, o.seq FROM (
                 SELECT topic, key, max(seq) AS newest FROM chain_value
                  WHERE chain = ?1 AND seq >= ?2 AND seq < ?3 GROUP BY topic, key) n
              CROSS JOIN chain_value o
              WHERE o.chain = ?1 AND o.topic = n.topic AND o.key = n.key AND o.seq < n.newest)",
        "DELETE FROM chain_entry WHERE chain = ?1 AND seq >= ?2 AND seq < ?3",
    ] {
        connection.prepare_cached(statement)?.execute(params![chain, first, end])?;
    }
    connection
        .prepare_cached("UPDATE chain SET min_seq = ?2 WHERE chain = ?1")?
        .execute(params![chain, end])?;
    Ok(Some((step, step == goal)))
}

/// The first event that a reorg may still need: it may take back what lies above what is finalized and above the oldest block that is kept,
/// and tells where that block ends.
fn first_revocable(connection: &Connection, chain: &str) -> rusqlite::Result<Option<Seq>> {
    let mut statement = connection.prepare_cached(
        "SELECT seq FROM chain_entry
          WHERE chain = ?1 AND kind = 'event' AND void_at IS NULL AND block >= (
                SELECT max(b.number, coalesce(c.finalized, 0)) FROM chain c CROSS JOIN chain_block b
                 WHERE c.chain = ?1 AND b.chain = ?1 AND b.canonical ORDER BY b.number LIMIT 1)
          ORDER BY block, log, seq LIMIT 1",
    )?;
    statement.query_row(params![chain], |row| Columns::of(row).seq()).optional()
}

/// The first event and the revoke of what a trim up to a seq would tear apart: a revoke and what it took back go together, lest a reader who
/// never saw either be told of the one alone.
fn torn_stretch(
    connection: &Connection,
    chain: &str,
    min_seq: Seq,
    end: Seq,
) -> rusqlite::Result<Option<(Seq, Seq)>> {
    let mut statement = connection.prepare_cached(
        "SELECT min(first), max(seq) FROM chain_entry
          WHERE chain = ?1 AND kind = 'revoke' AND seq >= ?3 AND first < ?3 AND first >= ?2",
    )?;
    statement.query_row(params![chain, integer(min_seq.get()), integer(end.get())], |row| {
        let mut columns = Columns::of(row);
        Ok(columns.seq_or_null()?.zip(columns.seq_or_null()?))
    })
}

/// The seq that a step of a trim ends before, if there is as much; seqs may be left out.
fn step_end(connection: &Connection, chain: &str, from: Seq) -> rusqlite::Result<Option<Seq>> {
    let mut statement = connection.prepare_cached(
        "SELECT seq FROM chain_entry WHERE chain = ?1 AND seq >= ?2 ORDER BY seq LIMIT 1 OFFSET ?3",
    )?;
    let params = params![chain, integer(from.get()), integer(STEP_ENTRIES_MAX)];
    statement.query_row(params, |row| Columns::of(row).seq()).optional()
}

/// Raises the epochs of all chains.
pub(in crate::sqlite) fn raise_epochs(
    connection: &Connection,
    now: Timestamp,
) -> rusqlite::Result<Vec<ChainNews>> {
    let mut names = connection.prepare_cached("SELECT chain FROM chain ORDER BY chain")?;
    let names = names.query_map((), |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
    let mut raise = connection.prepare_cached(
        "UPDATE chain SET epoch = ?2, head = ?3, gap_after = ?4, gap_to = ?3 WHERE chain = ?1",
    )?;
    let mut news = Vec::new();
    for name in names {
        let (Some(before), Ok(chain)) = (info(connection, &name)?, name.parse()) else { continue };
        let rewound = Rewound::at(&before, now);
        let epoch = before.epoch.raised(now);
        let (to, after) = (integer(rewound.to.get()), integer(rewound.after.get()));
        raise.execute(params![name, integer(epoch.get()), to, after])?;
        let info = ChainInfo { epoch, head: rewound.to, rewound: Some(rewound), ..before };
        news.push(ChainNews { chain, info, entries: Vec::new() });
    }
    Ok(news)
}

/// Takes one step of deleting what a feed that was given up has left. Returns whether nothing is left.
pub(in crate::sqlite) fn clear_step(connection: &Connection, chain: ChainId) -> rusqlite::Result<bool> {
    let chain = chain.to_string();
    if !is_clearing(connection, &chain)? {
        return Ok(true);
    }
    let mut deleted = 0;
    for statement in [
        "DELETE FROM chain_entry WHERE chain = ?1 AND seq IN (
             SELECT e.seq FROM chain c CROSS JOIN chain_entry e
              WHERE c.chain = ?1 AND e.chain = ?1 AND e.seq <= c.anew_after ORDER BY e.seq LIMIT ?2)",
        "DELETE FROM chain_value WHERE chain = ?1 AND (topic, key, seq) IN (
             SELECT v.topic, v.key, v.seq FROM chain c CROSS JOIN chain_value v
              WHERE c.chain = ?1 AND v.chain = ?1 AND v.seq <= c.anew_after ORDER BY v.seq LIMIT ?2)",
    ] {
        let params = params![chain, integer(STEP_ENTRIES_MAX)];
        deleted += connection.prepare_cached(statement)?.execute(params)?;
    }
    if deleted > 0 {
        return Ok(false);
    }
    connection.prepare_cached("UPDATE chain SET clearing = 0 WHERE chain = ?1")?.execute(params![chain])?;
    Ok(true)
}

/// Begins a feed anew; what it had is out of sight, and left for [`clear_step`]. `None` when there is none.
pub(in crate::sqlite) fn restart(
    connection: &Connection,
    chain: ChainId,
    now: Timestamp,
) -> rusqlite::Result<Option<ChainNews>> {
    let name = chain.to_string();
    let Some(before) = info(connection, &name)? else {
        return Ok(None);
    };
    let info = before.anew(now);
    // There are no more of them than a reorg may reach.
    connection.execute("DELETE FROM chain_block WHERE chain = ?1", params![name])?;
    connection.execute(
        "UPDATE chain
            SET epoch = ?2, head = ?3, min_seq = ?4, anew_after = ?5, finalized = NULL, clearing = 1
          WHERE chain = ?1",
        params![
            name,
            integer(info.epoch.get()),
            integer(info.head.get()),
            integer(info.min_seq.get()),
            integer(before.head.get())
        ],
    )?;
    Ok(Some(ChainNews { chain, info, entries: Vec::new() }))
}
