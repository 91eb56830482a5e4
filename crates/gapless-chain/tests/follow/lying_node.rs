//! A scripted node over HTTP and WebSocket that says what it is told to say.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use alloy_primitives::Bloom;
use gapless_proto::BlockHash;
use serde_json::Value;
use tokio::task::JoinHandle;

use self::http::serve_http;
pub(crate) use self::script::{BY_HASH, LATEST, Lie, RANGES};
use self::script::{Script, ScriptedBlock, TRANSFER, hash_of, holder_text};
use self::websocket::{Signal, Signals, serve_websocket};
use crate::world::{Happening, TOKEN};

mod http;
mod script;
mod websocket;

/// A node whose chain is written down in few words, and that lies on demand.
///
/// `a3<a2:2` is block a3 of height 3 on a2 with two transfers. All chains begin with block 0, `g0`.
pub(crate) struct LyingNode {
    /// Over HTTP.
    pub(crate) url: String,
    /// Over WebSocket.
    pub(crate) ws_url: String,
    script: Arc<Mutex<Script>>,
    signals: Signals,
    serving: [JoinHandle<()>; 2],
}

impl LyingNode {
    pub(crate) async fn start(chain: u64) -> Self {
        let script = Arc::new(Mutex::new(Script::new(chain)));
        let signals = Signals::new();
        let (url, http) = serve_http(script.clone()).await;
        let (ws_url, websocket) = serve_websocket(script.clone(), signals.clone()).await;
        Self { url, ws_url, script, signals, serving: [http, websocket] }
    }

    /// Adds blocks; the last one is the head.
    pub(crate) fn mine(&self, blocks: &str) {
        for block in blocks.split_whitespace() {
            let (name, rest) = block.split_once('<').unwrap();
            let (parent, transfers) = rest.split_once(':').unwrap_or((rest, "0"));
            let block = ScriptedBlock {
                number: name[1..].parse().unwrap(),
                parent: hash_of(parent),
                transfers: transfers.parse().unwrap(),
                bloom: None,
            };
            self.script().blocks.insert(hash_of(name), block);
            self.script().head = hash_of(name);
        }
    }

    /// Adds a chain of blocks of one letter, each with a transfer, up to a height.
    pub(crate) fn mine_up_to(&self, letter: char, from: u64, to: u64, parent: &str) {
        let mut parent = parent.to_owned();
        for number in from..=to {
            let name = format!("{letter}{number}");
            self.mine(&format!("{name}<{parent}:1"));
            parent = name;
        }
    }

    pub(crate) fn set_head(&self, name: &str) {
        self.script().head = hash_of(name);
    }

    /// Shows another head to the connection of this number, beginning with 0, than to the others, as behind a load balancer.
    pub(crate) fn set_head_of(&self, connection: usize, name: &str) {
        self.script().heads_of_connections.insert(connection, hash_of(name));
    }

    /// Announces a head to those who have subscribed; nothing is announced otherwise.
    pub(crate) fn announce(&self, name: &str) {
        let header = self.script().header(hash_of(name));
        self.signals.send(Signal::Head(header));
    }

    /// Ends all connections over WebSocket.
    pub(crate) fn cut(&self) {
        self.signals.send(Signal::Cut);
    }

    /// Changes the head right after it has answered about a method.
    pub(crate) fn switch_after(&self, method: &'static str, name: &str) {
        self.script().switch = Some((method, hash_of(name)));
    }

    /// Knows only the head's chain from now on.
    pub(crate) fn forget_orphans(&self) {
        self.script().forgets_orphans = true;
    }

    /// Tells these heads first, one a question.
    pub(crate) fn tell_heads(&self, names: &[&str]) {
        self.script().heads = names.iter().map(|name| hash_of(name)).collect();
    }

    pub(crate) fn has_told_all_heads(&self) -> bool {
        self.script().heads.is_empty()
    }

    pub(crate) fn finalize(&self, number: u64) {
        self.script().finalized = Some(number);
    }

    /// Lies so many times about a method.
    pub(crate) fn lie(&self, method: &'static str, times: usize, lie: Lie) {
        self.script().lies.push((method, times, lie));
    }

    pub(crate) fn tell_truth(&self) {
        self.script().lies.clear();
    }

    /// Refuses ranges of more blocks.
    pub(crate) fn refuse_ranges_over(&self, blocks: u64, text: &str) {
        self.script().range_max = Some((blocks, text.to_owned()));
    }

    /// Makes the bloom of a block promise logs that it doesn't have.
    pub(crate) fn promise_too_much(&self, name: &str) {
        let mut bloom = Bloom::ZERO;
        bloom.accrue_raw_log(TOKEN.parse().unwrap(), &[TRANSFER]);
        self.script().blocks.get_mut(&hash_of(name)).unwrap().bloom = Some(bloom);
    }

    /// What it was asked of a method.
    pub(crate) fn requests(&self, method: &str) -> Vec<Value> {
        let script = self.script();
        let asked = script.requests.iter().filter(|(asked, _)| asked == method);
        asked.map(|(_, params)| params.clone()).collect()
    }

    /// The logs of the chain that ends with a block, from a height on.
    pub(crate) fn happenings(&self, head: &str, from: u64) -> Vec<Happening> {
        let script = self.script();
        let mut happenings = Vec::new();
        for hash in script.chain_of(hash_of(head)).into_iter().rev() {
            let block = &script.blocks[&hash];
            if block.number >= from {
                happenings.extend((0..block.transfers).map(|log| (BlockHash(hash.0), u32::from(log))));
            }
        }
        happenings
    }

    /// The balances at a block, recounted from its logs; without those that are 0.
    pub(crate) fn balances(&self, head: &str) -> BTreeMap<String, i128> {
        let mut balances: BTreeMap<String, i128> = BTreeMap::new();
        for (_, log) in self.happenings(head, 0) {
            let log = u8::try_from(log).unwrap();
            let value = i128::from(log) + 1;
            *balances.entry(holder_text(1)).or_default() -= value;
            *balances.entry(holder_text(log + 2)).or_default() += value;
        }
        balances.retain(|_, balance| *balance != 0);
        balances
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap()
    }
}

impl Drop for LyingNode {
    fn drop(&mut self) {
        self.serving.iter().for_each(JoinHandle::abort);
    }
}

/// The hash of a block with this name.
pub(crate) fn hash(name: &str) -> BlockHash {
    BlockHash(hash_of(name).0)
}
