//! A real node: anvil, as `@foundry-rs/anvil` of npm brings it.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::time::Duration;

use gapless_testkit::{anvil_command, free_port, poll_until};
use serde_json::{Value, json};

/// The first account of anvil, whose transactions need no signature.
const ACCOUNT: &str = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266";
/// Puts a contract in place that emits a transfer: `from`, `to` and `value` are its calldata.
const EMITTER: &str = "0x6034600c60003960346000f3602060406000376020356000357fddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef60206000a300";
/// Where the first contract of that account is.
pub(crate) const TOKEN: &str = "0x5fbdb2315678afecb367f032d93f642f64180aa3";

/// What has a node followed from its first block, for the transfers of [`TOKEN`].
pub(crate) fn declared(node: &Node) -> String {
    format!(
        "chain = 31337\nnodes = [\"ws://{}\"]\nstart = 0\npoll = \"200ms\"\n\n\
         [[topics]]\nname = \"transfers\"\naddresses = [\"{TOKEN}\"]\nbuiltin = \"erc20_balance\"\n",
        node.address()
    )
}

/// A node that mines only when told.
pub(crate) struct Node {
    process: Child,
    port: u16,
}

impl Node {
    pub(crate) fn start() -> Self {
        let port = free_port();
        let mut anvil = anvil_command().unwrap();
        anvil.args(["--silent", "--no-mining", "--host", "127.0.0.1", "--port", &port.to_string()]);
        let process = anvil.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let node = Self { process, port };
        let is_up = || Ok(TcpStream::connect(node.address()).is_ok().then_some(()));
        poll_until(Duration::from_secs(30), is_up).unwrap().expect("anvil comes up");
        node.ask("eth_sendTransaction", &json!([{"from": ACCOUNT, "data": EMITTER, "gas": "0x100000"}]));
        node.mine(1);
        node
    }

    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Waits until a server has taken the first block.
    pub(crate) fn is_followed(&self, server: SocketAddr) {
        let is_there = || {
            let answer = get(server, "/v1/chains/31337?user=bob");
            Ok(answer.starts_with("HTTP/1.1 200").then_some(()))
        };
        poll_until(Duration::from_secs(30), is_there).unwrap().expect("the follower takes blocks");
    }

    pub(crate) fn mine(&self, blocks: u8) {
        self.ask("anvil_mine", &json!([format!("{blocks:#x}")]));
    }

    /// Mines a block with a transfer between the holders of two numbers.
    pub(crate) fn transfer(&self, from: u8, to: u8, value: u64) {
        let data = format!("0x{from:064x}{to:064x}{value:064x}");
        let call = json!({"from": ACCOUNT, "to": TOKEN, "data": data, "gas": "0x100000"});
        self.ask("eth_sendTransaction", &json!([call]));
        self.mine(1);
    }

    /// Replaces the newest blocks by as many others, which are empty. `branch` makes them differ from all before.
    pub(crate) fn reorg(&self, depth: u8, branch: u8) {
        self.ask("anvil_setCoinbase", &json!([format!("0x{branch:040x}")]));
        self.ask("anvil_reorg", &json!([depth, []]));
    }

    /// The hash of the newest block.
    pub(crate) fn head(&self) -> String {
        let block = self.ask("eth_getBlockByNumber", &json!(["latest", false]));
        block["hash"].as_str().unwrap().to_owned()
    }

    /// All logs of the token, as the node tells them itself.
    pub(crate) fn logs(&self) -> Vec<Value> {
        let filter = json!({"address": TOKEN, "fromBlock": "0x0", "toBlock": "latest"});
        self.ask("eth_getLogs", &json!([filter])).as_array().unwrap().clone()
    }

    pub(crate) fn ask(&self, method: &str, params: &Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let answer = http(
            self.address(),
            &format!("POST / HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: {}", body.len()),
            &body,
        );
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let answer: Value = serde_json::from_str(body.trim()).unwrap_or_else(|_| panic!("{answer}"));
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

pub(crate) fn get(server: SocketAddr, path: &str) -> String {
    http(server, &format!("GET {path} HTTP/1.1"), "")
}

/// Makes a request whose answer ends with the connection.
fn http(server: SocketAddr, head: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(server).unwrap();
    write!(stream, "{head}\r\nhost: {server}\r\nconnection: close\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
