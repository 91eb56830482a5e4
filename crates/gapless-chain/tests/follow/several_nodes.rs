//! Nodes that fail while others don't.

use std::time::Duration;

use gapless_chain::{NodeState, Report, Start, Trouble};
use gapless_proto::BlockNumber;
use serde_json::{Value, json};

use crate::lying_node::{LATEST, Lie, LyingNode, hash};
use crate::world::{Client, World};

// Chain behaviour 11
#[tokio::test]
async fn what_one_node_can_not_tell_another_can() {
    let (one, other, mut world) = two_nodes("a1<g0:2 a2<a1:2").await;
    one.lie("eth_getLogs", usize::MAX, Lie::Result(json!([])));
    one.lie("eth_getBlockReceipts", usize::MAX, Lie::Result(json!(null)));
    world.start();
    world.arrival(hash("a2")).await;
    assert_eq!(Client::new().happenings(&world).await, one.happenings("a2", 0));

    one.tell_truth();
    for lie in ["eth_getBlockByNumber", "eth_getLogs"] {
        other.lie(lie, usize::MAX, Lie::Status(503, None));
    }
    one.mine("a3<a2:1");
    world.arrival(hash("a3")).await;
    assert_eq!(Client::new().happenings(&world).await, one.happenings("a3", 0));
}

// Chain behaviour 11
#[tokio::test]
async fn a_node_that_tells_absurd_numbers_is_in_trouble_and_another_is_asked() {
    let lies: [fn(Value) -> Value; 2] = [|block| absurd(block, "timestamp"), |block| absurd(block, "number")];
    for lie in lies {
        let (one, other, mut world) = two_nodes("a1<g0:2").await;
        world.start();
        world.arrival(hash("a1")).await;
        one.lie(LATEST, usize::MAX, Lie::Changed(lie));
        for node in [&one, &other] {
            node.mine("a2<a1:1");
        }
        world.arrival(hash("a2")).await;
        assert_eq!(Client::new().happenings(&world).await, other.happenings("a2", 0));
        let untrusted = world.report("a failure", |report| {
            let Report::Node { node, state: NodeState::Failed { trouble, .. } } = report else {
                return false;
            };
            (*node, *trouble) == (0, Trouble::Untrustworthy)
        });
        untrusted.await;
    }
}

#[tokio::test]
async fn a_node_of_another_chain_is_refused() {
    let (one, other, mut world) = two_nodes("a1<g0:1").await;
    one.lie("eth_chainId", usize::MAX, Lie::Result(json!("0x2")));
    world.start();
    world.arrival(hash("a1")).await;
    let refused = world.report("a refusal", |report| {
        matches!(report, Report::Node { node: 0, state: NodeState::Failed { trouble: Trouble::Fatal, .. } })
    });
    refused.await;
    assert!(one.requests("eth_getLogs").is_empty());
    assert!(!other.requests("eth_getLogs").is_empty());
}

#[tokio::test]
async fn a_node_of_a_chain_with_the_same_id_and_another_block_0_is_refused() {
    let (one, _other, mut world) = two_nodes("a1<g0:1").await;
    world.config.genesis = Some(hash("g0"));
    one.lie(
        "eth_getBlockByNumber",
        usize::MAX,
        Lie::Changed(|mut block| {
            block["hash"] = json!(format!("0x{}", "77".repeat(32)));
            block
        }),
    );
    world.start();
    world.arrival(hash("a1")).await;
    assert!(one.requests("eth_getLogs").is_empty());
}

#[tokio::test]
async fn a_node_that_comes_back_is_checked_again() {
    let node = LyingNode::start(1).await;
    node.mine("a1<g0:1");
    let mut world = World::new(1, &[&node.url]).await;
    world.start();
    world.arrival(hash("a1")).await;
    assert_eq!(node.requests("eth_chainId").len(), 1);
    node.lie("eth_getBlockByNumber", 3, Lie::Status(502, None));
    node.mine("a2<a1:1");
    world.arrival(hash("a2")).await;
    let recovered = Report::Node { node: 0, state: NodeState::Recovered { failures: 3 } };
    world.report("that it answers again", |report| *report == recovered).await;
    assert_eq!(node.requests("eth_chainId").len(), 4);
}

#[tokio::test]
async fn a_node_whose_head_stands_still_makes_way_for_another() {
    let (one, other, mut world) = two_nodes("a1<g0:1").await;
    world.config.stall_timeout = Duration::from_millis(50);
    world.start();
    world.arrival(hash("a1")).await;
    other.mine("a2<a1:1");
    world.arrival(hash("a2")).await;
    one.mine("a2<a1:1 a3<a2:1");
    world.arrival(hash("a3")).await;
    assert_eq!(world.reorgs().await, 0);
}

// Chain behaviour 12
#[tokio::test]
async fn a_reorg_of_one_chain_does_not_touch_another() {
    let (one, _other, mut world) = two_nodes("a1<g0:1 a2<a1:1").await;
    let quiet = LyingNode::start(2).await;
    quiet.mine("a1<g0:1 a2<a1:1");
    let mut neighbour = world.neighbour(2, &[&quiet.url]);
    neighbour.config.start = Start::Block(BlockNumber::default());
    neighbour.start();
    world.start();
    world.arrival(hash("a2")).await;
    neighbour.arrival(hash("a2")).await;
    let before = neighbour.info().await;

    one.mine("b2<a1:1");
    world.arrival(hash("b2")).await;
    one.mine("b3<b2:1");
    world.arrival(hash("b3")).await;
    assert_eq!(neighbour.info().await, before);
    assert_eq!(Client::new().happenings(&neighbour).await, quiet.happenings("a2", 0));
}

/// Two nodes with the same blocks, and a follower that will begin with block 0.
async fn two_nodes(blocks: &str) -> (LyingNode, LyingNode, World) {
    let nodes = [LyingNode::start(1).await, LyingNode::start(1).await];
    for node in &nodes {
        node.mine(blocks);
    }
    let [one, other] = nodes;
    let mut world = World::new(1, &[&one.url, &other.url]).await;
    world.config.start = Start::Block(BlockNumber::default());
    (one, other, world)
}

fn absurd(mut block: Value, field: &str) -> Value {
    block[field] = json!("0xffffffffffffffff");
    block
}
