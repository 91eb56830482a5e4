//! `07-out-of-order-contiguous`. Behaviour 3.

use gapless_proto::ServerMessage;

use super::{duplicates, holes};
use crate::finding::Check;
use crate::follower::Follower;
use crate::world::{JOINS, World, seqs};

const PAGE_ENTRIES: u32 = 50;
/// Three times what a page holds.
const BACKLOG: u64 = 3 * PAGE_ENTRIES as u64;

pub(super) async fn run(world: &World) -> anyhow::Result<Vec<Check>> {
    let mut writer = world.connect("ann").await?;
    world.say(&mut writer, BACKLOG - JOINS).await?;

    // The reader has asked for its first page, and isn't shown it until the push is there.
    let mut reader = Follower::begin(world.connect("bob").await?, world.conv(), None, PAGE_ENTRIES).await?;
    world.say(&mut writer, 1).await?;
    let head = BACKLOG + 1;
    let push = reader.client().pushed(head).await?;
    let pushed_seq = push.entry.seq.get();
    reader.take(ServerMessage::Event(push)).await?;
    let position_after_push = reader.position();
    let pending_after_push = reader.pending();

    reader.follow_to(head).await?;
    let notes = reader.notes();
    let applied = seqs(&notes.log);
    Ok(vec![
        Check::exactly("seq pushed before the first page", head, pushed_seq),
        Check::exactly(
            "cursor after the push",
            serde_json::Value::Null,
            position_after_push.map(|p| p.seq.get()),
        ),
        Check::exactly("entries that wait after the push", 1, pending_after_push),
        Check::exactly("entries applied", head, applied.len()),
        Check::exactly("entries applied twice", 0, duplicates(&applied)),
        Check::exactly("entries skipped", 0, holes(&applied, head)),
        Check::exactly("oldest first", true, applied.is_sorted()),
        Check::exactly("cursor never went back", true, notes.cursors.is_sorted()),
        Check::at_least("pages fetched", BACKLOG / u64::from(PAGE_ENTRIES), notes.syncs),
    ])
}
