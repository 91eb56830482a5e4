//! `gapless serve` beside a real node: transfers of a token are told, and a reorg takes them back.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use gapless_testkit::{anvil_binary, free_port, poll_until};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::command::{run, serve, store_in};
use crate::tail::Tail;

/// The first account of anvil, whose transactions need no signature.
const ACCOUNT: &str = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266";
/// Puts a contract in place that emits a transfer: `from`, `to` and `value` are its calldata.
const EMITTER: &str = "0x6034600c60003960346000f3602060406000376020356000357fddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef60206000a300";
/// Where the first contract of that account is.
const TOKEN: &str = "0x5fbdb2315678afecb367f032d93f642f64180aa3";

// Chain behaviours 7, 15
#[test]
fn transfers_of_a_token_are_told_and_a_reorg_takes_them_back() {
    let node = Node::start();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("chain.toml");
    fs::write(&file, declared(&node)).unwrap();
    node.transfer(1, 2, 500);
    let follow = format!("chains.follow={}", file.display());
    let server = serve(&folder, &["--auth", "open", "--set", &follow]);

    let topic = ["--user", "bob", "--topic", "chain:31337:transfers", "--cursor", "31337:0:0"];
    node.is_followed(server.address());
    let mut tail = Tail::start(&server, &topic);
    assert!(tail.next_line().contains(r#""value":"500""#));
    node.transfer(2, 3, 70);
    assert!(tail.next_line().contains(r#""value":"70""#));

    node.reorg(1);
    assert!(tail.next_line().contains("REVOKED"));
    node.transfer(2, 4, 8);
    assert!(tail.next_line().contains(r#""value":"8""#));
    node.mine(13);
    let is_taken =
        || Ok(get(server.address(), "/v1/chains/31337?user=bob").contains("\"number\":17").then_some(()));
    poll_until(Duration::from_secs(30), is_taken).unwrap().expect("the follower takes the newest block");
    assert!(get(server.address(), "/metrics").contains("gapless_chain_head{chain=\"31337\"} 17"));
    let mut values =
        Tail::start(&server, &["--user", "bob", "--topic", "chain:31337:transfers", "--snapshot"]);
    let holder = |number: u8| format!("0x{number:040x}");
    let lines: Vec<_> = (0..3).map(|_| values.next_line()).collect();
    for (holder, balance) in [(holder(1), "-500"), (holder(2), "492"), (holder(4), "8")] {
        let line = format!("chain:31337:transfers[{holder}] = \"{balance}\"");
        assert!(lines.iter().any(|said| said.ends_with(&line)), "{line} in {lines:#?}");
    }
}

#[test]
fn a_file_that_declares_no_chain_is_refused_with_what_is_wrong() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("chain.toml");
    fs::write(&file, "chain = 1\nnodes = []\ntopics = []\n").unwrap();
    let store = store_in(folder.path());
    let said = run(&["follow", file.to_str().unwrap(), "--store", &store]);
    assert!(said.complained().contains("no topic is declared"), "{said}");
}

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
        let mut anvil = Command::new(anvil_binary().unwrap());
        anvil.args(["--silent", "--no-mining", "--host", "127.0.0.1", "--port", &port.to_string()]);
        let process = anvil.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let node = Self { process, port };
        let is_up = || Ok(TcpStream::connect(node.address()).is_ok().then_some(()));
        poll_until(Duration::from_secs(30), is_up).unwrap().expect("anvil comes up");
        node.ask("eth_sendTransaction", &json!([{"from": ACCOUNT, "data": EMITTER, "gas": "0x100000"}]));
        node.mine(1);
        node
    }

    fn address(&self) -> SocketAddr {
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

    fn mine(&self, blocks: u8) {
        self.ask("anvil_mine", &json!([format!("{blocks:#x}")]));
    }

    /// Mines a block with a transfer between the holders of two numbers.
    pub(crate) fn transfer(&self, from: u8, to: u8, value: u64) {
        let data = format!("0x{from:064x}{to:064x}{value:064x}");
        let call = json!({"from": ACCOUNT, "to": TOKEN, "data": data, "gas": "0x100000"});
        self.ask("eth_sendTransaction", &json!([call]));
        self.mine(1);
    }

    /// Replaces the newest blocks by as many others, which are empty.
    pub(crate) fn reorg(&self, depth: u8) {
        // Without this, an empty block could be what it was before.
        self.ask("anvil_setCoinbase", &json!([format!("0x{:040x}", 0xfe)]));
        self.ask("anvil_reorg", &json!([depth, []]));
    }

    fn ask(&self, method: &str, params: &Value) -> Value {
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

fn get(server: SocketAddr, path: &str) -> String {
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
