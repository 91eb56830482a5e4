//! A range of blocks: what a node has sent, and what is read from it.

use std::collections::HashMap;

use gapless_proto::{BlockHash, BlockRef};

use crate::checks::{LogsFault, check_logs};
use crate::gather::Gathered;
use crate::node::UnreadLogs;
use crate::node::error::NodeError;
use crate::topics::Topics;
use crate::wire::{Header, Log};

/// The headers of a range, each on the one before it, and the logs that nobody has looked at.
#[derive(Debug)]
pub(crate) struct UnreadRange {
    pub(crate) headers: Vec<Header>,
    pub(crate) logs: UnreadLogs,
}

/// A block of a range.
#[derive(Debug)]
pub(crate) enum ReadBlock {
    Checked(Gathered),
    /// Its logs can't be these.
    Faulty {
        header: Header,
        fault: LogsFault,
    },
}

impl UnreadRange {
    /// The newest block; none when all heights are left out.
    pub(crate) fn last(&self) -> Option<BlockRef> {
        self.headers.last().map(|header| header.at)
    }

    /// Reads the logs, checks them and decodes the events. This takes time and waits for nothing.
    pub(crate) fn read(self, topics: &Topics) -> Result<Vec<ReadBlock>, NodeError> {
        let mut logs_of: HashMap<BlockHash, Vec<Log>> = HashMap::new();
        for log in self.logs.read()? {
            // Logs without a hash, or of another fork, belong to none of the blocks; what is missing then, the bloom tells.
            let Some(hash) = log.block_hash else { continue };
            logs_of.entry(BlockHash(hash.0)).or_default().push(log);
        }
        let blocks = self.headers.into_iter().map(|header| {
            let logs = logs_of.remove(&header.at.hash).unwrap_or_default();
            match check_logs(&header, logs, topics) {
                Ok(logs) => ReadBlock::Checked(Gathered::new(&header, &logs, topics, None)),
                Err(fault) => ReadBlock::Faulty { header, fault },
            }
        });
        Ok(blocks.collect())
    }
}
