//! Nodes over WebSocket, whose announcements only wake the follower.

use std::time::Duration;

use gapless_chain::{NodeState, Report, Start, Trouble};
use gapless_proto::BlockNumber;

use crate::lying_node::{LATEST, Lie, LyingNode, hash};
use crate::world::{Client, World, trouble};

/// So long that nothing but an announcement wakes the follower in time.
const NEVER: Duration = Duration::from_secs(3_600);

// Chain behaviour 10
#[tokio::test]
async fn announced_heads_that_skip_repeat_and_fall_revoke_nothing_and_the_gap_is_filled_in_order() {
    let node = LyingNode::start(1).await;
    node.mine_up_to('a', 1, 103, "g0");
    node.set_head("a99");
    let mut world = following(&node, NEVER).await;
    world.arrival(hash("a99")).await;
    for (index, name) in ["a100", "a101", "a101", "a103", "a102", "a103"].into_iter().enumerate() {
        node.set_head(name);
        node.announce(name);
        let is_it = |report: &Report| matches!(report, Report::Heads { head, .. } if head.hash == hash(name));
        world.reported("a look at each head", 1 + usize::from(index == 2 || index == 5), is_it).await;
    }
    assert_eq!(world.head().await.unwrap().hash, hash("a103"));
    assert_eq!(world.reorgs().await, 0);
    assert_eq!(Client::new().happenings(&world).await, node.happenings("a103", 0));
    assert_eq!(world.info().await.unwrap().head.get(), 103, "nothing was told twice or taken back");
}

// Chain behaviours 9, 11
#[tokio::test]
async fn a_connection_that_ends_in_mid_subscription_is_made_anew() {
    let node = LyingNode::start(1).await;
    node.mine("a1<g0:1");
    let mut world = following(&node, NEVER).await;
    world.arrival(hash("a1")).await;
    for (name, block) in [("a2", "a2<a1:1"), ("a3", "a3<a2:2"), ("b3", "b3<a2:1")] {
        node.cut();
        node.mine(block);
        world.arrival(hash(name)).await;
    }
    assert_eq!(Client::new().happenings(&world).await, node.happenings("b3", 0));
    assert_eq!(connections(&mut world), 4, "each was checked");
    assert_eq!(node.requests("eth_chainId").len(), 4);
}

// Chain behaviour 11
#[tokio::test]
async fn a_frame_that_ends_too_early_stores_nothing_by_halves() {
    for method in
        ["eth_chainId", "eth_subscribe", "eth_getBlockByNumber", "eth_getBlockByHash", "eth_getLogs"]
    {
        let node = LyingNode::start(1).await;
        node.mine("a1<g0:1");
        for url in [node.ws_url.clone(), node.url.clone()] {
            let mut world = World::new(1, &[&url]).await;
            world.config.start = Start::Block(BlockNumber::default());
            world.start();
            world.arrival(hash("a1")).await;
            node.lie(method, 2, Lie::Truncated);
            node.mine("b1<g0:1 b2<b1:2 b3<b2:1");
            node.cut();
            world.arrival(hash("b3")).await;
            node.tell_truth();
            assert_eq!(Client::new().happenings(&world).await, node.happenings("b3", 0), "{method} {url}");
            world.stop().await;
            node.set_head("a1");
        }
    }
}

// Chain behaviour 10
#[tokio::test]
async fn a_subscription_that_falls_silent_is_made_up_for_by_the_poll() {
    let node = LyingNode::start(1).await;
    node.mine("a1<g0:1 a2<a1:1");
    let mut world = following(&node, Duration::from_millis(10)).await;
    world.arrival(hash("a2")).await;
    // A longer branch, siblings of which some are never seen, and a head that falls.
    for (name, blocks) in [("a4", "a3<a2:1 a4<a3:2"), ("d4", "b4<a3:1 c4<a3:3 d4<a3:1"), ("e3", "e3<a2:1")] {
        node.mine(blocks);
        world.arrival(hash(name)).await;
        assert_eq!(Client::new().happenings(&world).await, node.happenings(name, 0));
    }
    assert_eq!((node.requests("eth_subscribe").len(), connections(&mut world)), (1, 1));
}

// Chain behaviour 10
#[tokio::test]
async fn a_connection_that_leads_to_a_node_that_lags_revokes_nothing() {
    let node = LyingNode::start(1).await;
    node.mine("a1<g0:1 a2<a1:1 a3<a2:1 a4<a3:1");
    node.set_head_of(1, "a2");
    node.set_head_of(2, "b2");
    let mut world = following(&node, NEVER).await;
    world.arrival(hash("a4")).await;
    node.cut();
    world
        .report(
            "the lagging head",
            |report| matches!(report, Report::Heads { head, .. } if head.hash == hash("a2")),
        )
        .await;
    assert_eq!(world.head().await.unwrap().hash, hash("a4"));
    node.mine("b2<a1:2");
    node.cut();
    world.arrival(hash("b2")).await;
    assert_eq!(Client::new().happenings(&world).await, node.happenings("b2", 0));
}

// Chain behaviours 9, 11
#[tokio::test]
async fn a_fork_between_two_answers_leaves_nothing_of_the_old_branch() {
    for method in [LATEST, "eth_getBlockByHash", "eth_getLogs"] {
        let node = LyingNode::start(1).await;
        node.forget_orphans();
        node.mine("a1<g0:1 a2<a1:1");
        let mut world = following(&node, NEVER).await;
        world.arrival(hash("a2")).await;
        node.mine("b3<a2:1 b4<b3:1 b5<b4:2 b6<b5:1 a3<a2:2 a4<a3:1 a5<a4:1");
        node.switch_after(method, "b6");
        node.announce("a5");
        world.arrival(hash("b6")).await;
        assert_eq!(Client::new().happenings(&world).await, node.happenings("b6", 0), "{method}");
        world.report("an unknown block", |report| trouble(report) == Some(Trouble::UnknownBlock)).await;
    }
}

/// A follower that listens to a node and begins with block 0.
async fn following(node: &LyingNode, poll: Duration) -> World {
    let mut world = World::new(1, &[&node.ws_url]).await;
    world.config.start = Start::Block(BlockNumber::default());
    world.config.poll = poll;
    world.start();
    world
}

fn connections(world: &mut World) -> usize {
    let is_connected = |report: &&Report| matches!(report, Report::Node { state: NodeState::Connected, .. });
    world.reports().iter().filter(is_connected).count()
}
