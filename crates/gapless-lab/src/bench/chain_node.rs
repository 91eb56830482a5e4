//! A real node of a chain: anvil, which mines only when told.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use alloy_json_rpc::RpcRecv;
use alloy_primitives::U64;
use alloy_rpc_client::RpcClient;
use alloy_transport_ws::WsConnect;
use anyhow::{Context as _, bail};
use gapless_testkit::{anvil_binary, free_port, poll_until};
use serde_json::{Value, json};

/// The chain's id.
pub(super) const CHAIN: u64 = 31_337;
/// Where the contract is whose calls are transfers.
pub(super) const TOKEN: &str = "0x5fbdb2315678afecb367f032d93f642f64180aa3";
/// The first account of anvil, whose transactions need no signature.
const ACCOUNT: &str = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266";
/// Puts the contract in place; it emits a transfer: `from`, `to` and `value` are its calldata.
const EMITTER: &str = "0x6034600c60003960346000f3602060406000376020356000357fddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef60206000a300";
/// A topic of its transfers.
pub(super) const TRANSFERS: &str =
    "event = \"Transfer(address indexed from, address indexed to, uint256 value)\"";
/// The same, that also keeps what everyone holds.
pub(super) const BALANCES: &str = "builtin = \"erc20_balance\"";
/// How many holders the token has.
const HOLDERS: u64 = 10_000;
/// What a transfer may use, so that a block has room for a thousand.
const TRANSFER_GAS: &str = "0x7530";
/// How often another port is tried.
const STARTS_MAX: usize = 5;
const START_PATIENCE: Duration = Duration::from_secs(20);

/// A running anvil with a token, ended when dropped.
pub(super) struct ChainNode {
    process: Process,
    rpc: RpcClient,
    transfers: Transfers,
}

/// Makes transfers of which no two are the same.
#[derive(Default)]
struct Transfers {
    made: u64,
}

impl ChainNode {
    /// Starts one whose block 1 has the token.
    pub(super) async fn start() -> anyhow::Result<Self> {
        let process = tokio::task::spawn_blocking(Process::start).await??;
        let rpc = connect(&process.ws_url()).await?;
        let node = Self { process, rpc, transfers: Transfers::default() };
        let deployment = json!([{"from": ACCOUNT, "data": EMITTER, "gas": "0x100000"}]);
        node.ask::<Value>("eth_sendTransaction", deployment).await?;
        node.mine(1).await?;
        Ok(node)
    }

    /// Its address for JSON-RPC over WebSocket.
    pub(super) fn ws_url(&self) -> String {
        self.process.ws_url()
    }

    /// What gapless is told of it in a file: where it is, and what of the token is wanted.
    pub(super) fn declaration(&self, topic: &str) -> String {
        let url = self.ws_url();
        format!(
            "chain = {CHAIN}\nnodes = [\"{url}\"]\nstart = 0\n\n\
             [[topics]]\nname = \"transfers\"\naddresses = [\"{TOKEN}\"]\n{topic}\n"
        )
    }

    /// Mines blocks of what waits; without that, empty ones.
    pub(super) async fn mine(&self, blocks: u64) -> anyhow::Result<()> {
        self.ask::<Value>("anvil_mine", json!([format!("{blocks:#x}")])).await.map(drop)
    }

    /// Mines so many blocks with so many transfers each, one a transaction, as they mostly come.
    pub(super) async fn fill(&mut self, blocks: u64, transfers: u64) -> anyhow::Result<()> {
        let sent: U64 = self.ask("eth_getTransactionCount", json!([ACCOUNT, "latest"])).await?;
        let mut nonces = sent.to::<u64>()..;
        for _ in 0..blocks {
            let mut batch = self.rpc.new_batch();
            let mut waiting = Vec::new();
            for nonce in nonces.by_ref().take(usize::try_from(transfers)?) {
                let mut transfer = self.transfers.next();
                // The node takes what comes together in any order.
                transfer["nonce"] = json!(U64::from(nonce));
                waiting.push(batch.add_call::<_, Value>("eth_sendTransaction", &json!([transfer]))?);
            }
            batch.send().await.context("filling the node")?;
            for answer in waiting {
                answer.await.context("filling the node")?;
            }
            self.mine(1).await?;
        }
        Ok(())
    }

    /// Sends a transfer, which the next block will have.
    pub(super) async fn send_transfer(&mut self) -> anyhow::Result<()> {
        let transfer = self.transfers.next();
        self.ask::<Value>("eth_sendTransaction", json!([transfer])).await.map(drop)
    }

    /// Replaces the newest block by another, which has another transfer.
    pub(super) async fn reorg(&mut self) -> anyhow::Result<()> {
        let transfer = self.transfers.next();
        self.ask::<Value>("anvil_reorg", json!([1, [[transfer, 0]]])).await.map(drop)
    }

    async fn ask<T: RpcRecv>(&self, method: &'static str, params: Value) -> anyhow::Result<T> {
        self.rpc.request(method, params).await.with_context(|| format!("asking the node for {method}"))
    }
}

impl Transfers {
    fn next(&mut self) -> Value {
        self.made += 1;
        let value = self.made;
        let (from, to) = (1 + value % HOLDERS, 1 + (value * 7) % HOLDERS);
        let data = format!("0x{from:064x}{to:064x}{value:064x}");
        json!({"from": ACCOUNT, "to": TOKEN, "data": data, "gas": TRANSFER_GAS})
    }
}

/// Connects to a node.
pub(super) async fn connect(ws_url: &str) -> anyhow::Result<RpcClient> {
    RpcClient::builder().ws(WsConnect::new(ws_url)).await.context("connecting to the node")
}

struct Process {
    child: Child,
    port: u16,
}

impl Process {
    fn start() -> anyhow::Result<Self> {
        let program = anvil_binary()?;
        for _ in 0..STARTS_MAX {
            if let Some(process) = Self::try_start(&program)? {
                return Ok(process);
            }
        }
        bail!("{} came up on none of {STARTS_MAX} ports", program.display())
    }

    fn try_start(program: &Path) -> anyhow::Result<Option<Self>> {
        let port = free_port();
        let mut command = Command::new(program);
        command.args(["--no-mining", "--silent", "--slots-in-an-epoch", "32", "--port", &port.to_string()]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut process = Self { child: child.context("starting anvil")?, port };
        let connected = poll_until(START_PATIENCE, || {
            let is_up = TcpStream::connect(process.address()).is_ok();
            Ok((is_up || process.child.try_wait()?.is_some()).then_some(()))
        })?;
        let is_up = connected.is_some() && process.child.try_wait()?.is_none();
        Ok(is_up.then_some(process))
    }

    fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    fn ws_url(&self) -> String {
        format!("ws://{}", self.address())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
