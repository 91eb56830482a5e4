//! One node that answers wrongly, and is asked again.

use std::time::{Duration, Instant};

use gapless_chain::{Report, Start, Trouble};
use gapless_proto::BlockNumber;
use serde_json::{Value, json};

use crate::lying_node::{BY_HASH, Lie, LyingNode, RANGES, hash};
use crate::world::{Client, World, trouble};

// Chain behaviour 11
#[tokio::test]
async fn logs_that_the_bloom_promises_are_found_in_the_receipts() {
    let (node, mut world) = ready("a1<g0:1 a2<a1:2").await;
    node.lie("eth_getLogs", usize::MAX, Lie::Result(json!([])));
    world.start();
    world.arrival(hash("a2")).await;
    assert_eq!(Client::new().happenings(&world).await, node.happenings("a2", 0));
    world.report("a refetch", |report| matches!(report, Report::Refetched { .. })).await;
}

// Chain behaviour 11
#[tokio::test]
async fn logs_that_the_bloom_does_not_know_are_never_stored() {
    let invented = |mut logs: Value| {
        let mut other = logs[0].clone();
        other["logIndex"] = json!("0x63");
        other["topics"][2] = json!(format!("0x{}", "77".repeat(32)));
        logs.as_array_mut().unwrap().push(other);
        logs
    };
    let (node, mut world) = ready("a1<g0:1 a2<a1:2").await;
    node.lie("eth_getLogs", usize::MAX, Lie::Changed(invented));
    world.start();
    world.arrival(hash("a2")).await;
    assert_eq!(Client::new().happenings(&world).await, node.happenings("a2", 0));
    world.report("a refetch", |report| matches!(report, Report::Refetched { .. })).await;
}

// Chain behaviour 11
#[tokio::test]
async fn missing_logs_and_missing_receipts_store_nothing_until_they_come() {
    for receipts in [json!(null), json!([null])] {
        let (node, mut world) = ready("a1<g0:1").await;
        world.start();
        world.arrival(hash("a1")).await;
        node.lie("eth_getLogs", 3, Lie::Result(json!([])));
        node.lie("eth_getBlockReceipts", 3, Lie::Result(receipts));
        node.mine("a2<a1:3");
        world.arrival(hash("a2")).await;
        assert_eq!(world.failures(), [Trouble::Untrustworthy; 3]);
        assert_eq!(Client::new().happenings(&world).await, node.happenings("a2", 0));
    }
}

#[tokio::test]
async fn a_bloom_that_promises_too_much_holds_nothing_up() {
    let (node, mut world) = ready("a1<g0 a2<a1").await;
    node.promise_too_much("a1");
    node.promise_too_much("a2");
    node.lie("eth_getBlockReceipts", usize::MAX, Lie::Error(-32601, "no such method"));
    world.start();
    world.arrival(hash("a2")).await;
    assert_eq!(Client::new().happenings(&world).await, []);
}

// Chain behaviour 11
#[tokio::test]
async fn logs_that_can_not_be_those_of_the_block_are_asked_for_again() {
    let changes: [fn(Value) -> Value; 3] = [
        |logs| changed(logs, "removed", json!(true)),
        |logs| changed(logs, "blockHash", json!(format!("0x{}", "77".repeat(32)))),
        |mut logs| {
            let mut other = logs[0].clone();
            other["data"] = json!(format!("0x{}", "00".repeat(32)));
            logs.as_array_mut().unwrap().push(other);
            logs
        },
    ];
    for change in changes {
        let (node, mut world) = ready("a1<g0:2").await;
        node.lie("eth_getLogs", 2, Lie::Changed(change));
        world.start();
        world.arrival(hash("a1")).await;
        world.stop().await;
        assert_eq!(world.failures(), [Trouble::Untrustworthy; 2]);
        assert_eq!(Client::new().happenings(&world).await, node.happenings("a1", 0));
    }
}

// Chain behaviour 11
#[tokio::test]
async fn the_same_log_twice_is_one_event() {
    let (node, mut world) = ready("a1<g0:2").await;
    node.lie("eth_getLogs", usize::MAX, Lie::Changed(|logs| json!([logs[1], logs[0], logs[1]])));
    world.start();
    world.arrival(hash("a1")).await;
    assert_eq!(Client::new().happenings(&world).await, node.happenings("a1", 0));
}

