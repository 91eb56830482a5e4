//! Whether the logs that a node tells of can be those of a block.

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256, Bloom, BloomInput};
use gapless_proto::{Block, BlockHash};

use crate::topics::{Topics, Undecodable};
use crate::wire::{Header, Log, Receipt};

#[cfg(test)]
mod tests;

/// What is wrong with the logs of a block. All of it is a reason to ask again or elsewhere, none to store anything.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogsFault {
    /// The block promises logs of this kind, and there are none. Blooms promise too much now and then, so this needs a
    /// second look: see [`check_receipts`].
    #[error("the block promises a log of {address} with signature {signature}, and there is none")]
    Promised {
        /// The contract.
        address: Address,
        /// The signature of the event.
        signature: B256,
    },
    /// There is a log that the block's bloom doesn't know. A few chains have such logs, so this needs a second look: see
    /// [`check_receipts`].
    #[error("the block's bloom doesn't know log {log} of {address}")]
    Unpromised {
        /// The log's index.
        log: u32,
        /// The contract.
        address: Address,
    },
    /// A log was taken back.
    #[error("log {log} was taken back")]
    Removed {
        /// The log's index.
        log: u32,
    },
    /// A log is of another block.
    #[error("a log is of block {}", hash.map_or_else(|| "none".to_owned(), |hash| hash.to_string()))]
    OtherBlock {
        /// The hash that it has.
        hash: Option<BlockHash>,
    },
    /// A log comes twice, each time different.
    #[error("log {log} comes twice with different content")]
    Contradiction {
        /// The log's index.
        log: u32,
    },
    /// A log has no usable index.
    #[error("a log has no index in its block")]
    NoIndex,
    /// The receipts lack logs that the block promises.
    #[error("the receipts lack logs that the block promises")]
    ReceiptsLackLogs,
}

/// The logs of a block by their index.
pub type CheckedLogs = BTreeMap<u32, Log>;

/// Checks logs that are said to be those of a block against what its bloom promises. The same log twice counts once.
pub fn check_logs(header: &Header, logs: Vec<Log>, topics: &Topics) -> Result<CheckedLogs, LogsFault> {
    let checked = belonging(header, logs)?;
    let Some(bloom) = &header.bloom else { return Ok(checked) };
    if let Some((index, log)) =
        checked.iter().find(|(_, log)| !bloom.contains_raw_log(log.address, &log.topics))
    {
        return Err(LogsFault::Unpromised { log: *index, address: log.address });
    }
    let is_there = |address, signature| {
        checked.values().any(|log| log.address == address && log.topics.first() == Some(&signature))
    };
    let missing = topics.wanted().find(|(address, signature)| {
        promises(bloom, *address, *signature) && !is_there(*address, *signature)
    });
    match missing {
        Some((address, signature)) => Err(LogsFault::Promised { address, signature }),
        None => Ok(checked),
    }
}

/// Takes the logs of a block from its receipts. They are all there if together they promise all that the block does, so this
/// settles what [`LogsFault::Promised`] and [`LogsFault::Unpromised`] leave open. Logs that the bloom doesn't know are taken
/// from here: Polygon has them, of what comes from Ethereum.
pub fn check_receipts(header: &Header, receipts: Vec<Receipt>) -> Result<CheckedLogs, LogsFault> {
    let logs = receipts.into_iter().flat_map(|receipt| receipt.logs).collect();
    let checked = belonging(header, logs)?;
    let mut bloom = Bloom::ZERO;
    for log in checked.values() {
        bloom.accrue_raw_log(log.address, &log.topics);
    }
    if header.bloom.as_ref().is_some_and(|promised| !bloom.contains(promised)) {
        return Err(LogsFault::ReceiptsLackLogs);
    }
    Ok(checked)
}

/// Makes the block that is ingested. Logs that only look like an event of a topic are none, and are named.
pub fn decoded(header: &Header, logs: &CheckedLogs, topics: &Topics) -> (Block, Vec<Undecodable>) {
    let (mut events, mut undecodable) = (Vec::new(), Vec::new());
    for (index, log) in logs {
        for event in topics.events(*index, log) {
            match event {
                Ok(event) => events.push(event),
                Err(error) => undecodable.push(error),
            }
        }
    }
    let Header { at, parent, time, bloom: _ } = header;
    (Block { number: at.number, hash: at.hash, parent: *parent, time: *time, events }, undecodable)
}

fn belonging(header: &Header, logs: Vec<Log>) -> Result<CheckedLogs, LogsFault> {
    let mut checked = CheckedLogs::new();
    for log in logs {
        let index = log.log_index.and_then(|index| u32::try_from(index).ok()).ok_or(LogsFault::NoIndex)?;
        if log.removed {
            return Err(LogsFault::Removed { log: index });
        }
        let hash = log.block_hash.map(|hash| BlockHash(hash.0));
        if hash != Some(header.at.hash) {
            return Err(LogsFault::OtherBlock { hash });
        }
        match checked.get(&index) {
            Some(same) if *same == log => {}
            Some(_) => return Err(LogsFault::Contradiction { log: index }),
            None => drop(checked.insert(index, log)),
        }
    }
    Ok(checked)
}

fn promises(bloom: &Bloom, address: Address, signature: B256) -> bool {
    bloom.contains_input(BloomInput::Raw(address.as_slice()))
        && bloom.contains_input(BloomInput::Raw(signature.as_slice()))
}
