//! `02-control-timestamp-cursor`

use std::collections::BTreeSet;

use super::Conditions;
use crate::chain::ChainWorld;
use crate::database::Databases;
use crate::finding::{Check, Outcome};
use crate::plain_sql::PlainSql;

/// The events of the blocks, whose times are those of their blocks.
const BLOCKS: [u64; 4] = [3, 3, 3, 3];
/// How many the reader got before its connection was lost: two whole blocks, and one event of the third.
const HELD: usize = 7;

pub(super) async fn run(databases: &Databases, conditions: Conditions) -> anyhow::Result<Outcome> {
    let mut world = ChainWorld::begin(databases, conditions.network, &[]).await?;
    world.indexer.mine(&BLOCKS).await?;
    let sql = world.plain_sql().await?;
    let all = seqs(&sql, "true").await?;
    let held = &all[..HELD];
    let last_time =
        sql.number(&format!("SELECT time FROM chain_entry WHERE seq = {}", held[HELD - 1])).await?;
    let later = seqs(&sql, &format!("time > {last_time}")).await?;
    let same_or_later = seqs(&sql, &format!("time >= {last_time}")).await?;

    // What comes in the place of blocks that vanished is as old as they were.
    world.indexer.reorganise(2, &[3, 3]).await?;
    let replaced = seqs(&sql, &format!("seq > {}", all[all.len() - 1])).await?;
    let later_after_reorg = seqs(&sql, &format!("time > {}", last_time + 1)).await?;
    drop(sql);
    world.end().await?;

    let [all, held]: [BTreeSet<u64>; 2] = [&all[..], held].map(|seqs| seqs.iter().copied().collect());
    let missing = all.iter().filter(|seq| !held.contains(seq) && !later.contains(seq)).count();
    let twice = same_or_later.iter().filter(|seq| held.contains(seq)).count();
    let missing_after_reorg = replaced.iter().filter(|seq| !later_after_reorg.contains(seq)).count();
    Ok(vec![
        Check::at_least("events lost by one that asks for what is later", 1, missing as u64),
        Check::at_least("events doubled by one that asks for what is as late or later", 1, twice as u64),
        Check::at_least(
            "events of a new branch lost by one that had the old one",
            1,
            missing_after_reorg as u64,
        ),
    ]
    .into())
}

/// The seqs of the events for which something holds, oldest first.
async fn seqs(sql: &PlainSql, condition: &str) -> anyhow::Result<Vec<u64>> {
    let query = format!("SELECT seq FROM chain_entry WHERE time IS NOT NULL AND {condition} ORDER BY seq");
    sql.numbers(&query).await
}
