//! A network between follower and node that fails.

use std::net::SocketAddr;
use std::time::Duration;

use gapless_chain::{NodeState, Report, Start, Trouble};
use gapless_proto::BlockNumber;
use gapless_testkit::FaultyProxy;

use crate::anvil::Anvil;
use crate::lying_node::{LyingNode, hash};
use crate::world::{Client, World, trouble};

// Chain behaviour 9
#[tokio::test]
async fn a_connection_that_is_cut_comes_back_and_loses_nothing() {
    let anvil = Anvil::start().await;
    let proxy = FaultyProxy::start(anvil.address()).unwrap();
    let mut world = World::new(Anvil::CHAIN.get(), &[&format!("ws://{}", proxy.address())]).await;
    world.config.start = Start::Block(BlockNumber::default());
    world.config.poll = Duration::from_secs(3_600);
    world.start();
    for value in 1..=3 {
        anvil.transfer(&[(0, 1, value)]).await;
        world.arrival(anvil.head().await).await;
        proxy.cut();
        anvil.transfer(&[(0, 2, value)]).await;
        world.arrival(anvil.head().await).await;
    }
    let is_connected = |report: &&Report| matches!(report, Report::Node { state: NodeState::Connected, .. });
    assert_eq!(world.reports().iter().filter(is_connected).count(), 4, "each time it was checked anew");
    let held = Client::new().happenings(&world).await;
    assert_eq!(held.len(), anvil.logs().await.len());
}

#[tokio::test]
async fn a_node_that_falls_silent_is_given_up_for_another() {
    let [one, other] = [LyingNode::start(1).await, LyingNode::start(1).await];
    for node in [&one, &other] {
        node.mine("a1<g0:1");
    }
    let upstream: SocketAddr = one.url.trim_start_matches("http://").parse().unwrap();
    let proxy = FaultyProxy::start(upstream).unwrap();
    let mut world = World::new(1, &[&format!("http://{}", proxy.address()), &other.url]).await;
    world.config.request_timeout = Duration::from_millis(300);
    world.start();
    world.arrival(hash("a1")).await;
    proxy.blackhole(true);
    other.mine("a2<a1:1");
    world.arrival(hash("a2")).await;
    world.report("no answer in time", |report| trouble(report) == Some(Trouble::TimedOut)).await;
}
