//! Chains that nobody thought of, from seeds.

use gapless_chain::Start;
use gapless_proto::BlockNumber;
use serde_json::json;

use crate::lying_node::{Lie, LyingNode, hash};
use crate::world::{Client, World};

const STEPS: u32 = 40;

// Chain behaviours 1, 9, 11
#[tokio::test]
async fn whatever_a_chain_does_the_client_holds_what_is_true_in_the_end() {
    for seed in 1..=6 {
        follow_a_random_chain(seed).await;
    }
}

/// Forks, extensions, returns to old tips, lies, and a follower that ends and starts anywhere.
async fn follow_a_random_chain(seed: u64) {
    let node = LyingNode::start(1).await;
    let mut dice = Dice(seed);
    let mut names = vec!["g0".to_owned()];
    let mut head = extended(&node, &mut names, "g0", 'a', 3, &mut dice);
    let mut world = World::new(1, &[&node.url]).await;
    world.config.start = Start::Block(BlockNumber::default());
    world.config.live_blocks = 5;
    world.start();
    let mut client = Client::new();
    for letter in ('b'..='z').chain('A'..='Z').take(STEPS as usize) {
        match dice.roll(6) {
            0 | 1 => head = extended(&node, &mut names, &head, letter, 1 + dice.roll(12), &mut dice),
            2 | 3 => {
                let nearby = names.len() - names.len().min(15);
                let parent = names[nearby + dice.below(names.len() - nearby)].clone();
                head = extended(&node, &mut names, &parent, letter, 1 + dice.roll(8), &mut dice);
            }
            4 => {
                world.stop().await;
                client.catch_up(&world).await;
                world.start();
            }
            _ => {
                let lies =
                    ["eth_getLogs", "eth_getBlockByHash", "eth_getBlockByNumber", "eth_getBlockReceipts"];
                let lie = if dice.roll(2) == 0 { json!(null) } else { json!([]) };
                node.lie(lies[dice.below(4)], 1, Lie::Result(lie));
            }
        }
        for _ in 0..dice.roll(60) {
            tokio::task::yield_now().await;
        }
        client.catch_up(&world).await;
    }
    node.tell_truth();
    head = extended(&node, &mut names, &head, '_', 1, &mut dice);
    world.arrival(hash(&head)).await;
    let expected = node.happenings(&head, 0);
    assert_eq!(client.happenings(&world).await, expected, "seed {seed}");
    assert_eq!(Client::new().happenings(&world).await, expected, "seed {seed}");
    assert_eq!(world.balances().await, node.balances(&head), "seed {seed}");
}

/// Puts blocks on another; returns the last one.
fn extended(
    node: &LyingNode,
    names: &mut Vec<String>,
    parent: &str,
    letter: char,
    blocks: u32,
    dice: &mut Dice,
) -> String {
    let mut parent = parent.to_owned();
    let mut all = Vec::new();
    for _ in 0..blocks {
        let height: u64 = parent[1..].parse().unwrap();
        let name = format!("{letter}{}", height + 1);
        all.push(format!("{name}<{parent}:{}", dice.roll(4)));
        names.push(name.clone());
        parent = name;
    }
    node.mine(&all.join(" "));
    parent
}

/// Falls the same way for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from(self.0 >> 33).unwrap() % sides
    }

    fn below(&mut self, count: usize) -> usize {
        self.roll(u32::try_from(count).unwrap()) as usize
    }
}
