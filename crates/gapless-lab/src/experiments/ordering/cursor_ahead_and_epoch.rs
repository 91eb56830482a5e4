//! `07-cursor-ahead-and-epoch`. Behaviour 8.

use gapless_core::SyncRequest;
use gapless_proto::{Epoch, ErrorCode, Position, Seq};
use serde_json::{Value, json};

use super::holes;
use crate::database::Database;
use crate::finding::Check;
use crate::follower::Follower;
use crate::world::{JOINS, NOTHING, World, seqs};

/// What the client holds when the log is rewound.
const HELD: u64 = 20;
/// Where a backup was taken.
const BACKUP: u64 = 10;
/// How far the restored log comes afterwards: past what the client holds.
const OVERTAKEN: u64 = 30;
const PAGE_ENTRIES: u32 = 50;

pub(super) async fn run(world: &mut World) -> anyhow::Result<Vec<Check>> {
    let mut writer = world.connect("ann").await?;
    world.say(&mut writer, HELD - JOINS).await?;
    let (_, held) = world.pages_from(&mut writer, NOTHING, PAGE_ENTRIES).await?;
    drop(writer);

    let mut checks = vec![
        Check::exactly("sync from beyond the head", "CURSOR_AHEAD", refusal(world, held, 5).await?),
        Check::exactly(
            "sync with the epoch before",
            "EPOCH_CHANGED",
            refusal(world, earlier_epoch(held)?, 0).await?,
        ),
    ];

    world.tamper(async |database| rewind(database).await).await?;
    checks.push(Check::exactly(
        "sync from what was held, log rewound",
        "CURSOR_AHEAD",
        refusal(world, held, 0).await?,
    ));
    checks.extend(start_over("rewound", world, held, BACKUP).await?);

    world.tamper(async |database| raise_epoch(database).await).await?;
    let mut writer = world.connect("ann").await?;
    world.say(&mut writer, OVERTAKEN - BACKUP).await?;
    checks.push(Check::exactly(
        "sync from what was held, log rewound and overtaken",
        "EPOCH_CHANGED",
        refusal(world, held, 0).await?,
    ));
    checks.extend(start_over("overtaken", world, held, OVERTAKEN).await?);
    Ok(checks)
}

/// A client that holds `held` comes back, and follows the log to its head.
async fn start_over(when: &str, world: &World, held: Position, head: u64) -> anyhow::Result<[Check; 3]> {
    let mut follower =
        Follower::begin(world.connect("bob").await?, world.conv(), Some(held), PAGE_ENTRIES).await?;
    follower.follow_until(|follower| !follower.notes().resets.is_empty()).await?;
    follower.follow_to(head).await?;
    let notes = follower.notes();
    let applied = seqs(&notes.log);
    Ok([
        Check::exactly(&format!("resets, log {when}"), 1, notes.resets.len()),
        Check::exactly(&format!("entries missing afterwards, log {when}"), 0, holes(&applied, head)),
        Check::at_most(&format!("syncs that took, log {when}"), 3, notes.syncs),
    ])
}

/// The code that answers a sync from `beyond` after a position; null if it gets a page.
async fn refusal(world: &World, position: Position, beyond: u64) -> anyhow::Result<Value> {
    let after = Seq::new(position.seq.get() + beyond)?;
    let asked = SyncRequest { after, epoch: Some(position.epoch) };
    let answer = world.connect("bob").await?.sync(world.conv(), asked, PAGE_ENTRIES).await?;
    Ok(json!(answer.err().map(|error: gapless_proto::ErrorReply| -> ErrorCode { error.code })))
}

fn earlier_epoch(position: Position) -> anyhow::Result<Position> {
    Ok(Position { epoch: Epoch::new(position.epoch.get() - 1)?, ..position })
}

/// Leaves the log as a backup had it.
async fn rewind(database: &Database) -> anyhow::Result<()> {
    let sql = database.plain_sql().await?;
    sql.run(&format!("DELETE FROM entry WHERE seq > {BACKUP}; UPDATE feed SET head = {BACKUP}")).await
}

/// What an operator does after a restore.
async fn raise_epoch(database: &Database) -> anyhow::Result<()> {
    let store = database.open_store().await?;
    store.raise_epoch(None).await?;
    store.close().await;
    Ok(())
}
