//! What the follower is told to do.

use std::time::Duration;

use gapless_proto::{BlockHash, ChainId};
use gapless_store::INGESTION_BLOCKS_MAX;

use crate::node::NodeUrl;
use crate::route::Start;

/// What to follow, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowConfig {
    /// Which chain; nodes of another are refused.
    pub chain: ChainId,
    /// The hash of its block 0. Without it the first node that answers says what it is, and the others must agree.
    pub genesis: Option<BlockHash>,
    /// The nodes, the preferred one first.
    pub nodes: Vec<NodeUrl>,
    /// With which block a feed begins that has none.
    pub start: Start,
    /// How many heights below the head the store keeps for reorgs.
    pub window: u64,
    /// How long until a node is asked for its head though it hasn't announced one: a head that falls is never announced.
    pub poll: Duration,
    /// How long a node may take for one answer.
    pub request_timeout: Duration,
    /// The most bytes of one answer of a node. A longer one counts as a range that is too large.
    pub answer_bytes_max: usize,
    /// How far below the head blocks are fetched one by one; older ones are fetched by ranges.
    pub live_blocks: u64,
    /// The most blocks of a range, and of one ingestion; at most [`INGESTION_BLOCKS_MAX`].
    pub range_blocks_max: u64,
    /// How long the head of a node may stand still before the next node is asked.
    pub stall_timeout: Duration,
}

/// Why a configuration can't be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// There is no node.
    #[error("no node is given; name at least one by its address")]
    NoNode,
    /// Blocks would be forgotten before they are followed.
    #[error(
        "a window of {window} blocks is less than the {live_blocks} that are followed one by one; raise it"
    )]
    Window {
        /// The window.
        window: u64,
        /// The blocks that are followed one by one.
        live_blocks: u64,
    },
    /// Ranges are too long or empty.
    #[error("a range has 1 to {INGESTION_BLOCKS_MAX} blocks, not {0}")]
    Range(u64),
}

impl FollowConfig {
    /// Follows a chain from its newest block on, with bounds that fit most chains.
    pub fn new(chain: ChainId, nodes: Vec<NodeUrl>) -> Self {
        Self {
            chain,
            genesis: None,
            nodes,
            start: Start::Head,
            window: 1_024,
            poll: Duration::from_secs(4),
            request_timeout: Duration::from_secs(10),
            answer_bytes_max: 64 << 20,
            live_blocks: 64,
            range_blocks_max: INGESTION_BLOCKS_MAX as u64,
            stall_timeout: Duration::from_secs(60),
        }
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.nodes.is_empty() {
            return Err(ConfigError::NoNode);
        }
        if self.window < self.live_blocks.max(1) {
            return Err(ConfigError::Window { window: self.window, live_blocks: self.live_blocks });
        }
        if !(1..=INGESTION_BLOCKS_MAX as u64).contains(&self.range_blocks_max) {
            return Err(ConfigError::Range(self.range_blocks_max));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Chain behaviour 14
    #[test]
    fn bounds_that_can_not_work_are_refused_with_what_to_do() {
        let good = FollowConfig::new(ChainId::new(u64::MAX), vec!["http://localhost".parse().unwrap()]);
        assert_eq!(good.check(), Ok(()));
        let no_node = FollowConfig { nodes: Vec::new(), ..good };
        assert_eq!(no_node.check(), Err(ConfigError::NoNode));
        let narrow = FollowConfig { window: 63, ..good.clone() };
        assert_eq!(narrow.check(), Err(ConfigError::Window { window: 63, live_blocks: 64 }));
        let none = FollowConfig { window: 0, live_blocks: 0, ..good.clone() };
        assert!(none.check().is_err());
        for blocks in [0, 1_001] {
            let range = FollowConfig { range_blocks_max: blocks, ..good.clone() };
            assert_eq!(range.check(), Err(ConfigError::Range(blocks)));
        }
    }
}
