//! `02-away-and-back`. Chain behaviour 2.

use std::time::Duration;

use gapless_client::TopicsStart;

use super::Conditions;
use crate::chain::{ChainWorld, FollowingClient, beginning};
use crate::database::Databases;
use crate::elapse::elapse;
use crate::finding::{Check, Outcome};

/// How many events come before and after the absence.
const BESIDE: u64 = 6;
/// How many come during the absence.
const MEANWHILE: u64 = 12;

pub(super) async fn run(databases: &Databases, conditions: Conditions) -> anyhow::Result<Outcome> {
    let absence = conditions.size.pick(Duration::from_millis(600), Duration::from_secs(30));
    let mut world = ChainWorld::begin(databases, conditions.network, &[]).await?;
    let (line, other_line) = (world.line()?, world.line()?);
    let start = TopicsStart::After(beginning()?);
    let mut traveller = FollowingClient::start(line.address(), start.clone()).await?;
    let mut stayer = FollowingClient::start(other_line.address(), start).await?;
    world.indexer.mine(&[1; BESIDE as usize]).await?;
    traveller.follow_until(|fold| fold.events() == BESIDE).await?;

    line.refuse(true);
    line.cut();
    traveller.lose_connection().await?;
    for _ in 0..MEANWHILE {
        world.indexer.mine(&[1]).await?;
        elapse(absence / MEANWHILE as u32).await;
    }
    let told_while_away = traveller.fold().events() - BESIDE;
    line.refuse(false);

    world.indexer.mine(&[1; BESIDE as usize]).await?;
    let total = BESIDE + MEANWHILE + BESIDE;
    traveller.follow_until(|fold| fold.events() == total).await?;
    stayer.follow_until(|fold| fold.events() == total).await?;

    let canonical = world.indexer.canonical();
    let same = traveller.told() == stayer.told();
    let checks = vec![
        Check::exactly("connections that the one who stayed lost", 0, stayer.disconnects()),
        Check::at_least("connections that the one who left lost", 1, traveller.disconnects()),
        Check::exactly("events told while away", 0, told_while_away),
        Check::exactly("events told to the one who stayed", total, stayer.fold().events()),
        Check::exactly("events told to the one who left", total, traveller.fold().events()),
        Check::exactly("both were told the same, in the same order", true, same),
        Check::exactly("events missing", 0, traveller.fold().missing(&canonical)),
        Check::exactly("events wrong", 0, traveller.fold().wrong(&canonical)),
        Check::exactly("events told twice", 0, traveller.fold().doubles()),
        Check::exactly("resets", 0, traveller.fold().resets().len()),
    ];
    traveller.close().await;
    stayer.close().await;
    world.end().await?;
    Ok(checks.into())
}
