//! `07-control-max-seen-skips` and `07-control-max-seen-permanent`

use gapless_core::SyncRequest;
use gapless_proto::{Event, Position, ServerMessage};

use super::holes;
use crate::finding::Check;
use crate::follower::Follower;
use crate::raw_client::RawClient;
use crate::world::{JOINS, NOTHING, World, seqs};

const PAGE_ENTRIES: u32 = 50;
/// How many entries both readers hold before a push is lost.
const HELD: u64 = 10;

pub(super) async fn skips(world: &World) -> anyhow::Result<Vec<Check>> {
    let mut writer = world.connect("ann").await?;
    world.say(&mut writer, HELD - JOINS).await?;
    let mut largest_seen = LargestSeen::begin(world).await?;
    let mut contiguous =
        Follower::begin(world.connect("cyd").await?, world.conv(), None, PAGE_ENTRIES).await?;
    contiguous.follow_to(HELD).await?;

    let after_loss = HELD + 2;
    world.say(&mut writer, 2).await?;
    largest_seen.lose_pushes_before(after_loss).await?;
    let push = contiguous.client().pushed(after_loss).await?;
    contiguous.take(ServerMessage::Event(push)).await?;
    largest_seen.sync(world).await?;
    contiguous.follow_to(after_loss).await?;
    let applied = seqs(&contiguous.notes().log);
    Ok(vec![
        Check::exactly("where the largest-seen cursor is", after_loss, largest_seen.cursor.seq.get()),
        Check::exactly("entries before it that its owner misses", 1, holes(&largest_seen.seqs, after_loss)),
        Check::exactly(
            "where the contiguous cursor is",
            after_loss,
            contiguous.position().map(|p| p.seq.get()),
        ),
        Check::exactly(
            "entries before it that its owner misses, same pushes",
            0,
            holes(&applied, after_loss),
        ),
    ])
}

pub(super) async fn permanent(world: &mut World) -> anyhow::Result<Vec<Check>> {
    let mut writer = world.connect("ann").await?;
    world.say(&mut writer, HELD - JOINS).await?;
    let mut reader = LargestSeen::begin(world).await?;
    world.say(&mut writer, 2).await?;
    reader.lose_pushes_before(HELD + 2).await?;
    let missing_at_once = holes(&reader.seqs, HELD + 2);
    drop(writer);

    world.tamper(async |_| Ok(())).await?;
    let mut writer = world.connect("ann").await?;
    reader.client = world.connect("bob").await?;
    reader.sync(world).await?;
    world.say(&mut writer, 5).await?;
    let head = HELD + 7;
    for seq in HELD + 3..=head {
        reader.lose_pushes_before(seq).await?;
    }
    reader.sync(world).await?;
    let kept = world.whole_log(&mut writer).await?;
    Ok(vec![
        Check::exactly("entries missing after the lost push", 1, missing_at_once),
        Check::exactly("still missing after restart, full syncs and 5 more", 1, holes(&reader.seqs, head)),
        Check::exactly("where the largest-seen cursor is", head, reader.cursor.seq.get()),
        Check::exactly("entries missing in the log itself", 0, holes(&seqs(&kept), head)),
    ])
}

/// A reader whose cursor is the largest seq that it has seen.
struct LargestSeen {
    client: RawClient,
    cursor: Position,
    seqs: Vec<u64>,
}

impl LargestSeen {
    async fn begin(world: &World) -> anyhow::Result<Self> {
        let mut client = world.connect("bob").await?;
        let (entries, cursor) = world.pages_from(&mut client, NOTHING, PAGE_ENTRIES).await?;
        Ok(Self { client, cursor, seqs: seqs(&entries) })
    }

    /// Takes the push of `seq`. Those before it that were not taken yet are lost.
    async fn lose_pushes_before(&mut self, seq: u64) -> anyhow::Result<()> {
        let Event { epoch, entry, .. } = self.client.pushed(seq).await?;
        self.cursor = self.cursor.max(Position { epoch, seq: entry.seq });
        self.seqs.push(entry.seq.get());
        Ok(())
    }

    /// Fetches everything after the cursor, to the end.
    async fn sync(&mut self, world: &World) -> anyhow::Result<()> {
        let asked = SyncRequest { after: self.cursor.seq, epoch: Some(self.cursor.epoch) };
        let (entries, end) = world.pages_from(&mut self.client, asked, PAGE_ENTRIES).await?;
        self.seqs.extend(seqs(&entries));
        self.cursor = self.cursor.max(end);
        Ok(())
    }
}
