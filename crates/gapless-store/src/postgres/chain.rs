//! The feeds of chains.

pub(super) mod ingest;
pub(super) mod maintenance;
pub(super) mod reading;
mod statements;

use gapless_proto::{BlockHash, BlockNumber, BlockRef};
use tokio_postgres::Row;

use super::fault::Fault;
use super::rows;
use crate::{ChainInfo, Rewound};

#[cfg(test)]
pub(super) use statements::ALL;

/// The statement that reads the log, with the parameters chain, topics, after, up to, limit and bytes.
pub const LOG: &str = statements::LOG;
/// The column that has the seq of an entry.
pub const LOG_SEQ: usize = INFO_COLUMNS;

/// How many columns [`info`] reads.
const INFO_COLUMNS: usize = 9;

/// `epoch, head, min_seq, finalized, gap_after, gap_to, number, hash, anew_after`.
fn info(row: &Row, first: usize) -> Result<ChainInfo, Fault> {
    let (after, to) = (rows::seq_or_null(row, first + 4)?, rows::seq_or_null(row, first + 5)?);
    let number = block_number_or_null(row, first + 6)?;
    let hash = hash_or_null(row, first + 7)?;
    Ok(ChainInfo {
        epoch: rows::epoch(row, first)?,
        head: rows::seq(row, first + 1)?,
        min_seq: rows::seq(row, first + 2)?,
        finalized: block_number_or_null(row, first + 3)?,
        rewound: after.zip(to).map(|(after, to)| Rewound { after, to }),
        anew_after: rows::seq_or_null(row, first + 8)?,
        block: number.zip(hash).map(|(number, hash)| BlockRef { number, hash }),
    })
}

/// `number, hash`.
fn block_ref(row: &Row, first: usize) -> Result<BlockRef, Fault> {
    Ok(BlockRef { number: block_number(row, first)?, hash: hash(row, first + 1)? })
}

fn block_number(row: &Row, column: usize) -> Result<BlockNumber, Fault> {
    BlockNumber::new(rows::count(row, column)?).map_err(|error| Fault::unreadable("block number", error))
}

fn block_number_or_null(row: &Row, column: usize) -> Result<Option<BlockNumber>, Fault> {
    if rows::is_null(row, column)? { Ok(None) } else { block_number(row, column).map(Some) }
}

fn log(row: &Row, column: usize) -> Result<u32, Fault> {
    rows::count(row, column)?
        .try_into()
        .map_err(|error: std::num::TryFromIntError| Fault::unreadable("log", error))
}

fn hash(row: &Row, column: usize) -> Result<BlockHash, Fault> {
    hash_or_null(row, column)?.ok_or_else(|| Fault::unreadable("block hash", "it is missing"))
}

fn hash_or_null(row: &Row, column: usize) -> Result<Option<BlockHash>, Fault> {
    let bytes: Option<&[u8]> = row.try_get(column)?;
    let hash = bytes.map(|bytes| bytes.try_into().map(BlockHash));
    hash.transpose().map_err(|error: std::array::TryFromSliceError| Fault::unreadable("block hash", error))
}

/// What stands in a column as JSON.
fn json<T: serde::de::DeserializeOwned>(row: &Row, column: usize) -> Result<T, Fault> {
    serde_json::from_str(row.try_get(column)?).map_err(|error| Fault::unreadable("JSON", error))
}
