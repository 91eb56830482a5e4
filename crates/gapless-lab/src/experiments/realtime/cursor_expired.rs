//! `03-cursor-expired`. Chain behaviour 3.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::bail;
use gapless_client::TopicsStart;
use gapless_proto::{Cursor, ErrorCode, Mode};
use serde_json::{Value, json};

use super::Conditions;
use crate::chain::{CHAIN, ChainWorld, FollowingClient, PATIENCE, Told, TopicReader};
use crate::database::Databases;
use crate::finding::{Check, Outcome};

/// How many events come before the absence, during it, and after it.
const BEFORE: u64 = 10;
const MEANWHILE: u64 = 30;
const AFTER: u64 = 5;
/// How many of the newest entries are kept: fewer than come during the absence.
const REPLAY_ENTRIES: &str = "20";

pub(super) async fn run(databases: &Databases, conditions: Conditions) -> anyhow::Result<Outcome> {
    let settings = [
        ("chains.confirmations", "2"),
        ("chains.reorg_blocks_max", "5"),
        ("chains.replay_entries", REPLAY_ENTRIES),
        ("chains.trim_interval", "100ms"),
    ];
    let mut world = ChainWorld::begin(databases, conditions.network, &settings).await?;
    let line = world.line()?;
    let mut traveller = FollowingClient::start(line.address(), TopicsStart::Snapshot).await?;
    world.indexer.mine(&[1; BEFORE as usize]).await?;
    traveller.follow_until(|fold| fold.newest() == Some(BEFORE - 1)).await?;
    let left_at = traveller.fold().cursor().cloned();
    let told_before = traveller.told().len();

    line.refuse(true);
    line.cut();
    traveller.lose_connection().await?;
    world.indexer.mine(&[1; MEANWHILE as usize]).await?;
    wait_until_expired(world.address(), left_at.clone()).await?;
    line.refuse(false);
    world.indexer.mine(&[1; AFTER as usize]).await?;
    let newest = world.indexer.next_number() - 1;
    traveller.follow_until(|fold| fold.newest() == Some(newest)).await?;

    let canonical = world.indexer.canonical();
    let back = &traveller.told()[told_before..];
    let order = [back.first(), back.get(1)].map(|told| told.map_or("nothing", name_of));
    let fold = traveller.fold();
    let mut checks = vec![
        Check::exactly(
            "resets told to one that was away for too long",
            json!(["cursor_expired"]),
            json!(fold.resets()),
        ),
        Check::exactly("the first that it is told", "reset", order[0]),
        Check::exactly("the second", "snapshot", order[1]),
        Check::exactly("events missing in the end", 0, fold.missing(&canonical)),
        Check::exactly("events wrong in the end", 0, fold.wrong(&canonical)),
        Check::exactly("events told twice since the snapshot", 0, fold.doubles()),
    ];
    for (what, cursor, expected) in positions(left_at) {
        let answer = answer_to(line.address(), cursor, conditions.network.silence()).await?;
        checks.push(Check::exactly(
            &format!("what a cursor {what} is answered, all of it"),
            json!([expected]),
            answer,
        ));
    }
    traveller.close().await;
    world.end().await?;
    Ok(checks.into())
}

/// Positions that can't be served, and what they must be called.
fn positions(expired: Option<Cursor>) -> Vec<(&'static str, Option<Cursor>, &'static str)> {
    let cursor = |text: &str| Cursor::new(text).ok();
    vec![
        ("that has expired", expired, "reset cursor_expired"),
        ("from the future", cursor(&format!("{CHAIN}:99999999:0000:99999999")), "reset cursor_ahead"),
        ("of a block that isn't there yet", cursor(&format!("{CHAIN}:99999999:0000")), "reset cursor_ahead"),
        ("of another chain", cursor("2:00000000000001:0000:2"), "error BAD_REQUEST"),
        ("that is garbage", cursor("yesterday"), "error BAD_REQUEST"),
        ("with a number too many", cursor(&format!("{CHAIN}:1:0:1:1")), "error BAD_REQUEST"),
    ]
}

/// Asks again and again, until the log behind a position is gone.
async fn wait_until_expired(server: SocketAddr, cursor: Option<Cursor>) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        let mut reader = TopicReader::connect(server).await?;
        reader.subscribe(cursor.clone(), Mode::Instant, false).await?;
        if let Told::Reset(_) = reader.next().await? {
            return Ok(());
        }
    }
    bail!("the log is never trimmed")
}

/// All that a cursor is answered, by name.
async fn answer_to(server: SocketAddr, cursor: Option<Cursor>, silence: Duration) -> anyhow::Result<Value> {
    let mut reader = TopicReader::connect(server).await?;
    reader.ask(cursor, Mode::Instant, false).await?;
    let mut names = Vec::new();
    if let Err(error) = reader.answer().await? {
        let code: ErrorCode = error.code;
        names.push(format!("error {code}"));
    }
    for told in reader.listen_for(silence).await? {
        let reason = if let Told::Reset(reason) = told { json!(reason) } else { json!("") };
        names.push(format!("{} {}", name_of(&told), reason.as_str().unwrap_or_default()));
    }
    Ok(json!(names))
}

fn name_of(told: &Told) -> &'static str {
    match told {
        Told::Event(_) => "event",
        Told::Revoke(_) => "revoke",
        Told::Snapshot(_) => "snapshot",
        Told::Progress(_) => "progress",
        Told::Reset(_) => "reset",
    }
}
