//! `07-reorg`. Chain behaviour 7.

use gapless_client::TopicsStart;
use gapless_proto::Mode;

use super::Conditions;
use crate::chain::{ChainWorld, FollowingClient, Told, TopicReader, beginning};
use crate::database::Databases;
use crate::finding::{Check, Outcome};

/// How many events come before those that vanish.
const BEFORE: u64 = 4;
/// How many vanish, each in a block of its own.
const VANISHING: u64 = 3;
/// The events of the blocks that take their place.
const NEW_BRANCH: [u64; 4] = [1, 0, 2, 1];

pub(super) async fn run(databases: &Databases, conditions: Conditions) -> anyhow::Result<Outcome> {
    let mut world = ChainWorld::begin(databases, conditions.network, &[]).await?;
    let (line, other_line) = (world.line()?, world.line()?);
    let start = TopicsStart::After(beginning()?);
    let mut traveller = FollowingClient::start(line.address(), start.clone()).await?;
    let mut stayer = FollowingClient::start(other_line.address(), start).await?;
    world.indexer.mine(&[1; BEFORE as usize]).await?;
    // This one leaves before the three are pushed, and comes back after they are gone.
    let mut innocent = TopicReader::connect(other_line.address()).await?;
    innocent.subscribe(Some(beginning()?), Mode::Instant, false).await?;
    innocent.read_until(|fold| fold.events() == BEFORE).await?;
    let left_at = innocent.fold().cursor().cloned();
    drop(innocent);

    world.indexer.mine(&[1; VANISHING as usize]).await?;
    let with_vanishing = BEFORE + VANISHING;
    traveller.follow_until(|fold| fold.events() == with_vanishing).await?;
    stayer.follow_until(|fold| fold.events() == with_vanishing).await?;
    line.refuse(true);
    line.cut();
    traveller.lose_connection().await?;

    world.indexer.reorganise(VANISHING as usize, &NEW_BRANCH).await?;
    let canonical = world.indexer.canonical();
    let newest = canonical.last().map(|held| held.number);
    stayer.follow_until(|fold| fold.newest() == newest).await?;
    line.refuse(false);
    traveller.follow_until(|fold| fold.newest() == newest).await?;

    let mut innocent = TopicReader::connect(other_line.address()).await?;
    innocent.subscribe(left_at, Mode::Instant, false).await?;
    innocent.read_until(|fold| fold.newest() == newest).await?;
    let mut newcomer = TopicReader::connect(other_line.address()).await?;
    newcomer.subscribe(Some(beginning()?), Mode::Instant, false).await?;
    newcomer.read_until(|fold| fold.newest() == newest).await?;

    let new_events: u64 = NEW_BRANCH.iter().sum();
    let after_absence = traveller.told().get(with_vanishing as usize);
    let checks = vec![
        Check::exactly("revokes told to the one who stayed", 1, stayer.fold().revokes()),
        Check::exactly("events missing to the one who stayed", 0, stayer.fold().missing(&canonical)),
        Check::exactly("events wrong with the one who stayed", 0, stayer.fold().wrong(&canonical)),
        Check::exactly(
            "the first that the one who was away is told is the revoke",
            true,
            matches!(after_absence, Some(Told::Revoke(_))),
        ),
        Check::exactly("revokes told to the one who was away", 1, traveller.fold().revokes()),
        Check::exactly(
            "events told to it after the revoke",
            new_events,
            traveller.fold().events() - with_vanishing,
        ),
        Check::exactly("events missing to it", 0, traveller.fold().missing(&canonical)),
        Check::exactly("events wrong with it", 0, traveller.fold().wrong(&canonical)),
        Check::exactly("revokes told to one that left before the three", 0, innocent.fold().revokes()),
        Check::exactly("events told to it when it is back", new_events, innocent.fold().events()),
        Check::exactly("revokes told to a newcomer", 0, newcomer.fold().revokes()),
        Check::exactly("events told to a newcomer", canonical.len(), newcomer.fold().events()),
        Check::exactly("events wrong with a newcomer", 0, newcomer.fold().wrong(&canonical)),
    ];
    traveller.close().await;
    stayer.close().await;
    world.end().await?;
    Ok(checks.into())
}
