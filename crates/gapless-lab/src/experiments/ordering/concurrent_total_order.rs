//! `07-concurrent-total-order`. Behaviour 1.

use std::collections::BTreeSet;

use futures_util::future::try_join_all;
use gapless_proto::Entry;

use super::{duplicates, holes};
use crate::finding::Check;
use crate::follower::Follower;
use crate::world::{JOINS, MEMBERS, World, fresh_key, seqs, text};

const MESSAGES_EACH: u64 = 50;
const MESSAGES: u64 = MESSAGES_EACH * MEMBERS.len() as u64;
const PAGE_ENTRIES: u32 = 50;

pub(super) async fn run(world: &World) -> anyhow::Result<Vec<Check>> {
    let mut watchers = try_join_all(MEMBERS.map(|user| watch(world, user))).await?;
    let acknowledged = try_join_all(MEMBERS.map(|user| speak(world, user))).await?;
    let head = JOINS + MESSAGES;
    try_join_all(watchers.iter_mut().map(|watcher| watcher.follow_to(head))).await?;
    let logs = try_join_all(MEMBERS.map(|user| read(world, user))).await?;

    let overtaken = acknowledged.iter().flat_map(|seqs| seqs.windows(2)).filter(|pair| pair[0] > pair[1]);
    let overtaken = overtaken.count() as u64;
    let acknowledged = acknowledged.concat();
    let first_log = seqs(&logs[0]);
    let read_texts = logs.iter().map(|log| bytes_of(log)).collect::<Result<BTreeSet<_>, _>>()?;
    let watched = watchers.iter().map(|watcher| &watcher.notes().log);
    let all_texts = watched.map(|log| bytes_of(log)).collect::<Result<BTreeSet<_>, _>>()?;
    Ok(vec![
        Check::exactly("sends acknowledged", MESSAGES, acknowledged.len()),
        Check::exactly("seqs given out twice", 0, duplicates(&acknowledged)),
        Check::exactly("holes in the log", 0, holes(&first_log, head)),
        Check::exactly("entries in the log", head, first_log.len()),
        Check::exactly("sends that overtook an earlier one of their sender", 0, overtaken),
        Check::exactly("different logs read by 3 members, byte by byte", 1, read_texts.len()),
        Check::exactly("logs watched live that differ from it", 0, all_texts.difference(&read_texts).count()),
    ])
}

async fn watch(world: &World, user: &str) -> anyhow::Result<Follower> {
    Follower::begin(world.connect(user).await?, world.conv(), None, PAGE_ENTRIES).await
}

/// Sends all messages without waiting for any, and returns their seqs in the order in which they were sent.
async fn speak(world: &World, user: &str) -> anyhow::Result<Vec<u64>> {
    let mut client = world.connect(user).await?;
    let mut requests = Vec::new();
    for number in 0..MESSAGES_EACH {
        let body = text(&format!("{user} says {number}"))?;
        requests.push(client.start_send(world.conv(), fresh_key()?, body).await?);
    }
    let mut seqs = Vec::new();
    for request in requests {
        seqs.push(client.sent(request).await?.seq.get());
    }
    Ok(seqs)
}

async fn read(world: &World, user: &str) -> anyhow::Result<Vec<Entry>> {
    world.whole_log(&mut world.connect(user).await?).await
}

/// The log as text; bodies are in it as they came.
fn bytes_of(log: &[Entry]) -> serde_json::Result<String> {
    serde_json::to_string(log)
}
