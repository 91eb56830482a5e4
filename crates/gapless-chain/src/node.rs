//! One node, over HTTP or WebSocket.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use alloy_json_rpc::RpcRecv;
use alloy_primitives::{Address, B256, U64, U256};
use alloy_pubsub::{ConnectionHandle, PubSubConnect};
use alloy_rpc_client::RpcClient;
use alloy_transport::{TransportErrorKind, TransportResult};
use alloy_transport_ws::{WebSocketConfig, WsBackend, WsConnect};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use gapless_proto::{BlockHash, BlockNumber};
use reqwest::Url;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_tungstenite::connect_async_with_config;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use self::error::NodeError;
use self::http::BoundedHttp;
use crate::config::FollowConfig;
use crate::errors::Trouble;
use crate::range_policy::Heights;
use crate::topics::Topics;
use crate::wire::{Header, Log, Receipt};

pub(crate) mod error;
mod http;

/// The address of a node: `http`, `https`, `ws` or `wss`.
///
/// As text and in logs only its scheme, host and port are shown: the rest often holds a key.
#[derive(Clone, PartialEq, Eq)]
pub struct NodeUrl(Url);

/// Why a text isn't the address of a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeUrlError {
    /// It isn't an address.
    #[error("this is no address; write it as in wss://node.example/key")]
    NoUrl,
    /// It is the address of something else.
    #[error("a node is reached by http, https, ws or wss, not by `{0}`")]
    Scheme(String),
}

/// How often a node that says nothing is asked for a sign of life; one that gives none until the next time is gone.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// Headers in one request.
const HEADERS_PER_REQUEST: usize = 100;
/// Requests of one question that are under way at once.
const REQUESTS_AT_ONCE: usize = 4;

/// A connection to a node.
#[derive(Debug)]
pub(crate) struct Node {
    client: RpcClient,
    request_timeout: Duration,
}

/// Tells that a node has a new head. What it says of it isn't used: nodes skip, repeat and reorder these.
#[derive(Debug)]
pub(crate) struct NewHeads(alloy_pubsub::RawSubscription);

/// Logs as the node has sent them. Reading those of a long range takes as long as getting them.
#[derive(Debug)]
pub(crate) struct UnreadLogs(Box<RawValue>);

/// Which block of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tag {
    Latest,
    Finalized,
    Number(BlockNumber),
}

impl Node {
    pub(crate) async fn connect(url: &NodeUrl, config: &FollowConfig) -> Result<Self, NodeError> {
        // `https` and `wss` need one, and any that is there already will do.
        drop(rustls::crypto::ring::default_provider().install_default());
        let &FollowConfig { request_timeout, answer_bytes_max, .. } = config;
        let client = match url.0.scheme() {
            "ws" | "wss" => {
                let bounds = WebSocketConfig::default()
                    .max_message_size(Some(answer_bytes_max))
                    .max_frame_size(Some(answer_bytes_max));
                let websocket = WsConnect::new(url.0.as_str()).with_config(bounds);
                let connecting = RpcClient::builder().pubsub(Once(websocket));
                timeout(request_timeout, connecting).await.map_err(|_| NodeError::timed_out())??
            }
            _ => {
                let http = reqwest::Client::builder().connect_timeout(request_timeout).build();
                let client = http.map_err(|error| NodeError::new(Trouble::Fatal, &error.to_string()))?;
                let http = BoundedHttp { client, url: url.0.clone(), answer_bytes_max };
                RpcClient::builder().transport(http, false)
            }
        };
        Ok(Self { client, request_timeout })
    }

    pub(crate) async fn chain_id(&self) -> Result<U256, NodeError> {
        self.ask("eth_chainId", json!([])).await
    }

    pub(crate) async fn header_at(&self, tag: Tag) -> Result<Option<Header>, NodeError> {
        self.ask("eth_getBlockByNumber", json!([tag.to_string(), false])).await
    }

    pub(crate) async fn header(&self, hash: BlockHash) -> Result<Option<Header>, NodeError> {
        self.ask("eth_getBlockByHash", json!([hash, false])).await
    }

