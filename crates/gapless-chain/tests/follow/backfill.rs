//! Old blocks, by ranges.

use gapless_chain::{Report, Start, Trouble};
use gapless_proto::BlockNumber;
use serde_json::{Value, json};

use crate::lying_node::{Lie, LyingNode, RANGES, hash};
use crate::world::{Client, World};

// Chain behaviour 1
#[tokio::test]
async fn old_blocks_come_by_ranges_and_then_the_newest_one_by_one() {
    let (node, mut world) = ready(500).await;
    node.finalize(480);
    world.start();
    world.arrival(hash("a500")).await;
    assert_eq!(Client::new().happenings(&world).await, node.happenings("a500", 0));
    assert_eq!(world.balances().await.values().sum::<i128>(), 0);
    let done = world.report(
        "progress",
        |report| matches!(report, Report::Backfill { at, to, .. } if at == to && to.get() == 480),
    );
    done.await;
    assert!(node.requests("eth_getLogs").len() < 60);
    world.finality(480).await;
}

// Chain behaviour 11
#[tokio::test]
async fn ranges_shrink_until_the_node_takes_them() {
    for (blocks, text) in [
        (7, "block range is too wide"),
        (7, "query is limited to 7 blocks"),
        (7, "query exceeds max results 20000, retry with the range {from}-{to}"),
        (1, "response is too big"),
    ] {
        let (node, mut world) = ready(150).await;
        node.refuse_ranges_over(blocks, text);
        world.start();
        world.arrival(hash("a150")).await;
        assert_eq!(Client::new().happenings(&world).await, node.happenings("a150", 0), "{text}");
    }
}

// Chain behaviour 11
#[tokio::test]
async fn a_block_whose_range_is_too_large_by_itself_comes_by_its_hash() {
    let (node, mut world) = ready(100).await;
    node.refuse_ranges_over(0, "query returned more than 10000 results");
    world.start();
    world.arrival(hash("a100")).await;
    assert_eq!(Client::new().happenings(&world).await, node.happenings("a100", 0));
}

// Chain behaviour 11
#[tokio::test]
async fn who_asks_too_often_does_not_ask_for_less() {
    let (node, mut world) = ready(300).await;
    world.config.range_blocks_max = 100;
    node.lie(RANGES, 1, Lie::Status(429, None));
    world.start();
    world.arrival(hash("a300")).await;
    let ranges = node.requests("eth_getLogs");
    let ranges: Vec<_> = ranges.iter().filter(|params| params[0]["fromBlock"].is_string()).collect();
    assert_eq!(ranges[0], ranges[1]);
    assert_eq!(ranges[1][0]["toBlock"], json!("0x64"));
    assert_eq!(Client::new().happenings(&world).await, node.happenings("a300", 0));
}

// Chain behaviour 11
#[tokio::test]
async fn logs_that_are_missing_in_a_range_are_fetched_by_hash() {
    let (node, mut world) = ready(200).await;
    node.lie(RANGES, 1, Lie::Changed(|logs| json!(logs.as_array().unwrap()[..10])));
    world.start();
    world.arrival(hash("a200")).await;
    assert_eq!(Client::new().happenings(&world).await, node.happenings("a200", 0));
    world.report("a refetch", |report| matches!(report, Report::Refetched { .. })).await;
}

// Chain behaviour 11
#[tokio::test]
async fn logs_of_a_range_that_can_not_all_be_true_are_fetched_by_hash_and_the_same_one_twice_is_one_event() {
    let other_fork = |logs: Value| with_one_more(&logs, "blockHash", json!(hash("b4")));
    let other_content = |logs: Value| with_one_more(&logs, "data", json!(hash("b4")));
    let removed = |logs: Value| with_one_more(&logs, "removed", json!(true));
    let twice = |logs: Value| with_one_more(&logs, "removed", json!(false));
    let harmless = [Lie::Changed(other_fork), Lie::Changed(twice)].map(|lie| (lie, false));
    let suspect = [Lie::Changed(other_content), Lie::Changed(removed)].map(|lie| (lie, true));
    for (lie, is_refetched) in harmless.into_iter().chain(suspect) {
        let (node, mut world) = ready(200).await;
        node.lie(RANGES, 1, lie);
        world.start();
        world.arrival(hash("a200")).await;
        assert_eq!(Client::new().happenings(&world).await, node.happenings("a200", 0));
        let refetches = |report: &Report| matches!(report, Report::Refetched { .. });
        assert_eq!(world.reports().iter().any(refetches), is_refetched);
        assert_eq!(world.failures(), []);
    }
}

#[tokio::test]
async fn blooms_that_promise_too_much_hold_a_range_up_once_and_not_each() {
    let node = LyingNode::start(1).await;
    let blocks: Vec<_> = (1..=200).map(|height| format!("a{height}<{}", parent(height))).collect();
    node.mine(&blocks.join(" "));
    for height in (10..100).step_by(5) {
        node.promise_too_much(&format!("a{height}"));
    }
    node.lie("eth_getBlockReceipts", usize::MAX, Lie::Error(-32601, "no such method"));
    let mut world = World::new(1, &[&node.url]).await;
    world.config.start = Start::Block(BlockNumber::default());
    world.start();
    world.arrival(hash("a200")).await;
    assert_eq!(world.failures(), [Trouble::Untrustworthy; 3]);
}

// Chain behaviour 9
#[tokio::test]
async fn a_reorg_while_nobody_looked_is_found_before_the_gap_is_filled() {
    let (node, mut world) = ready(100).await;
    world.start();
    world.arrival(hash("a100")).await;
    let mut client = Client::new();
    client.catch_up(&world).await;
    world.stop().await;
    node.mine_up_to('b', 91, 400, "a90");
    world.start();
    world.arrival(hash("b400")).await;
    assert_eq!(client.happenings(&world).await, node.happenings("b400", 0));
    assert_eq!(world.reorgs().await, 1);
}

// Chain behaviour 14
#[tokio::test]
async fn heights_that_are_left_out_are_passed_over_by_ranges() {
    let node = LyingNode::start(u64::MAX).await;
    node.mine_up_to('a', 1, 20, "g0");
    node.mine("a300<a20:1 a301<a300:1 a500<a301:1 a600<a500:1");
    let mut world = World::new(u64::MAX, &[&node.url]).await;
    world.config.start = Start::Block(BlockNumber::default());
    world.config.range_blocks_max = 50;
    world.start();
    world.arrival(hash("a600")).await;
    assert_eq!(Client::new().happenings(&world).await, node.happenings("a600", 0));
}

/// A node with so many blocks, and a follower that will begin with block 0.
async fn ready(blocks: u64) -> (LyingNode, World) {
    let node = LyingNode::start(1).await;
    node.mine_up_to('a', 1, blocks, "g0");
    let mut world = World::new(1, &[&node.url]).await;
    world.config.start = Start::Block(BlockNumber::default());
    (node, world)
}

fn parent(height: u64) -> String {
    if height == 1 { "g0".to_owned() } else { format!("a{}", height - 1) }
}

/// Logs, and the fourth of them again with another field.
fn with_one_more(logs: &Value, field: &str, value: Value) -> Value {
    let mut again = logs[3].clone();
    again[field] = value;
    Value::Array(logs.as_array().unwrap().iter().cloned().chain([again]).collect())
}
