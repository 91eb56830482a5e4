//! Nodes whose answers are too long.

use gapless_chain::{RangeHint, Start, Trouble};
use gapless_proto::BlockNumber;

use crate::lying_node::{Lie, LyingNode, hash};
use crate::world::{Client, World, trouble};

// Chain behaviour 11
#[tokio::test]
async fn an_answer_without_end_is_given_up_and_another_node_asked() {
    let too_large = Trouble::RangeTooLarge(RangeHint::default());
    for (url, expected) in [
        ((|node| node.url.clone()) as fn(&LyingNode) -> String, too_large),
        (|node| node.ws_url.clone(), Trouble::Passing),
    ] {
        let [one, other] = [LyingNode::start(1).await, LyingNode::start(1).await];
        one.mine("a1<g0:1 a2<a1:2");
        other.mine("a1<g0:1 a2<a1:2");
        one.lie("eth_getBlockByHash", usize::MAX, Lie::Endless);
        one.lie("eth_getLogs", usize::MAX, Lie::Endless);
        let mut world = World::new(1, &[&url(&one), &url(&other)]).await;
        world.config.start = Start::Block(BlockNumber::default());
        world.config.answer_bytes_max = 1 << 20;
        world.start();
        world.arrival(hash("a2")).await;
        assert_eq!(Client::new().happenings(&world).await, other.happenings("a2", 0));
        world.report("an answer that is too long", |report| trouble(report) == Some(expected)).await;
    }
}

// Chain behaviour 11
#[tokio::test]
async fn ranges_shrink_until_the_answers_are_short_enough() {
    let node = LyingNode::start(1).await;
    node.mine_up_to('a', 1, 200, "g0");
    for url in [&node.url, &node.ws_url] {
        let mut world = World::new(1, &[url]).await;
        world.config.start = Start::Block(BlockNumber::default());
        world.config.answer_bytes_max = 20_000;
        world.start();
        world.arrival(hash("a200")).await;
        assert_eq!(Client::new().happenings(&world).await, node.happenings("a200", 0));
    }
}
