//! `07-paging-under-writes`. Behaviour 2.

use gapless_core::SyncRequest;
use tokio::sync::Semaphore;

use super::{duplicates, holes};
use crate::finding::Check;
use crate::raw_client::RawClient;
use crate::world::{JOINS, NOTHING, World, fresh_key, seqs, text};

const ENTRIES_BEFORE: u64 = 60;
const MESSAGES_MEANWHILE: u64 = 60;
const PAGE_ENTRIES: u32 = 20;
/// How many messages the writer may send after each page, so that neither is done before the other.
const MESSAGES_A_PAGE: usize = 12;

pub(super) async fn run(world: &World) -> anyhow::Result<Vec<Check>> {
    let (mut writer, mut reader) = (world.connect("ann").await?, world.connect("bob").await?);
    world.say(&mut writer, ENTRIES_BEFORE - JOINS).await?;

    let permits = Semaphore::new(0);
    let (written, read) =
        tokio::try_join!(write(world, &mut writer, &permits), read(world, &mut reader, &permits))?;
    let head = ENTRIES_BEFORE + written;
    Ok(vec![
        Check::exactly("entries read", head, read.seqs.len()),
        Check::exactly("entries read twice", 0, duplicates(&read.seqs)),
        Check::exactly("entries skipped", 0, holes(&read.seqs, head)),
        Check::exactly("in the log's order", true, read.seqs.is_sorted()),
        Check::at_least("pages between which the head moved", 3, read.heads_moved),
    ])
}

async fn write(world: &World, writer: &mut RawClient, permits: &Semaphore) -> anyhow::Result<u64> {
    for number in 0..MESSAGES_MEANWHILE {
        permits.acquire().await?.forget();
        let body = text(&format!("meanwhile {number}"))?;
        writer.send(world.conv(), fresh_key()?, body).await?;
    }
    permits.close();
    Ok(MESSAGES_MEANWHILE)
}

struct Read {
    seqs: Vec<u64>,
    heads_moved: u64,
}

/// Reads page by page, and ends with the last page that was asked for after the last write.
async fn read(world: &World, reader: &mut RawClient, permits: &Semaphore) -> anyhow::Result<Read> {
    let mut read = Read { seqs: Vec::new(), heads_moved: 0 };
    let (mut asked, mut head) = (NOTHING, None);
    loop {
        permits.add_permits(MESSAGES_A_PAGE);
        let writer_is_done = permits.is_closed();
        let page = reader.sync(world.conv(), asked, PAGE_ENTRIES).await?;
        let page = page.map_err(|error| anyhow::anyhow!("a sync was refused: {error:?}"))?;
        read.seqs.extend(seqs(&page.events));
        read.heads_moved += u64::from(head.is_some_and(|head| head != page.head));
        head = Some(page.head);
        asked = SyncRequest { after: page.next_after, epoch: Some(page.epoch) };
        if writer_is_done && !page.has_more {
            return Ok(read);
        }
    }
}
