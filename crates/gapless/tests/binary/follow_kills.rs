//! `gapless follow`, killed with kill -9 again and again while its node reorganises.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use gapless_client::TopicFold;
use gapless_proto::{Body, TopicEvent, ValueKey};
use gapless_testkit::{Gateway, SharedPostgres, poll_until};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::chain_storm::{follow, topic, until};
use crate::command::gapless;
use crate::node::{Node, declared, get};

const PATIENCE: Duration = Duration::from_secs(60);
const CHAIN: u64 = 31_337;
const KILLS: u8 = 25;
/// How much further each follower gets than the one before it: from before it has connected to after all is in the store.
const WAITS_STEP: u64 = 12;

// Chain behaviours 1, 9, 15
#[test]
fn a_follower_is_killed_again_and_again_and_clients_hold_what_the_node_says() {
    let node = Node::start();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("chain.toml");
    fs::write(&file, declared(&node)).unwrap();
    let store = SharedPostgres::from_environment().fresh_database();
    let command = gapless(&["serve", "--listen", "127.0.0.1:0", "--auth", "open", "--store", &store]);
    let server = Gateway::start(command).unwrap();
    let head = || head_of(&server);

    let first = Follower::start(&file, &store);
    until_true(|| head().is_some());
    drop(first);
    let runtime = Runtime::new().unwrap();
    let (client, mut events) = runtime.block_on(follow(&server.url(), &topic(CHAIN), "31337:0:0"));
    let mut fold = TopicFold::new(10_000);

    let mut killed_before_the_end = 0;
    for round in 1..=KILLS {
        if round > 1 {
            node.reorg(1 + round % 6, round);
        }
        for value in 0..8 {
            node.transfer(1 + round % 5, 6 + value, u64::from(round));
        }
        let mut follower = Follower::start(&file, &store);
        until_true(|| follower.waits() >= u64::from(round) * WAITS_STEP);
        if head() != Some(node.head()) {
            killed_before_the_end += 1;
        }
        follower.kill_9();
    }

    let _last = Follower::start(&file, &store);
    node.transfer(1, 2, 77);
    until_true(|| head() == Some(node.head()));
    let logs = node.logs();
    let last = logs.last().unwrap()["transactionHash"].as_str().unwrap().to_owned();
    runtime.block_on(until(&mut events, &mut fold, |event| event.payload.as_str().contains(&last)));
    assert_eq!(fold.events().map(held).collect::<Vec<_>>(), logs.iter().map(canonical).collect::<Vec<_>>());
    let balances: BTreeMap<_, _> = fold.values().map(|(_, key, value)| balance(key, value)).collect();
    assert_eq!(balances, recounted(&logs));
    runtime.block_on(client.close());
    assert!((1..KILLS).contains(&killed_before_the_end), "{killed_before_the_end} of {KILLS} kills");
}

/// A running `gapless follow`.
struct Follower(Child);

impl Follower {
    fn start(file: &Path, store: &str) -> Self {
        let mut command = gapless(&["follow", file.to_str().unwrap(), "--store", store]);
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// How often its threads have waited for something, which grows with every step that it takes.
    fn waits(&self) -> u64 {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.0.id())).unwrap();
        let statuses = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("status")).ok());
        statuses.map(|status| waits_in(&status)).sum()
    }

    fn kill_9(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.kill_9();
    }
}

fn waits_in(status: &str) -> u64 {
    let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or_default()
}

fn until_true(is_it: impl Fn() -> bool) {
    poll_until(PATIENCE, || Ok(is_it().then_some(()))).unwrap().expect("it comes to pass");
}

/// The newest block that the server has.
fn head_of(server: &Gateway) -> Option<String> {
    let answer = get(server.address(), &format!("/v1/chains/{CHAIN}?user=bob"));
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let chain: Value = head.starts_with("HTTP/1.1 200").then(|| serde_json::from_str(body).ok())??;
    chain["block"]["hash"].as_str().map(str::to_owned)
}

/// Block, log, transaction and value of a transfer.
type Transfer = (String, u64, String, String);

fn held(event: &TopicEvent) -> Transfer {
    let payload: Value = serde_json::from_str(event.payload.as_str()).unwrap();
    let log = event.cursor.as_str().split(':').nth(2).unwrap().parse().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (event.block.unwrap().hash.to_string(), log, text(&payload["tx"]), text(&payload["args"]["value"]))
}

fn canonical(log: &Value) -> Transfer {
    let text = |field: &str| log[field].as_str().unwrap().to_owned();
    (
        text("blockHash"),
        quantity(&log["logIndex"]),
        text("transactionHash"),
        quantity(&log["data"]).to_string(),
    )
}

fn balance(key: &ValueKey, value: &Body) -> (String, i128) {
    (key.as_str().to_owned(), value.as_str().trim_matches('"').parse().unwrap())
}

fn recounted(logs: &[Value]) -> BTreeMap<String, i128> {
    let mut balances: BTreeMap<String, i128> = BTreeMap::new();
    for log in logs {
        let holder = |index: usize| format!("0x{}", &log["topics"][index].as_str().unwrap()[26..]);
        *balances.entry(holder(1)).or_default() -= i128::from(quantity(&log["data"]));
        *balances.entry(holder(2)).or_default() += i128::from(quantity(&log["data"]));
    }
    balances
}

fn quantity(hex: &Value) -> u64 {
    let digits = hex.as_str().unwrap().trim_start_matches("0x").trim_start_matches('0');
    u64::from_str_radix(digits, 16).unwrap_or_default()
}
