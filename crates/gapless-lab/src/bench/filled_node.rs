//! A node that can be filled with many transfers.

use alloy_json_rpc::RpcRecv;
use alloy_primitives::U64;
use alloy_rpc_client::RpcClient;
use alloy_transport_ws::{WebSocketConfig, WsConnect};
use anyhow::Context as _;
use gapless_testkit::ChainNode;
use serde_json::{Value, json};

/// The chain's id.
pub(super) const CHAIN: u64 = ChainNode::CHAIN;
/// Where the contract is whose calls are transfers.
pub(super) const TOKEN: &str = ChainNode::TOKEN;
/// Puts the contract in place. Its calldata are a count and a number: it emits so many transfers, whose values are the next numbers
/// and whose holders follow from these:
///
/// ```text
/// for (i = count; i > 0;) { i -= 1; v = number + i; emit Transfer(1 + v % 10007, 1 + 7 * v % 10007, v) }
/// ```
const EMITTER: &str = concat!(
    "0x6055600c60003960556000f3",
    "6000355b8015605357600190038060203501",
    "80600052612717816007020660010190612717900660010",
    "17fddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef",
    "60206000a36003565b00"
);
/// A topic of its transfers.
pub(super) const TRANSFERS: &str =
    "event = \"Transfer(address indexed from, address indexed to, uint256 value)\"";
/// The same, that also keeps what everyone holds.
pub(super) const BALANCES: &str = "builtin = \"erc20_balance\"";
/// What a transaction may use, and each of its transfers.
const TRANSACTION_GAS: u64 = 25_000;
const TRANSFER_GAS: u64 = 2_500;
/// The logs of a range are one frame.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// A running anvil with a token, ended when dropped.
pub(super) struct FilledNode {
    node: ChainNode,
    rpc: RpcClient,
    transfers: Transfers,
}

/// Makes transactions; no two of their transfers are the same.
#[derive(Default)]
struct Transfers {
    made: u64,
}

impl FilledNode {
    /// Starts one whose block 1 has the token.
    pub(super) async fn start() -> anyhow::Result<Self> {
        // It ends with its thread; those for blocking work end when there is none.
        let node = tokio::task::block_in_place(ChainNode::start)?;
        let rpc = connect(&node.ws_url()).await?;
        let node = Self { node, rpc, transfers: Transfers::default() };
        let deployment = json!([{"from": ChainNode::ACCOUNT, "data": EMITTER, "gas": "0x100000"}]);
        node.ask::<Value>("eth_sendTransaction", deployment).await?;
        node.mine(1).await?;
        Ok(node)
    }

    /// Its address for JSON-RPC over WebSocket.
    pub(super) fn ws_url(&self) -> String {
        self.node.ws_url()
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

    /// Mines so many blocks, each with so many transactions of so many transfers.
    pub(super) async fn fill(
        &mut self,
        blocks: u64,
        transactions: u64,
        transfers: u64,
    ) -> anyhow::Result<()> {
        let sent: U64 = self.ask("eth_getTransactionCount", json!([ChainNode::ACCOUNT, "latest"])).await?;
        let mut nonces = sent.to::<u64>()..;
        for _ in 0..blocks {
            let mut batch = self.rpc.new_batch();
            let mut waiting = Vec::new();
            for nonce in nonces.by_ref().take(usize::try_from(transactions)?) {
                let mut transaction = self.transfers.next(transfers);
                // The node takes what comes together in any order.
                transaction["nonce"] = json!(U64::from(nonce));
                waiting.push(batch.add_call::<_, Value>("eth_sendTransaction", &json!([transaction]))?);
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
        let transfer = self.transfers.next(1);
        self.ask::<Value>("eth_sendTransaction", json!([transfer])).await.map(drop)
    }

    /// Replaces the newest block by another, which has another transfer.
    pub(super) async fn reorg(&mut self) -> anyhow::Result<()> {
        let transfer = self.transfers.next(1);
        self.ask::<Value>("anvil_reorg", json!([1, [[transfer, 0]]])).await.map(drop)
    }

    async fn ask<T: RpcRecv>(&self, method: &'static str, params: Value) -> anyhow::Result<T> {
        self.rpc.request(method, params).await.with_context(|| format!("asking the node for {method}"))
    }
}

impl Transfers {
    fn next(&mut self, transfers: u64) -> Value {
        let data = format!("0x{transfers:064x}{:064x}", self.made);
        self.made += transfers;
        let gas = U64::from(TRANSACTION_GAS + transfers * TRANSFER_GAS);
        json!({"from": ChainNode::ACCOUNT, "to": TOKEN, "data": data, "gas": gas})
    }
}

/// Connects to a node.
pub(super) async fn connect(ws_url: &str) -> anyhow::Result<RpcClient> {
    let bounds = WebSocketConfig::default()
        .max_message_size(Some(ANSWER_BYTES_MAX))
        .max_frame_size(Some(ANSWER_BYTES_MAX));
    let websocket = WsConnect::new(ws_url).with_config(bounds);
    RpcClient::builder().ws(websocket).await.context("connecting to the node")
}
