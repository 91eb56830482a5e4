//! A real node: anvil, as `@foundry-rs/anvil` of npm brings it.

use std::net::SocketAddr;

use gapless_proto::{BlockHash, ChainId};
use gapless_testkit::ChainNode;
use serde_json::{Value, json};

/// The account that makes all transactions.
pub(crate) const ACCOUNT: &str = ChainNode::ACCOUNT;

/// A running anvil that mines only when told.
pub(crate) struct Anvil {
    node: ChainNode,
    http: reqwest::Client,
}

impl Anvil {
    pub(crate) const CHAIN: ChainId = ChainId::new(ChainNode::CHAIN);

    /// Starts one whose first block has the contract that emits transfers, as the token of all tests.
    pub(crate) async fn start() -> Self {
        // The HTTP client wants one, though nothing is encrypted; any that is there already will do.
        drop(rustls::crypto::ring::default_provider().install_default());
        let anvil = Self { node: ChainNode::start().unwrap(), http: reqwest::Client::new() };
        anvil.deploy().await;
        anvil
    }

    /// Ends it and starts another chain with the same id in its place. The time of block 0, in seconds, makes it another.
    pub(crate) async fn start_anew(&mut self, time: u32) {
        self.node.start_anew(time).unwrap();
        // The connections of the other one are to the node that ended.
        self.http = reqwest::Client::new();
        self.deploy().await;
    }

    async fn deploy(&self) {
        let deployed = json!({"from": ACCOUNT, "data": ChainNode::EMITTER, "gas": "0x100000"});
        self.ask("eth_sendTransaction", json!([deployed])).await;
        self.mine(1).await;
    }

    pub(crate) fn end(&mut self) {
        self.node.end();
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.node.address()
    }

    pub(crate) fn http_url(&self) -> String {
        self.node.http_url()
    }

    pub(crate) fn ws_url(&self) -> String {
        self.node.ws_url()
    }

    pub(crate) async fn mine(&self, blocks: u64) {
        self.ask("anvil_mine", json!([format!("{blocks:#x}")])).await;
    }

    /// Mines a block with transfers of these values between holders of these numbers.
    pub(crate) async fn transfer(&self, transfers: &[(u8, u8, u64)]) {
        for (from, to, value) in transfers {
            let data = ChainNode::transfer_data(*from, *to, *value);
            let token = crate::world::TOKEN;
            let call = json!({"from": ACCOUNT, "to": token, "data": data, "gas": "0x100000"});
            self.ask("eth_sendTransaction", json!([call])).await;
        }
        self.ask("evm_mine", json!([])).await;
    }

    /// Replaces the newest blocks by as many others, which are empty. `branch` makes them differ from all before.
    pub(crate) async fn reorg(&self, depth: u64, branch: u8) {
        self.ask("anvil_setCoinbase", json!([format!("0x{branch:040x}")])).await;
        self.ask("anvil_reorg", json!([depth, []])).await;
    }

    /// Takes back the newest blocks. What is mined then differs from all before by `branch`.
    pub(crate) async fn roll_back(&self, depth: u64, branch: u8) {
        self.ask("anvil_setCoinbase", json!([format!("0x{branch:040x}")])).await;
        self.ask("anvil_rollback", json!([depth])).await;
    }

    pub(crate) async fn height(&self) -> u64 {
        let height = self.ask("eth_blockNumber", json!([])).await;
        u64::from_str_radix(height.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
    }

    pub(crate) async fn head(&self) -> BlockHash {
        let block = self.ask("eth_getBlockByNumber", json!(["latest", false])).await;
        block["hash"].as_str().unwrap().parse().unwrap()
    }

    /// All logs of the token, as the node tells them itself.
    pub(crate) async fn logs(&self) -> Vec<Value> {
        let filter = json!({"address": crate::world::TOKEN, "fromBlock": "0x0", "toBlock": "latest"});
        self.ask("eth_getLogs", json!([filter])).await.as_array().unwrap().clone()
    }

    pub(crate) async fn ask(&self, method: &str, params: Value) -> Value {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let answer = self.http.post(self.http_url()).json(&request).send().await.unwrap();
        let mut answer: Value = answer.json().await.unwrap();
        assert!(answer["error"].is_null(), "{method} {params}: {}", answer["error"]);
        answer["result"].take()
    }
}
