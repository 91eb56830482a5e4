//! `07-control-offset-paging`

use super::{duplicates, holes};
use crate::finding::Check;
use crate::plain_sql::PlainSql;
use crate::raw_client::RawClient;
use crate::world::{JOINS, NOTHING, World, seqs};

const ROWS: u64 = 30;
const PAGE_ROWS: usize = 10;
const ROWS_BETWEEN: u64 = 3;

pub(super) async fn run(world: &World) -> anyhow::Result<Vec<Check>> {
    let mut writer = world.connect("ann").await?;
    world.say(&mut writer, ROWS - JOINS).await?;
    let sql = world.plain_sql().await?;
    let by_offset = pages_by_offset(world, &sql, &mut writer).await?;

    let mut reader = world.connect("bob").await?;
    let (by_cursor, _) = world.pages_from(&mut reader, NOTHING, PAGE_ROWS as u32).await?;
    let by_cursor = seqs(&by_cursor);
    Ok(vec![
        Check::exactly("rows that OFFSET pages show twice", ROWS_BETWEEN, duplicates(&by_offset)),
        Check::exactly("rows inserted meanwhile that they don't show", ROWS_BETWEEN, missed(&by_offset)),
        Check::exactly("rows that pages from a cursor show twice", 0, duplicates(&by_cursor)),
        Check::exactly("rows that they don't show", 0, holes(&by_cursor, ROWS + ROWS_BETWEEN)),
    ])
}

/// Newest first, as a hurried application reads; rows are inserted after the first page.
async fn pages_by_offset(world: &World, sql: &PlainSql, writer: &mut RawClient) -> anyhow::Result<Vec<u64>> {
    let mut seen = Vec::new();
    loop {
        let offset = seen.len();
        let page = sql
            .numbers(&format!(
                "SELECT seq FROM entry WHERE feed = '{}' ORDER BY seq DESC LIMIT {PAGE_ROWS} OFFSET {offset}",
                world.conv()
            ))
            .await?;
        let is_last = page.len() < PAGE_ROWS;
        seen.extend(page);
        if is_last {
            return Ok(seen);
        }
        if offset == 0 {
            world.say(writer, ROWS_BETWEEN).await?;
        }
    }
}

fn missed(seen: &[u64]) -> u64 {
    holes(seen, ROWS + ROWS_BETWEEN)
}