    /// The headers of a range, in its order; `None` where there is none.
    pub(crate) async fn headers(&self, heights: Heights) -> Result<Vec<Option<Header>>, NodeError> {
        let numbers: Vec<u64> = (heights.from.get()..=heights.to.get()).collect();
        let requests = numbers.chunks(HEADERS_PER_REQUEST).map(|numbers| self.headers_of(numbers.to_vec()));
        let answers: Vec<_> =
            stream::iter(requests.collect::<Vec<_>>()).buffered(REQUESTS_AT_ONCE).try_collect().await?;
        Ok(answers.into_iter().flatten().collect())
    }

    pub(crate) async fn logs_of(&self, block: BlockHash, topics: &Topics) -> Result<Vec<Log>, NodeError> {
        let mut filter = filter(topics);
        filter["blockHash"] = json!(block);
        UnreadLogs(self.ask("eth_getLogs", json!([filter])).await?).read()
    }

    pub(crate) async fn logs_in(&self, heights: Heights, topics: &Topics) -> Result<UnreadLogs, NodeError> {
        let mut filter = filter(topics);
        filter["fromBlock"] = json!(U64::from(heights.from.get()));
        filter["toBlock"] = json!(U64::from(heights.to.get()));
        Ok(UnreadLogs(self.ask("eth_getLogs", json!([filter])).await?))
    }

    /// The receipts of a block; `None` when the node doesn't have it, or has it only in part.
    pub(crate) async fn receipts(&self, block: BlockHash) -> Result<Option<Vec<Receipt>>, NodeError> {
        let receipts: Option<Vec<Option<Receipt>>> = self.ask("eth_getBlockReceipts", json!([block])).await?;
        Ok(receipts.and_then(|receipts| receipts.into_iter().collect()))
    }

