//! Blocks and logs as a node tells of them.

use alloy_primitives::{Address, B256, Bloom, Bytes, U64};
use gapless_proto::{BlockHash, BlockNumber, BlockRef, block_time};
use serde::Deserialize;

/// What the follower needs of a block's header.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "HeaderFields")]
pub struct Header {
    /// Which block.
    pub at: BlockRef,
    /// The block before it.
    pub parent: BlockHash,
    /// When it was made, in seconds since the Unix epoch.
    pub time: u64,
    /// What the logs of the block are about; `None` where the node doesn't say. All zeros mean that on chains that execute blocks
    /// later (Monad) or keep no blooms (zkSync), all ones on Filecoin; nothing is checked against either.
    pub bloom: Option<Box<Bloom>>,
}

/// A log, as a node tells of it. What may be missing is missing in blocks that aren't mined yet.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Log {
    /// The contract.
    pub address: Address,
    /// The indexed words; the first is the event's signature.
    pub topics: Vec<B256>,
    /// The other arguments, encoded.
    pub data: Bytes,
    /// The hash of the block.
    #[serde(default)]
    pub block_hash: Option<B256>,
    /// The transaction.
    #[serde(default)]
    pub transaction_hash: Option<B256>,
    /// The log's index in the block.
    #[serde(default)]
    pub log_index: Option<U64>,
    /// Whether it was taken back.
    #[serde(default)]
    pub removed: bool,
}

/// The part of a transaction's receipt that tells which logs a block has.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Receipt {
    /// The logs, of all contracts.
    pub logs: Vec<Log>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HeaderFields {
    number: U64,
    hash: B256,
    parent_hash: B256,
    timestamp: U64,
    #[serde(default)]
    logs_bloom: Option<Box<Bloom>>,
}

impl TryFrom<HeaderFields> for Header {
    type Error = gapless_proto::PositionError;

    fn try_from(fields: HeaderFields) -> Result<Self, Self::Error> {
        let number = BlockNumber::new(fields.number.to())?;
        Ok(Self {
            at: BlockRef { number, hash: BlockHash(fields.hash.0) },
            parent: BlockHash(fields.parent_hash.0),
            time: block_time(fields.timestamp.to())?,
            bloom: fields.logs_bloom.filter(|bloom| ![Bloom::ZERO, Bloom::repeat_byte(0xff)].contains(bloom)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Chain behaviour 14
    #[test]
    fn a_header_says_which_block_it_is_and_what_its_logs_are_about() {
        let header = |bloom: &str| -> Header {
            let hash = "11".repeat(32);
            let json = format!(
                r#"{{"number":"0x0","hash":"0x{hash}","parentHash":"0x{hash}","timestamp":"0x6a","extra":1{bloom}}}"#
            );
            serde_json::from_str(&json).unwrap()
        };
        let plain = header("");
        assert_eq!((plain.at.number.get(), plain.time, plain.bloom), (0, 106, None));
        for unknown in ["00", "ff"] {
            assert_eq!(header(&format!(r#","logsBloom":"0x{}""#, unknown.repeat(256))).bloom, None);
        }
        assert!(header(&format!(r#","logsBloom":"0x{}""#, "01".repeat(256))).bloom.is_some());
    }

    // Chain behaviour 11
    #[test]
    fn a_header_with_absurd_numbers_is_none() {
        let header = |number: &str, time: &str| {
            let hash = "11".repeat(32);
            serde_json::from_str::<Header>(&format!(
                r#"{{"number":"{number}","hash":"0x{hash}","parentHash":"0x{hash}","timestamp":"{time}"}}"#
            ))
        };
        let (largest, absurd) = ("0x1fffffffffffff", "0xffffffffffffffff");
        assert!(header(largest, largest).is_ok());
        for (number, time) in
            [(absurd, "0x1"), ("0x1", absurd), ("0x20000000000000", "0x1"), ("0x1", "0x20000000000000")]
        {
            assert!(header(number, time).is_err(), "{number} {time}");
        }
    }

    #[test]
    fn a_block_that_is_not_mined_yet_has_no_header() {
        let pending = r#"{"number":null,"hash":null,"parentHash":"0x11","timestamp":"0x1","logsBloom":null}"#;
        assert!(serde_json::from_str::<Header>(pending).is_err());
    }
}
