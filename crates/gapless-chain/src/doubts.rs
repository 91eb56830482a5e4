//! Blocks whose logs are doubted, since they aren't those of their blooms.

use std::collections::{BTreeMap, BTreeSet};

use gapless_proto::BlockHash;

/// How often a node must tell logs that don't fit the bloom before it is believed, where no receipts settle it.
const DOUBTS_MAX: u32 = 3;
/// How many blocks are remembered for that.
const DOUBTED_BLOCKS_MAX: usize = 1_000;

/// How often each block has been doubted, and which ones are believed by now.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    counts: BTreeMap<BlockHash, u32>,
    believed: BTreeSet<BlockHash>,
}

impl Doubts {
    /// The blocks that have the logs that were told, whatever their blooms say.
    pub(crate) fn believed(&self) -> &BTreeSet<BlockHash> {
        &self.believed
    }

    /// Takes the blocks whose logs could not be settled.
    pub(crate) fn note(&mut self, blocks: impl IntoIterator<Item = BlockHash>) {
        if self.counts.len() >= DOUBTED_BLOCKS_MAX {
            self.clear();
        }
        for block in blocks {
            let count = self.counts.entry(block).or_default();
            *count += 1;
            if *count >= DOUBTS_MAX {
                self.believed.insert(block);
            }
        }
    }

    /// Forgets all, since the blocks were taken.
    pub(crate) fn clear(&mut self) {
        self.counts.clear();
        self.believed.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(number: u32) -> BlockHash {
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        BlockHash(bytes)
    }

    #[test]
    fn what_is_said_three_times_is_believed_of_that_block_alone() {
        let mut doubts = Doubts::default();
        doubts.note([block(1), block(2)]);
        doubts.note([block(1)]);
        assert!(doubts.believed().is_empty());
        doubts.note([block(1)]);
        assert_eq!(doubts.believed(), &BTreeSet::from([block(1)]));
        doubts.clear();
        doubts.note([block(1)]);
        assert!(doubts.believed().is_empty());
    }

    #[test]
    fn a_node_that_is_doubted_for_ever_costs_bounded_memory() {
        let mut doubts = Doubts::default();
        let most = DOUBTED_BLOCKS_MAX as u32;
        (0..3 * most).for_each(|number| doubts.note([block(number)]));
        assert!(doubts.counts.len() <= DOUBTED_BLOCKS_MAX);
    }
}
