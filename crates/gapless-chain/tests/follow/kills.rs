//! A follower that dies between any two of its steps, and another that goes on where the store is.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use async_trait::async_trait;
use gapless_chain::{FollowConfig, Follower, Report, Sink, Start};
use gapless_proto::{BlockHash, BlockNumber, BlockRef, ChainId};
use gapless_store::{ChainInfo, IngestError, Ingested, Ingestion, KeptBlock, Store, StoreError};
use tokio::sync::mpsc;

use crate::lying_node::{LyingNode, hash};
use crate::world::{Client, Happening, World};

/// What a kill left behind, and what it should have.
type Found = (Vec<Happening>, Vec<Happening>);

// Chain behaviours 1, 9
#[tokio::test]
async fn a_follower_may_die_between_any_two_steps_of_a_reorg() {
    let by_hash = 64;
    let by_ranges = 1;
    for (world, live_blocks) in [
        (World::new(1, &[]).await, by_hash),
        (World::new(1, &[]).await, by_ranges),
        (World::on_postgres(1, &[]).await, by_hash),
    ] {
        let kills = kills_at_each_poll(world, live_blocks, Paced::beside).await;
        assert!(kills.len() > 20, "only {} steps", kills.len());
        for (polls, (held, canonical)) in kills.iter().enumerate() {
            assert_eq!(held, canonical, "killed at poll {polls}, {live_blocks} live blocks");
        }
    }
}

/// The control of the test above: where a follower is kept apart from the blocks, a kill between the two leaves a hole.
#[tokio::test]
async fn a_position_that_is_kept_apart_from_the_blocks_loses_some() {
    let world = World::new(1, &[]).await;
    let kills = kills_at_each_poll(world, 64, PositionFirst::beside).await;
    let broken = kills.iter().filter(|(held, canonical)| held != canonical).count();
    assert!(broken > 0, "none of {} kills showed it", kills.len());
}

/// Kills a follower after its first poll, another one after its second, and so on, until one gets through; lets a second one
/// finish each time. Each has a reorg of its own.
async fn kills_at_each_poll<S: Sink + Clone>(
    mut world: World,
    live_blocks: u64,
    sink: impl Fn(&World) -> S,
) -> Vec<Found> {
    let node = LyingNode::start(1).await;
    node.mine("a1<g0:1 a2<a1:2 a3<a2:1 a4<a3:1");
    world.config = FollowConfig {
        nodes: vec![node.url.parse().unwrap()],
        start: Start::Block(BlockNumber::default()),
        live_blocks,
        range_blocks_max: 2,
        ..world.config
    };
    let (sink, mut client, mut found) = (sink(&world), Client::new(), Vec::new());
    drive(world.follower(sink.clone()), hash("a4"), usize::MAX).await;
    let (mut parent, mut height) = ("a2".to_owned(), 2);
    for (polls, letter) in (1..).zip(('!'..='~').filter(|letter| !"<:a".contains(*letter))) {
        client.catch_up(&world).await;
        let [one, two, three, tip] = [1, 2, 3, 4].map(|above| format!("{letter}{}", height + above));
        node.mine(&format!("{one}<{parent}:2 {two}<{one}:1 {three}<{two}:0 {tip}<{three}:3"));
        let has_arrived = drive(world.follower(sink.clone()), hash(&tip), polls).await;
        client.catch_up(&world).await;
        drive(world.follower(sink.clone()), hash(&tip), usize::MAX).await;
        let held = client.happenings(&world).await;
        assert_eq!(Client::new().happenings(&world).await, held, "who was away holds the same");
        found.push((held, node.happenings(&tip, 0)));
        if has_arrived {
            break;
        }
        (parent, height) = (two, height + 2);
    }
    found
}

/// Drives a follower for so many polls, or until it says that the store has the newest block. Tells whether it has.
async fn drive<S: Sink>(
    (follower, mut reports): (Follower<S>, mpsc::Receiver<Report>),
    newest: BlockHash,
    polls: usize,
) -> bool {
    let has_it = |report| match report {
        Report::Heads { head, have, .. } => head.hash == newest && have == Some(head),
        _ => false,
    };
    let mut following = pin!(follower.run(pending()));
    let mut polls = polls;
    poll_fn(|context| {
        assert!(following.as_mut().poll(context).is_pending(), "nobody told it to end");
        polls -= 1;
        while let Ok(report) = reports.try_recv() {
            if has_it(report) {
                return Poll::Ready(true);
            }
        }
        if polls == 0 { Poll::Ready(false) } else { Poll::Pending }
    })
    .await
}

/// Takes several polls before and after each ingestion, so that some kill falls in between, however the polls fall.
#[derive(Clone)]
struct Paced(Arc<dyn Store>);

impl Paced {
    fn beside(world: &World) -> Self {
        Self(world.store())
    }
}

#[async_trait]
impl Sink for Paced {
    async fn ingest(&self, chain: ChainId, ingestion: Ingestion) -> Result<Ingested, IngestError> {
        some_polls().await;
        let ingested = self.0.ingest(chain, ingestion).await;
        some_polls().await;
        ingested
    }

    async fn chain(&self, chain: ChainId) -> Result<Option<ChainInfo>, StoreError> {
        self.0.chain(chain).await
    }

    async fn chain_blocks(&self, chain: ChainId, hashes: &[BlockHash]) -> Result<Vec<KeptBlock>, StoreError> {
        self.0.chain_blocks(chain, hashes).await
    }
}

async fn some_polls() {
    for _ in 0..4 {
        tokio::task::yield_now().await;
    }
}

/// Keeps the follower's position beside the store and moves it before the blocks are in: what is killed between the two believes
/// that it has them.
#[derive(Clone)]
struct PositionFirst {
    blocks: Paced,
    position: Arc<Mutex<Option<BlockRef>>>,
}

impl PositionFirst {
    fn beside(world: &World) -> Self {
        Self { blocks: Paced::beside(world), position: Arc::default() }
    }
}

#[async_trait]
impl Sink for PositionFirst {
    async fn ingest(&self, chain: ChainId, ingestion: Ingestion) -> Result<Ingested, IngestError> {
        if let Some(newest) = ingestion.blocks.last() {
            *self.position.lock().unwrap() = Some(newest.at());
        }
        self.blocks.ingest(chain, ingestion).await
    }

    async fn chain(&self, chain: ChainId) -> Result<Option<ChainInfo>, StoreError> {
        let info = self.blocks.chain(chain).await?;
        let position = *self.position.lock().unwrap();
        Ok(info.map(|info| ChainInfo { block: position.or(info.block), ..info }))
    }

    async fn chain_blocks(&self, chain: ChainId, hashes: &[BlockHash]) -> Result<Vec<KeptBlock>, StoreError> {
        self.blocks.chain_blocks(chain, hashes).await
    }
}