    /// Subscribes to new heads; `None` where the connection or the node can't do that.
    pub(crate) async fn new_heads(&self) -> Result<Option<NewHeads>, NodeError> {
        let Some(pubsub) = self.client.pubsub_frontend() else { return Ok(None) };
        // More announcements than one say nothing more.
        pubsub.set_channel_size(1);
        let mut call = self.client.request::<_, B256>("eth_subscribe", json!(["newHeads"]));
        call.set_is_subscription();
        let subscribed = timeout(self.request_timeout, call).await.map_err(|_| NodeError::timed_out())?;
        match subscribed.map_err(NodeError::from) {
            Ok(id) => Ok(Some(NewHeads(pubsub.get_subscription(id).await?))),
            Err(NodeError { trouble: Trouble::Unsupported | Trouble::Fatal, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn headers_of(&self, numbers: Vec<u64>) -> Result<Vec<Option<Header>>, NodeError> {
        let mut batch = self.client.new_batch();
        let mut waiting = Vec::with_capacity(numbers.len());
        for number in &numbers {
            let params = json!([U64::from(*number), false]);
            waiting.push(batch.add_call::<_, Option<Header>>("eth_getBlockByNumber", &params)?);
        }
        let asking = async {
            batch.send().await?;
            let mut headers = Vec::with_capacity(waiting.len());
            for header in waiting {
                headers.push(absent_as_none(header.await.map_err(NodeError::from))?);
            }
            Ok(headers)
        };
        match timeout(self.request_timeout, asking).await.map_err(|_| NodeError::timed_out())? {
            // Not every node takes several questions at once, and those that do may not say what is wrong.
            Err(NodeError { trouble: Trouble::Passing | Trouble::Fatal, .. }) => {
                self.headers_one_by_one(&numbers).await
            }
            answer => answer,
        }
    }

    async fn headers_one_by_one(&self, numbers: &[u64]) -> Result<Vec<Option<Header>>, NodeError> {
        let mut headers = Vec::with_capacity(numbers.len());
        for number in numbers {
            let params = json!([U64::from(*number), false]);
            headers.push(absent_as_none(self.ask("eth_getBlockByNumber", params).await)?);
        }
        Ok(headers)
    }

    async fn ask<T: RpcRecv>(&self, method: &'static str, params: Value) -> Result<T, NodeError> {
        let call = self.client.request::<_, T>(method, params);
        Ok(timeout(self.request_timeout, call).await.map_err(|_| NodeError::timed_out())??)
    }
}

impl UnreadLogs {
    /// How many bytes there are to read.
    pub(crate) fn bytes(&self) -> usize {
        self.0.get().len()
    }

    pub(crate) fn read(&self) -> Result<Vec<Log>, NodeError> {
        // Some nodes say `null` where they mean that they don't have the block.
        serde_json::from_str::<Option<Vec<Log>>>(self.0.get())
            .map_err(|error| NodeError::new(Trouble::Untrustworthy, &error.to_string()))?
            .ok_or_else(|| NodeError::new(Trouble::UnknownBlock, "no logs, not even none"))
    }
}

impl NewHeads {
    /// Waits for news. Returns whether there may be more.
    pub(crate) async fn changed(&mut self) -> bool {
        use tokio::sync::broadcast::error::RecvError;
        match self.0.recv().await {
            Ok(_) | Err(RecvError::Lagged(_)) => true,
            Err(RecvError::Closed) => false,
        }
    }
}

/// Connects once: whoever comes back must be checked anew, so the connection isn't repaired behind our back.
#[derive(Debug, Clone)]
struct Once(WsConnect);

impl PubSubConnect for Once {
    fn is_local(&self) -> bool {
        self.0.is_local()
    }

    async fn connect(&self) -> TransportResult<ConnectionHandle> {
        let request = self.0.clone().into_client_request().map_err(TransportErrorKind::custom)?;
        // Small questions follow each other closely: none may wait until the node's kernel has acknowledged the one before it.
        let is_nagle_disabled = true;
        let connected = connect_async_with_config(request, self.0.config().copied(), is_nagle_disabled).await;
        let (socket, _) = connected.map_err(TransportErrorKind::custom)?;
        let (handle, interface) = ConnectionHandle::new();
        WsBackend::from_socket(socket, interface, KEEPALIVE).spawn();
        Ok(handle)
    }

    async fn try_reconnect(&self) -> TransportResult<ConnectionHandle> {
        Err(TransportErrorKind::non_retryable_str("the connection ended"))
    }
}

/// A height that is left out counts as one without a block, whatever way the node says it.
fn absent_as_none(answer: Result<Option<Header>, NodeError>) -> Result<Option<Header>, NodeError> {
    match answer {
        Err(NodeError { trouble: Trouble::NullRound, .. }) => Ok(None),
        answer => answer,
    }
}

fn filter(topics: &Topics) -> Value {
    let addresses: Vec<Address> = topics.addresses().into_iter().collect();
    let signatures: Vec<B256> = topics.signatures().into_iter().collect();
    json!({ "address": addresses, "topics": [signatures] })
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latest => f.write_str("latest"),
            Self::Finalized => f.write_str("finalized"),
            Self::Number(number) => write!(f, "{:#x}", number.get()),
        }
    }
}

impl FromStr for NodeUrl {
    type Err = NodeUrlError;

    fn from_str(text: &str) -> Result<Self, NodeUrlError> {
        let url: Url = text.parse().map_err(|_| NodeUrlError::NoUrl)?;
        match url.scheme() {
            "http" | "https" | "ws" | "wss" if url.has_host() => Ok(Self(url)),
            scheme => Err(NodeUrlError::Scheme(scheme.to_owned())),
        }
    }
}

impl fmt::Display for NodeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.0.scheme(), self.0.host_str().unwrap_or_default())?;
        match self.0.port() {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for NodeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_in_an_address_is_never_shown() {
        let url: NodeUrl = "wss://ann:s3cret@node.example:8546/v2/s3cret?key=s3cret".parse().unwrap();
        assert_eq!(format!("{url} {url:?}"), "wss://node.example:8546 NodeUrl(wss://node.example:8546)");
    }

    #[test]
    fn what_is_not_the_address_of_a_node_is_refused() {
        assert_eq!("node.example".parse::<NodeUrl>(), Err(NodeUrlError::NoUrl));
        assert_eq!("ftp://node.example".parse::<NodeUrl>(), Err(NodeUrlError::Scheme("ftp".to_owned())));
    }
}
