//! A client that fetches logs and decodes them, as one would write it: it checks nothing and keeps nothing.

use std::time::{Duration, Instant};

use alloy_primitives::{Address, B256, Bytes, U64, U256};
use anyhow::{Context as _, ensure};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;

use super::{Plan, rate};
use crate::bench::filled_node::{self, FilledNode, TOKEN};

const TRANSFER: &str = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";
/// The same ranges as those of the follower, which double up to this.
const RANGE_FIRST: u64 = 100;
const RANGE_MAX: u64 = 1_000;
/// As with the follower, the node is at the next range while one is decoded.
const RANGES_AT_ONCE: usize = 2;
const PATIENCE: Duration = Duration::from_secs(60);

/// A log, as far as anybody needs it who wants a transfer and its place.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Log {
    topics: Vec<B256>,
    data: Bytes,
    block_number: U64,
    log_index: U64,
    transaction_hash: B256,
}

#[derive(Debug)]
struct Transfer {
    from: Address,
    to: Address,
    value: U256,
    place: (u64, u64),
    transaction: B256,
}

/// How many events a second it fetches and decodes.
pub(super) async fn events_a_second(plan: Plan, node: &FilledNode) -> anyhow::Result<f64> {
    let start = Instant::now();
    let client = filled_node::connect(&node.ws_url()).await?;
    let ranges = ranges(plan.last_block()).into_iter().map(async |(from, to)| {
        let (from, to) = (U64::from(from), U64::from(to));
        let filter = json!([{"address": [TOKEN], "topics": [[TRANSFER]], "fromBlock": from, "toBlock": to}]);
        let logs: Vec<Log> = client.request("eth_getLogs", filter).await.context("fetching logs")?;
        logs.iter().map(decoded).collect::<anyhow::Result<Vec<_>>>()
    });
    let mut ranges = stream::iter(ranges).buffered(RANGES_AT_ONCE);
    let (mut events, mut last) = (0, (0, 0));
    while let Some(transfers) = timeout(PATIENCE, ranges.try_next()).await.context("the node is silent")?? {
        for transfer in transfers {
            let Transfer { from, to, value, place, transaction } = std::hint::black_box(transfer);
            ensure!(place > last, "logs out of order: {from} {to} {value} {transaction}");
            last = place;
            events += 1;
        }
    }
    ensure!(events == plan.events(), "the bare client got {events} events of {}", plan.events());
    Ok(rate(plan, start))
}

fn decoded(log: &Log) -> anyhow::Result<Transfer> {
    let [_, from, to] = log.topics.as_slice() else { anyhow::bail!("not a transfer: {log:?}") };
    Ok(Transfer {
        from: Address::from_word(*from),
        to: Address::from_word(*to),
        value: U256::try_from_be_slice(&log.data).context("a value of more than 32 bytes")?,
        place: (log.block_number.to(), log.log_index.to()),
        transaction: log.transaction_hash,
    })
}

/// Ranges of heights up to one.
fn ranges(last: u64) -> Vec<(u64, u64)> {
    let (mut from, mut blocks, mut ranges) = (1, RANGE_FIRST, Vec::new());
    while from <= last {
        ranges.push((from, last.min(from + blocks - 1)));
        from += blocks;
        blocks = RANGE_MAX.min(2 * blocks);
    }
    ranges
}
