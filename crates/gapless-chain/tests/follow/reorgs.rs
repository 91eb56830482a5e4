//! Forks, followed one block at a time.

use gapless_chain::{Report, Start};
use gapless_proto::BlockNumber;

use crate::lying_node::{LyingNode, hash};
use crate::world::{Client, World};

// Chain behaviours 1, 9
#[tokio::test]
async fn a_chain_that_leaves_a_branch_and_comes_back_is_followed() {
    let (node, mut world) = following("a1<g0:1 a2<a1:2 a3<a2:1").await;
    let mut client = Client::new();
    world.arrival(hash("a3")).await;
    client.catch_up(&world).await;

    node.mine("b2<a1:1 b3<b2:0 b4<b3:2");
    world.arrival(hash("b4")).await;
    assert_eq!(client.happenings(&world).await, node.happenings("b4", 0));

    node.set_head("a3");
    world.arrival(hash("a3")).await;
    assert_eq!(client.happenings(&world).await, node.happenings("a3", 0));

    node.mine("a4<a3:1");
    world.arrival(hash("a4")).await;
    assert_eq!(client.happenings(&world).await, node.happenings("a4", 0));
    assert_eq!(Client::new().happenings(&world).await, node.happenings("a4", 0));
}

// Chain behaviours 9, 10
#[tokio::test]
async fn blocks_that_were_left_are_canonical_again_when_a_range_has_nothing_else() {
    let node = LyingNode::start(1).await;
    node.mine("a1<g0:1 a2<a1:1 a3<a2:1");
    let mut world = World::new(1, &[&node.url]).await;
    (world.config.start, world.config.live_blocks) = (Start::Block(number(0)), 2);
    world.config.range_blocks_max = 1;
    world.start();
    world.arrival(hash("a3")).await;
    node.mine("b2<a1:1 b3<b2:1 b4<b3:1");
    world.arrival(hash("b4")).await;
    // The node lags on its way back.
    node.set_head("a2");
    world.arrival(hash("a2")).await;
    node.mine_up_to('a', 4, 20, "a3");
    world.arrival(hash("a20")).await;
    assert_eq!(Client::new().happenings(&world).await, node.happenings("a20", 0));
}

// Chain behaviour 9
#[tokio::test]
async fn a_chain_that_becomes_shorter_or_empty_is_followed() {
    let (node, mut world) = following("a1<g0:1 a2<a1:1 a3<a2:1 a4<a3:1").await;
    let mut client = Client::new();
    world.arrival(hash("a4")).await;
    client.catch_up(&world).await;

    node.mine("b2<a1");
    world.arrival(hash("b2")).await;
    assert_eq!(client.happenings(&world).await, node.happenings("a1", 0));

    node.mine("c2<a1 c3<c2 c4<c3 c5<c4");
    world.arrival(hash("c5")).await;
    assert_eq!(client.happenings(&world).await, node.happenings("a1", 0));
    assert_eq!(world.reorgs().await, 2);
}

// Chain behaviour 10
#[tokio::test]
async fn a_sibling_of_the_same_height_is_noticed() {
    let (node, mut world) = following("a1<g0:1 a2<a1:1").await;
    world.arrival(hash("a2")).await;
    node.mine("b2<a1:2");
    world.arrival(hash("b2")).await;
    assert_eq!(Client::new().happenings(&world).await, node.happenings("b2", 0));
    let reorg = world.report("a reorg", |report| matches!(report, Report::Reorg { .. })).await;
    assert!(matches!(reorg, Report::Reorg { depth: 1, .. }));
}

// Chain behaviour 10
#[tokio::test]
async fn heads_that_lag_skip_and_fall_revoke_nothing_and_the_gap_is_filled_in_order() {
    let node = LyingNode::start(1).await;
    node.mine_up_to('a', 1, 103, "g0");
    node.tell_heads(&["a100", "a101", "a101", "a103", "a102", "a101", "a103"]);
    let mut world = World::new(1, &[&node.url]).await;
    world.config.start = Start::Block(number(95));
    world.start();
    world.arrival(hash("a103")).await;
    world
        .report("a head below ours", |report| {
            let Report::Heads { head, have, .. } = report else { return false };
            node.has_told_all_heads() && have.is_some_and(|have| have.number > head.number)
        })
        .await;
    assert_eq!(world.reorgs().await, 0);
    let mut client = Client::new();
    assert_eq!(client.happenings(&world).await, node.happenings("a103", 95));
    assert_eq!(world.info().await.unwrap().head.get(), 9, "nothing was told twice or taken back");
}

// Chain behaviour 9
#[tokio::test]
async fn a_follower_that_starts_again_in_the_middle_of_a_reorg_goes_on() {
    let (node, mut world) = following("a1<g0:1 a2<a1:1 a3<a2:1").await;
    world.arrival(hash("a3")).await;
    let mut client = Client::new();
    for (letter, round) in [('b', 0), ('c', 1), ('d', 2), ('e', 3), ('f', 4)] {
        client.catch_up(&world).await;
        node.mine_up_to(letter, 2, 30 - round, "a1");
        let parts = usize::try_from(round).unwrap();
        world
            .report(
                "some blocks of the new branch",
                |report| matches!(report, Report::Heads { head, .. } if head.number.get() == 30 - round),
            )
            .await;
        for _ in 0..parts {
            tokio::task::yield_now().await;
        }
        world.stop().await;
        client.catch_up(&world).await;
        world.start();
        let head = format!("{letter}{}", 30 - round);
        world.arrival(hash(&head)).await;
        assert_eq!(client.happenings(&world).await, node.happenings(&head, 0));
    }
}

// Chain behaviour 12
#[tokio::test]
async fn a_contradiction_of_a_finalized_block_is_an_alarm_and_the_feed_may_begin_anew() {
    let (node, mut world) = following("a1<g0:1 a2<a1:1 a3<a2:1").await;
    node.finalize(2);
    world.arrival(hash("a3")).await;
    world.finality(2).await;
    node.mine("b1<g0:1 b2<b1:1 b3<b2:1 b4<b3:1");
    let alarm = world.report("an alarm", |report| matches!(report, Report::Alarm(_))).await;
    assert!(format!("{alarm:?}").contains("DeepReorg"), "{alarm:?}");
    assert_eq!(world.head().await.unwrap().hash, hash("a3"));
    assert_eq!(Client::new().happenings(&world).await, node.happenings("a3", 0));

    world.restart_chain().await;
    world.arrival(hash("b4")).await;
    let mut client = Client::new();
    assert_eq!(client.happenings(&world).await, node.happenings("b4", 0));
}

// Chain behaviour 14
#[tokio::test]
async fn heights_that_are_left_out_are_no_gap() {
    let (node, mut world) = following("a1<g0:1 a4<a1:1").await;
    world.arrival(hash("a4")).await;
    node.mine("a9<a4:1 a12<a9:1");
    world.arrival(hash("a12")).await;
    node.mine("b7<a4:1 b13<b7:1");
    world.arrival(hash("b13")).await;
    assert_eq!(Client::new().happenings(&world).await, node.happenings("b13", 0));
}

/// A node with these blocks, and a follower that begins with block 0.
async fn following(blocks: &str) -> (LyingNode, World) {
    let node = LyingNode::start(1).await;
    node.mine(blocks);
    let mut world = World::new(1, &[&node.url]).await;
    world.config.start = Start::Block(number(0));
    world.start();
    (node, world)
}

fn number(height: u64) -> BlockNumber {
    BlockNumber::new(height).unwrap()
}
