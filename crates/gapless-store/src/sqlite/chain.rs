//! The feeds of chains.

pub(super) mod ingest;
pub(super) mod maintenance;
pub(super) mod reading;

use gapless_proto::{BlockHash, BlockNumber, BlockRef};
use rusqlite::{Connection, OptionalExtension, params};

use super::columns::Columns;
use crate::{ChainInfo, Rewound};

/// The row of a chain, with its newest block; `None` when there is none.
fn info(connection: &Connection, chain: &str) -> rusqlite::Result<Option<ChainInfo>> {
    let mut statement = connection.prepare_cached(
        "SELECT c.epoch, c.head, c.min_seq, c.finalized, c.gap_after, c.gap_to, b.number, b.hash, c.anew_after
           FROM chain c
           LEFT JOIN chain_block b
             ON b.chain = c.chain
            AND b.hash = (SELECT hash FROM chain_block
                           WHERE chain = c.chain AND canonical ORDER BY number DESC LIMIT 1)
          WHERE c.chain = ?1",
    )?;
    let info = statement.query_row(params![chain], |row| {
        let mut columns = Columns::of(row);
        Ok(ChainInfo {
            epoch: columns.epoch()?,
            head: columns.seq()?,
            min_seq: columns.seq()?,
            finalized: columns.block_number_or_null()?,
            rewound: columns
                .seq_or_null()?
                .zip(columns.seq_or_null()?)
                .map(|(after, to)| Rewound { after, to }),
            block: block_ref(&mut columns)?,
            anew_after: columns.seq_or_null()?,
        })
    });
    info.optional()
}

/// Whether what a feed that was given up has left is still being deleted.
fn is_clearing(connection: &Connection, chain: &str) -> rusqlite::Result<bool> {
    let mut statement = connection.prepare_cached("SELECT clearing FROM chain WHERE chain = ?1")?;
    let clearing = statement.query_row(params![chain], |row| Columns::of(row).flag()).optional()?;
    Ok(clearing.unwrap_or_default())
}

/// `number, hash`, or two NULLs.
fn block_ref(columns: &mut Columns<'_>) -> rusqlite::Result<Option<BlockRef>> {
    let (number, hash): (Option<BlockNumber>, Option<BlockHash>) =
        (columns.block_number_or_null()?, columns.hash_or_null()?);
    Ok(number.zip(hash).map(|(number, hash)| BlockRef { number, hash }))
}
