//! A real node: anvil, as `@foundry-rs/anvil` of npm brings it.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::time::Duration;

use gapless_proto::{BlockHash, ChainId};
use gapless_testkit::{anvil_command, free_port, poll_until};
use serde_json::{Value, json};

/// How often another port is tried.
const STARTS_MAX: usize = 5;

/// The first account of anvil, whose transactions need no signature.
pub(crate) const ACCOUNT: &str = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266";
/// Puts a contract in place that emits a transfer: `from`, `to` and `value` are its calldata.
const EMITTER: &str = concat!(
    "0x6034600c60003960346000f3",
    "6020604060003760203560003",
    "57fddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef",
    "60206000a300"
);

/// A running anvil that mines only when told.
pub(crate) struct Anvil {
    process: Child,
    port: u16,
    http: reqwest::Client,
}

impl Anvil {
    pub(crate) const CHAIN: ChainId = ChainId::new(31_337);

    /// Starts one whose first block has the contract that emits transfers, as the token of all tests.
    pub(crate) async fn start() -> Self {
        for _ in 0..STARTS_MAX {
            if let Some(anvil) = Self::try_start(free_port(), &[]) {
                anvil.deploy().await;
                return anvil;
            }
        }
        panic!("anvil came up on none of {STARTS_MAX} ports");
    }

    /// Ends it and starts another chain with the same id in its place. The time of block 0, in seconds, makes it another.
    pub(crate) async fn start_anew(&mut self, time: u32) {
        self.end();
        *self = Self::try_start(self.port, &["--timestamp", &time.to_string()]).expect("its port is free");
        self.deploy().await;
    }

    async fn deploy(&self) {
        let deployed = json!({"from": ACCOUNT, "data": EMITTER, "gas": "0x100000"});
        self.ask("eth_sendTransaction", json!([deployed])).await;
        self.mine(1).await;
    }

    pub(crate) fn end(&mut self) {
        // It may have ended by itself.
        drop(self.process.kill());
        drop(self.process.wait());
    }

    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    pub(crate) fn http_url(&self) -> String {
        format!("http://{}", self.address())
    }

    pub(crate) fn ws_url(&self) -> String {
        format!("ws://{}", self.address())
    }

    pub(crate) async fn mine(&self, blocks: u64) {
        self.ask("anvil_mine", json!([format!("{blocks:#x}")])).await;
    }

    /// Mines a block with transfers of these values between holders of these numbers.
    pub(crate) async fn transfer(&self, transfers: &[(u8, u8, u64)]) {
        for (from, to, value) in transfers {
            let data = format!("0x{from:064x}{to:064x}{value:064x}");
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

    fn try_start(port: u16, arguments: &[&str]) -> Option<Self> {
        // The HTTP client wants one, though nothing is encrypted; any that is there already will do.
        drop(rustls::crypto::ring::default_provider().install_default());
        let http = reqwest::Client::new();
        let mut command = anvil_command().unwrap();
        command
            .args(["--no-mining", "--silent", "--slots-in-an-epoch", "32", "--port"])
            .arg(port.to_string())
            .args(arguments);
        let mut process =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let connected = poll_until(Duration::from_secs(20), || {
            let is_up = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok();
            Ok((is_up || process.try_wait()?.is_some()).then_some(()))
        });
        let is_up = connected.unwrap().is_some() && process.try_wait().unwrap().is_none();
        let anvil = Self { process, port, http };
        is_up.then_some(anvil)
    }
}

impl Drop for Anvil {
    fn drop(&mut self) {
        self.end();
    }
}
