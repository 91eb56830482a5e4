//! What the node knows, and what it answers.

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256, Bloom, U64, b256};
use serde_json::{Value, json};

use crate::world::TOKEN;

/// Instead of a method: only requests for logs of a range.
pub(crate) const RANGES: &str = "ranges";
/// Instead of a method: only requests for logs of a block by its hash.
pub(crate) const BY_HASH: &str = "by hash";
/// Instead of a method: only requests for the newest block.
pub(crate) const LATEST: &str = "latest";

pub(super) const TRANSFER: B256 = b256!("ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef");

/// What a node answers instead of the truth.
#[derive(Clone)]
pub(crate) enum Lie {
    /// This.
    Result(Value),
    /// An error of JSON-RPC.
    Error(i64, &'static str),
    /// An error of HTTP, with `Retry-After` if there is one.
    Status(u16, Option<&'static str>),
    /// The truth, changed.
    Changed(fn(Value) -> Value),
    /// Half of the truth; then the connection ends.
    Truncated,
    /// More than anybody wants.
    Endless,
}

/// What goes back to whoever asked.
pub(super) enum Answer {
    Result(Value),
    Error(i64, String),
    Status(u16, Option<&'static str>),
    Truncated,
    Endless,
}

pub(super) struct Script {
    pub(super) chain: u64,
    pub(super) blocks: BTreeMap<B256, ScriptedBlock>,
    pub(super) head: B256,
    /// The heads that connections of these numbers see instead, beginning with 0.
    pub(super) heads_of_connections: BTreeMap<usize, B256>,
    /// Heads to be told first, each once.
    pub(super) heads: Vec<B256>,
    /// After an answer about the method, the head is another.
    pub(super) switch: Option<(&'static str, B256)>,
    /// Whether blocks that aren't on the head's chain are unknown.
    pub(super) forgets_orphans: bool,
    pub(super) finalized: Option<u64>,
    /// The method, and how often it is yet told.
    pub(super) lies: Vec<(&'static str, usize, Lie)>,
    /// Ranges of more blocks are refused with this text.
    pub(super) range_max: Option<(u64, String)>,
    pub(super) requests: Vec<(String, Value)>,
}

#[derive(Clone)]
pub(super) struct ScriptedBlock {
    pub(super) number: u64,
    pub(super) parent: B256,
    pub(super) transfers: u8,
    pub(super) bloom: Option<Bloom>,
}

impl Script {
    /// A chain of block 0 alone.
    pub(super) fn new(chain: u64) -> Self {
        let genesis = ScriptedBlock { number: 0, parent: B256::ZERO, transfers: 0, bloom: None };
        Self {
            chain,
            blocks: BTreeMap::from([(hash_of("g0"), genesis)]),
            head: hash_of("g0"),
            heads_of_connections: BTreeMap::new(),
            heads: vec![],
            switch: None,
            forgets_orphans: false,
            finalized: None,
            lies: vec![],
            range_max: None,
            requests: vec![],
        }
    }

    /// Answers a connection; those over HTTP have no number.
    pub(super) fn answer(&mut self, connection: Option<usize>, method: &str, params: &Value) -> Answer {
        self.requests.push((method.to_owned(), params.clone()));
        let is_about = |about: &str| match about {
            RANGES => params[0]["fromBlock"].is_string(),
            BY_HASH => params[0]["blockHash"].is_string(),
            LATEST => params[0] == "latest",
            about => about == method,
        };
        let lie = self.lies.iter_mut().find(|(about, times, _)| is_about(about) && *times > 0);
        let lie = lie.map(|(_, times, lie)| {
            *times -= 1;
            lie.clone()
        });
        let truth = |script: &mut Self| match script.truth(connection, method, params) {
            Ok(result) => Answer::Result(result),
            Err((code, text)) => Answer::Error(code, text),
        };
        let answer = match lie {
            None => truth(self),
            Some(Lie::Result(result)) => Answer::Result(result),
            Some(Lie::Error(code, text)) => Answer::Error(code, text.to_owned()),
            Some(Lie::Status(status, retry_after)) => Answer::Status(status, retry_after),
            Some(Lie::Truncated) => Answer::Truncated,
            Some(Lie::Endless) => Answer::Endless,
            Some(Lie::Changed(change)) => match truth(self) {
                Answer::Result(result) => Answer::Result(change(result)),
                other => other,
            },
        };
        if let Some((_, head)) = self.switch.take_if(|(about, _)| is_about(about)) {
            self.head = head;
        }
        answer
    }

    fn truth(
        &mut self,
        connection: Option<usize>,
        method: &str,
        params: &Value,
    ) -> Result<Value, (i64, String)> {
        match method {
            "eth_chainId" => Ok(json!(U64::from(self.chain))),
            "eth_getBlockByNumber" => Ok(match params[0].as_str().unwrap() {
                "latest" if !self.heads.is_empty() => {
                    let head = self.heads.remove(0);
                    self.header(head)
                }
                "latest" => {
                    let own = connection.and_then(|connection| self.heads_of_connections.get(&connection));
                    self.header(*own.unwrap_or(&self.head))
                }
                "finalized" => self.finalized.map_or(Value::Null, |number| self.header_at(number)),
                number => self.header_at(quantity(number)),
            }),
            "eth_getBlockByHash" => Ok(self.header(hash_in(&params[0]))),
            "eth_getBlockReceipts" => {
                let logs = self.logs(hash_in(&params[0]));
                Ok(logs.map_or(Value::Null, |logs| json!([{ "logs": logs }])))
            }
            "eth_getLogs" => self.filtered(&params[0]),
            "eth_subscribe" if connection.is_some() => Ok(json!("0x9cef478923ff08bf67fde6c64013158d")),
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

    fn known(&self, hash: B256) -> Option<&ScriptedBlock> {
        let is_known = !self.forgets_orphans || self.chain_of(self.head).contains(&hash);
        self.blocks.get(&hash).filter(|_| is_known)
    }

    pub(super) fn header(&self, hash: B256) -> Value {
        let Some(block) = self.known(hash) else { return Value::Null };
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
        let block = self.known(hash)?;
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
    pub(super) fn chain_of(&self, head: B256) -> Vec<B256> {
        let mut chain = Vec::new();
        let mut hash = head;
        while let Some(block) = self.blocks.get(&hash) {
            chain.push(hash);
            hash = block.parent;
        }
        chain
    }
}

/// The hash of a block with this name.
pub(super) fn hash_of(name: &str) -> B256 {
    B256::right_padding_from(name.as_bytes())
}

/// A transfer from holder 1 to one of its own.
fn topics(log: u8) -> [B256; 3] {
    let holder = |last| Address::with_last_byte(last).into_word();
    [TRANSFER, holder(1), holder(log.wrapping_add(2))]
}

pub(super) fn holder_text(last: u8) -> String {
    format!("{:#x}", Address::with_last_byte(last))
}

fn hash_in(value: &Value) -> B256 {
    value.as_str().unwrap().parse().unwrap()
}

fn quantity(hex: &str) -> u64 {
    u64::from_str_radix(hex.trim_start_matches("0x"), 16).unwrap()
}