// Chain behaviour 11
#[tokio::test]
async fn a_node_that_does_not_know_its_own_block_is_asked_again() {
    for (method, lie) in [
        ("eth_getLogs", Lie::Error(-32000, "unknown block")),
        ("eth_getLogs", Lie::Error(-32603, "hash 0x77 is not currently canonical")),
        ("eth_getLogs", Lie::Result(json!(null))),
        ("eth_getBlockByHash", Lie::Result(json!(null))),
        ("eth_getBlockByNumber", Lie::Result(json!(null))),
        ("eth_getBlockByNumber", Lie::Error(-32000, "header not found")),
    ] {
        let (node, mut world) = ready("a1<g0:1").await;
        world.start();
        world.arrival(hash("a1")).await;
        node.lie(method, 2, lie);
        node.mine("a2<a1:1 a3<a2:1 a4<a3:1");
        world.arrival(hash("a4")).await;
        world.report("a failure", |report| trouble(report) == Some(Trouble::UnknownBlock)).await;
        assert_eq!(Client::new().happenings(&world).await, node.happenings("a4", 0));
    }
}

// Chain behaviour 11
#[tokio::test]
async fn a_node_that_tells_logs_only_by_height_is_followed_across_a_fork() {
    let (node, mut world) = ready("a1<g0:1 a2<a1:2").await;
    node.lie(BY_HASH, usize::MAX, Lie::Error(-32602, "invalid argument 0: unknown field blockHash"));
    world.start();
    world.arrival(hash("a2")).await;
    node.mine("b3<a2:1 b4<b3:2 a3<a2:3");
    node.switch_after(RANGES, "b4");
    world.arrival(hash("b4")).await;
    assert_eq!(Client::new().happenings(&world).await, node.happenings("b4", 0));
    assert_eq!(world.failures(), [Trouble::UnknownBlock]);
}

// Chain behaviour 11
#[tokio::test]
async fn a_node_that_is_asked_too_often_is_left_alone_for_as_long_as_it_says() {
    let (node, mut world) = ready("a1<g0:1").await;
    world.start();
    world.arrival(hash("a1")).await;
    let before = Instant::now();
    node.lie("eth_getLogs", 1, Lie::Status(429, Some("1")));
    node.mine("a2<a1:1");
    world.arrival(hash("a2")).await;
    assert!(before.elapsed() >= Duration::from_secs(1));
    let wanted = Trouble::RateLimited { retry_after: Some(Duration::from_secs(1)) };
    assert_eq!(world.failures(), [wanted]);

    node.lie("eth_getLogs", 1, Lie::Status(429, None));
    node.mine("a3<a2:1");
    world.arrival(hash("a3")).await;
    assert_eq!(world.failures(), [wanted, Trouble::RateLimited { retry_after: None }]);
    assert_eq!(Client::new().happenings(&world).await, node.happenings("a3", 0));
}

// Chain behaviour 11
#[tokio::test]
async fn answers_that_are_no_answers_are_survived() {
    for lie in [
        Lie::Result(json!("0x")),
        Lie::Result(json!({"number": "0x1"})),
        Lie::Status(500, None),
        Lie::Status(502, None),
        Lie::Error(-32603, "internal error"),
    ] {
        let (node, mut world) = ready("a1<g0:1").await;
        world.start();
        world.arrival(hash("a1")).await;
        node.lie("eth_getBlockByNumber", 1, lie);
        node.mine("a2<a1:1");
        world.arrival(hash("a2")).await;
        assert_eq!(Client::new().happenings(&world).await, node.happenings("a2", 0));
    }
}

/// A node with these blocks, and a follower that will begin with block 1.
async fn ready(blocks: &str) -> (LyingNode, World) {
    let node = LyingNode::start(1).await;
    node.mine(blocks);
    let mut world = World::new(1, &[&node.url]).await;
    world.config.start = Start::Block(BlockNumber::new(1).unwrap());
    (node, world)
}

fn changed(mut logs: Value, field: &str, value: Value) -> Value {
    if let Some(log) = logs.get_mut(0) {
        log[field] = value;
    }
    logs
}
