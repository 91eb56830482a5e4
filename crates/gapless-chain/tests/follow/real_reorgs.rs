//! Reorgs of a real node, over HTTP and WebSocket.

use std::collections::BTreeMap;
use std::time::Duration;

use gapless_chain::{Alarm, Report, Start, Trouble};
use gapless_proto::BlockNumber;
use serde_json::Value;

use crate::anvil::Anvil;
use crate::world::{Client, Happening, World, trouble};

// Chain behaviours 1, 15
#[tokio::test]
async fn what_a_client_holds_is_what_a_real_node_says() {
    let (anvil, mut world) = following(Anvil::http_url).await;
    anvil.transfer(&[(0, 1, 100), (1, 2, 30)]).await;
    anvil.transfer(&[(1, 3, 5), (2, 2, 7), (2, 0, 10)]).await;
    anvil.mine(2).await;
    world.arrival(anvil.head().await).await;
    check(&anvil, &world, &mut Client::new()).await;
    let expected = [(1, 65), (2, 20), (3, 5)].map(|(holder, balance)| (format!("0x{holder:040x}"), balance));
    assert_eq!(world.balances().await, BTreeMap::from(expected));
}

// Chain behaviours 1, 7, 9
#[tokio::test]
async fn reorgs_of_a_real_node_are_taken_back() {
    let (anvil, mut world) = following(Anvil::ws_url).await;
    let mut client = Client::new();
    for branch in 1..=6 {
        for value in 1..=4 {
            anvil.transfer(&[(0, branch, value), (branch, value as u8, 1)]).await;
        }
        world.arrival(anvil.head().await).await;
        client.catch_up(&world).await;
        let reorgs = world.reorgs().await;
        anvil.reorg(u64::from(branch % 4) + 1, branch).await;
        anvil.transfer(&[(0, branch, 9)]).await;
        world.arrival(anvil.head().await).await;
        assert!(world.reorgs().await > reorgs, "branch {branch}");
        check(&anvil, &world, &mut client).await;
    }
}

// Chain behaviour 9
#[tokio::test]
async fn a_real_chain_that_becomes_shorter_or_is_replaced_while_nobody_looks_is_followed() {
    let (anvil, mut world) = following(Anvil::ws_url).await;
    let mut client = Client::new();
    for branch in 1..=4 {
        for value in 1..=6 {
            anvil.transfer(&[(0, branch, value)]).await;
        }
        world.arrival(anvil.head().await).await;
        client.catch_up(&world).await;
        if branch % 2 == 0 {
            world.stop().await;
        }
        anvil.roll_back(4, branch).await;
        anvil.transfer(&[(0, branch, 50)]).await;
        if branch % 2 == 0 {
            world.start();
        }
        world.arrival(anvil.head().await).await;
        check(&anvil, &world, &mut client).await;
    }
}

// Chain behaviour 9
#[tokio::test]
async fn two_reorgs_within_a_moment_end_on_the_last_branch() {
    let (anvil, mut world) = following(Anvil::ws_url).await;
    let mut client = Client::new();
    for value in 1..=5 {
        anvil.transfer(&[(0, 1, value)]).await;
    }
    world.arrival(anvil.head().await).await;
    client.catch_up(&world).await;
    for branch in 1..=8 {
        anvil.reorg(3, branch).await;
        anvil.reorg(2, branch + 100).await;
        client.catch_up(&world).await;
    }
    anvil.transfer(&[(0, 2, 3)]).await;
    world.arrival(anvil.head().await).await;
    check(&anvil, &world, &mut client).await;
}

// Chain behaviour 12
#[tokio::test]
async fn a_node_that_was_started_anew_is_another_chain_whatever_its_id() {
    let mut anvil = Anvil::start().await;
    let mut world = world(&anvil.http_url()).await;
    world.start();
    for value in 1..=5 {
        anvil.transfer(&[(0, 1, value)]).await;
    }
    world.arrival(anvil.head().await).await;
    let held = Client::new().happenings(&world).await;
    world.stop().await;
    anvil.start_anew(1_000_000).await;
    world.start();
    let refused = world.report("a refusal", |report| trouble(report) == Some(Trouble::UnknownBlock)).await;
    let refused = format!("{refused:?}");
    assert!(
        refused.contains("started anew") && refused.contains("/v1/admin/chains/31337/restart"),
        "{refused}"
    );

    for value in 1..=9 {
        anvil.transfer(&[(0, 2, value)]).await;
    }
    world.report("an alarm", |report| matches!(report, Report::Alarm(Alarm::DeepReorg { .. }))).await;
    assert_eq!(Client::new().happenings(&world).await, held);

    world.restart_chain().await;
    world.arrival(anvil.head().await).await;
    check(&anvil, &world, &mut Client::new()).await;
}

