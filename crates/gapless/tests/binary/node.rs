//! A real node: anvil, as `@foundry-rs/anvil` of npm brings it.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use gapless_testkit::{ChainNode, poll_until};
use serde_json::{Value, json};

/// The token whose transfers are followed.
pub(crate) const TOKEN: &str = ChainNode::TOKEN;

/// What has a node followed from its first block, for the transfers of [`TOKEN`].
pub(crate) fn declared(node: &Node) -> String {
    format!(
        "chain = 31337\nnodes = [\"{}\"]\nstart = 0\npoll = \"200ms\"\n\n\
         [[topics]]\nname = \"transfers\"\naddresses = [\"{TOKEN}\"]\nbuiltin = \"erc20_balance\"\n",
        node.0.ws_url()
    )
}

/// A node with the token, asked over HTTP.
pub(crate) struct Node(ChainNode);

impl Node {
    pub(crate) fn start() -> Self {
        let node = Self(ChainNode::start().unwrap());
        let deployment = json!([{"from": ChainNode::ACCOUNT, "data": ChainNode::EMITTER, "gas": "0x100000"}]);
        node.ask("eth_sendTransaction", &deployment);
        node.mine(1);
        node
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.address()
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
        let data = ChainNode::transfer_data(from, to, value);
        let call = json!({"from": ChainNode::ACCOUNT, "to": TOKEN, "data": data, "gas": "0x100000"});
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
