//! A scripted node over HTTP that says what it is told to say.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use alloy_primitives::{Address, B256, Bloom, U64, b256};
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use gapless_proto::BlockHash;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::world::{Happening, TOKEN};

/// Instead of a method: only requests for logs of a range.
pub(crate) const RANGES: &str = "ranges";

const TRANSFER: B256 = b256!("ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef");

/// A node whose chain is written down in few words, and that lies on demand.
///
/// `a3<a2:2` is block a3 of height 3 on a2 with two transfers. All chains begin with block 0, `g0`.
pub(crate) struct LyingNode {
    pub(crate) url: String,
    script: Arc<Mutex<Script>>,
    serving: JoinHandle<()>,
}

/// What a node answers instead of the truth.
pub(crate) enum Lie {
    /// This.
    Result(Value),
    /// An error of JSON-RPC.
    Error(i64, &'static str),
    /// An error of HTTP, with `Retry-After` if there is one.
    Status(u16, Option<&'static str>),
    /// The truth, changed.
    Changed(fn(Value) -> Value),
}

struct Script {
    chain: u64,
    blocks: BTreeMap<B256, ScriptedBlock>,
    head: B256,
    /// Heads to be told first, each once.
    heads: Vec<B256>,
    finalized: Option<u64>,
    /// The method, and how often it is yet told.
    lies: Vec<(&'static str, usize, Lie)>,
    /// Ranges of more blocks are refused with this text.
    range_max: Option<(u64, String)>,
    requests: Vec<(String, Value)>,
}

#[derive(Clone)]
struct ScriptedBlock {
    number: u64,
    parent: B256,
    transfers: u8,
    bloom: Option<Bloom>,
}

impl LyingNode {
    pub(crate) async fn start(chain: u64) -> Self {
        let genesis = ScriptedBlock { number: 0, parent: B256::ZERO, transfers: 0, bloom: None };
        let script = Arc::new(Mutex::new(Script {
            chain,
            blocks: BTreeMap::from([(hash_of("g0"), genesis)]),
            head: hash_of("g0"),
            heads: vec![],
            finalized: None,
            lies: vec![],
            range_max: None,
            requests: vec![],
        }));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().route("/", post(answer)).with_state(script.clone());
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, script, serving }
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
        self.serving.abort();
    }
}

/// The hash of a block with this name.
pub(crate) fn hash(name: &str) -> BlockHash {
    BlockHash(hash_of(name).0)
}

fn hash_of(name: &str) -> B256 {
    B256::right_padding_from(name.as_bytes())
}

async fn answer(State(script): State<Arc<Mutex<Script>>>, body: String) -> Response {
    let request: Value = serde_json::from_str(&body).unwrap();
    let mut script = script.lock().unwrap();
    let requests = match &request {
        Value::Array(requests) => requests.clone(),
        _ => vec![request.clone()],
    };
    let mut answers = Vec::new();
    for one in requests {
        match script.answer(one["method"].as_str().unwrap(), &one["params"]) {
            Ok(Ok(result)) => answers.push(json!({"jsonrpc": "2.0", "id": one["id"], "result": result})),
            Ok(Err((code, message))) => answers.push(
                json!({"jsonrpc": "2.0", "id": one["id"], "error": {"code": code, "message": message}}),
            ),
            Err((status, retry_after)) => {
                let retry_after = retry_after.map(|value| (header::RETRY_AFTER, value.parse().unwrap()));
                let headers: HeaderMap = retry_after.into_iter().collect::<HeaderMap<_>>();
                return (StatusCode::from_u16(status).unwrap(), headers, "no").into_response();
            }
        }
    }
    let body = if request.is_array() { Value::Array(answers) } else { answers.remove(0) };
    let json: HeaderName = header::CONTENT_TYPE;
    ([(json, "application/json")], body.to_string()).into_response()
}

/// A result, an error of JSON-RPC, or an error of HTTP.
type Answer = Result<Result<Value, (i64, String)>, (u16, Option<&'static str>)>;

impl Script {
    fn answer(&mut self, method: &str, params: &Value) -> Answer {
        self.requests.push((method.to_owned(), params.clone()));
        let is_range = params[0]["fromBlock"].is_string();
        let is_about = |about: &str| about == method || (about == RANGES && is_range);
        let lie = self.lies.iter_mut().find(|(about, times, _)| is_about(about) && *times > 0);
        let change = match lie {
            None => None,
            Some((_, times, lie)) => {
                *times -= 1;
                match lie {
                    Lie::Result(result) => return Ok(Ok(result.clone())),
                    Lie::Error(code, text) => return Ok(Err((*code, (*text).to_owned()))),
                    Lie::Status(status, retry_after) => return Err((*status, *retry_after)),
                    Lie::Changed(change) => Some(*change),
                }
            }
        };
        let truth = self.truth(method, params);
        Ok(match change {
            Some(change) => truth.map(change),
            None => truth,
        })
    }

    fn truth(&mut self, method: &str, params: &Value) -> Result<Value, (i64, String)> {
        match method {
            "eth_chainId" => Ok(json!(U64::from(self.chain))),
            "eth_getBlockByNumber" => Ok(match params[0].as_str().unwrap() {
                "latest" if !self.heads.is_empty() => {
                    let head = self.heads.remove(0);
                    self.header(head)
                }
                "latest" => self.header(self.head),
                "finalized" => self.finalized.map_or(Value::Null, |number| self.header_at(number)),
                number => self.header_at(quantity(number)),
            }),
            "eth_getBlockByHash" => Ok(self.header(hash_in(&params[0]))),
            "eth_getBlockReceipts" => {
                let logs = self.logs(hash_in(&params[0]));
                Ok(logs.map_or(Value::Null, |logs| json!([{ "logs": logs }])))
            }
            "eth_getLogs" => self.filtered(&params[0]),
            _ => Err((-32601, format!("the method {method} does not exist"))),
        }
    }

    fn filtered(&self, filter: &Value) -> Result<Value, (i64, String)> {
        if filter["blockHash"].is_string() {
            let logs = self.logs(hash_in(&filter["blockHash"]));
            return logs.map(Value::Array).ok_or_else(|| (-32000, "unknown block".to_owned()));
        }
        let [from, to] = ["fromBlock", "toBlock"].map(|end| quantity(filter[end].as_str().unwrap()));
        if let Some((blocks_max, text)) = &self.range_max
            && to - from + 1 > *blocks_max
        {
            return Err((-32000, text.replace("{from}", &from.to_string()).replace("{to}", &to.to_string())));
        }
        let chain = self.chain_of(self.head).into_iter().rev();
        let wanted = chain.filter(|hash| (from..=to).contains(&self.blocks[hash].number));
        Ok(wanted.flat_map(|hash| self.logs(hash).unwrap()).collect())
    }

    fn header_at(&self, number: u64) -> Value {
        let chain = self.chain_of(self.head);
        let found = chain.into_iter().find(|hash| self.blocks[hash].number == number);
        found.map_or(Value::Null, |hash| self.header(hash))
    }

    fn header(&self, hash: B256) -> Value {
        let Some(block) = self.blocks.get(&hash) else { return Value::Null };
        let bloom = block.bloom.unwrap_or_else(|| {
            let mut bloom = Bloom::ZERO;
            for log in 0..block.transfers {
                bloom.accrue_raw_log(TOKEN.parse().unwrap(), &topics(log));
            }
            bloom
        });
        json!({
            "number": U64::from(block.number), "hash": hash, "parentHash": block.parent,
            "timestamp": U64::from(1_000 + block.number), "logsBloom": bloom,
        })
    }

    fn logs(&self, hash: B256) -> Option<Vec<Value>> {
        let block = self.blocks.get(&hash)?;
        let log = |index: u8| {
            json!({
                "address": TOKEN, "topics": topics(index), "data": B256::with_last_byte(index + 1),
                "blockHash": hash, "blockNumber": U64::from(block.number), "logIndex": U64::from(index),
                "transactionHash": hash, "removed": false,
            })
        };
        Some((0..block.transfers).map(log).collect())
    }

    /// The hashes from a block down to the first.
    fn chain_of(&self, head: B256) -> Vec<B256> {
        let mut chain = Vec::new();
        let mut hash = head;
        while let Some(block) = self.blocks.get(&hash) {
            chain.push(hash);
            hash = block.parent;
        }
        chain
    }
}

/// A transfer from holder 1 to one of its own.
fn topics(log: u8) -> [B256; 3] {
    let holder = |last| Address::with_last_byte(last).into_word();
    [TRANSFER, holder(1), holder(log.wrapping_add(2))]
}

fn holder_text(last: u8) -> String {
    format!("{:#x}", Address::with_last_byte(last))
}

fn hash_in(value: &Value) -> B256 {
    value.as_str().unwrap().parse().unwrap()
}

fn quantity(hex: &str) -> u64 {
    u64::from_str_radix(hex.trim_start_matches("0x"), 16).unwrap()
}