// Chain behaviour 12
#[tokio::test]
async fn a_follower_that_saw_a_chain_takes_another_in_its_place_once_the_feed_begins_anew() {
    let mut anvil = Anvil::start().await;
    let mut world = world(&anvil.ws_url()).await;
    world.start();
    anvil.transfer(&[(0, 1, 1)]).await;
    world.arrival(anvil.head().await).await;
    anvil.end();
    world.report("its end", |report| trouble(report) == Some(Trouble::Passing)).await;
    world.restart_chain().await;
    anvil.start_anew(2_000_000).await;
    anvil.transfer(&[(0, 2, 2)]).await;
    world.arrival(anvil.head().await).await;
    check(&anvil, &world, &mut Client::new()).await;

    anvil.start_anew(3_000_000).await;
    let refused = world.report("a refusal", |report| trouble(report) == Some(Trouble::Fatal)).await;
    assert!(format!("{refused:?}").contains("begin the feed anew"), "{refused:?}");
}

// Chain behaviour 1
#[tokio::test]
async fn a_long_real_chain_is_filled_and_a_new_head_wakes_the_follower() {
    let anvil = Anvil::start().await;
    for value in 1..=20 {
        anvil.transfer(&[(0, 1, value)]).await;
        anvil.mine(10).await;
    }
    let mut world = world(&anvil.ws_url()).await;
    world.config.poll = Duration::from_secs(3_600);
    world.start();
    world.arrival(anvil.head().await).await;
    world.report("a backfill", |report| matches!(report, Report::Backfill { .. })).await;
    assert!(anvil.height().await > 200);

    anvil.transfer(&[(1, 2, 3)]).await;
    world.arrival(anvil.head().await).await;
    check(&anvil, &world, &mut Client::new()).await;
}

/// The fold check: what a client holds, and the balances, are those of the node's own logs.
async fn check(anvil: &Anvil, world: &World, client: &mut Client) {
    let logs = anvil.logs().await;
    let happenings: Vec<Happening> = logs.iter().map(happening).collect();
    assert!(!happenings.is_empty());
    assert_eq!(client.happenings(world).await, happenings);
    assert_eq!(Client::new().happenings(world).await, happenings);
    assert_eq!(world.balances().await, recounted(&logs));
}

fn happening(log: &Value) -> Happening {
    (log["blockHash"].as_str().unwrap().parse().unwrap(), u32::try_from(quantity(&log["logIndex"])).unwrap())
}

fn recounted(logs: &[Value]) -> BTreeMap<String, i128> {
    let mut balances: BTreeMap<String, i128> = BTreeMap::new();
    for log in logs {
        let holder = |index: usize| format!("0x{}", &log["topics"][index].as_str().unwrap()[26..]);
        let value = i128::from(quantity(&log["data"]));
        *balances.entry(holder(1)).or_default() -= value;
        *balances.entry(holder(2)).or_default() += value;
    }
    balances.retain(|holder, balance| *balance != 0 && !holder.ends_with(&"0".repeat(40)));
    balances
}

fn quantity(hex: &Value) -> u64 {
    let digits = hex.as_str().unwrap().trim_start_matches("0x");
    u64::from_str_radix(digits.trim_start_matches('0'), 16).unwrap_or_default()
}

async fn following(url: fn(&Anvil) -> String) -> (Anvil, World) {
    let anvil = Anvil::start().await;
    let mut world = world(&url(&anvil)).await;
    world.start();
    (anvil, world)
}

/// A follower of anvil that will begin with block 0.
async fn world(url: &str) -> World {
    let mut world = World::new(Anvil::CHAIN.get(), &[url]).await;
    world.config.start = Start::Block(BlockNumber::default());
    world
}
