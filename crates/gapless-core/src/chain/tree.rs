//! Where a block belongs: on the head, on a fork, or nowhere yet.

use std::collections::{BTreeMap, HashMap};

use gapless_proto::{BlockHash, BlockNumber, BlockRef};

/// The blocks of a chain that are kept: the canonical ones and their orphaned siblings, down to the edge of a window.
#[derive(Debug, Clone, Default)]
pub struct BlockTree {
    blocks: HashMap<BlockHash, Kept>,
    canonical: BTreeMap<BlockNumber, BlockHash>,
    finalized: Option<BlockNumber>,
}

#[derive(Debug, Clone, Copy)]
struct Kept {
    number: BlockNumber,
    parent: BlockHash,
}

/// Where a block belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// It is there already.
    Known,
    /// It is the first of all.
    First,
    /// On the head.
    OnHead,
    /// Everything above `ancestor` is revoked; the orphans of `branch` are canonical again, oldest first, and it follows them.
    Fork {
        /// The last block that still holds.
        ancestor: BlockRef,
        /// Blocks that are kept and become canonical.
        branch: Vec<BlockHash>,
    },
}

/// Why a block has no place. Nothing changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BlockRefusal {
    /// Its parent isn't here.
    #[error("the parent of the block isn't here; send it first (the newest block here is {have})")]
    MissingParent {
        /// The newest block that is.
        have: BlockRef,
    },
    /// Its height isn't above its parent's.
    #[error("a block lies above its parent, which has the number {parent}")]
    NotAboveParent {
        /// The parent's height.
        parent: BlockNumber,
    },
    /// It would take back more than may be taken back.
    #[error(
        "this contradicts block {floor}, which is finalized or the oldest that is kept; the feed has to begin anew"
    )]
    DeepReorg {
        /// The lowest block that a reorg may leave as the last that holds.
        floor: BlockNumber,
    },
    /// The block that should be the head isn't here.
    #[error("the block that should be the head isn't here; send it, too")]
    UnknownHead,
    /// It is older than all that is kept, so that nothing can be told about it.
    #[error(
        "the block is older than block {oldest}, the oldest that is kept; begin with that one's successor"
    )]
    TooOld {
        /// The oldest block that is kept.
        oldest: BlockNumber,
    },
}

impl BlockTree {
    /// The newest canonical block.
    pub fn head(&self) -> Option<BlockRef> {
        let (number, hash) = self.canonical.last_key_value()?;
        Some(BlockRef { number: *number, hash: *hash })
    }

    /// The height up to which the chain never changes again, as far as is known.
    pub fn finalized(&self) -> Option<BlockNumber> {
        self.finalized
    }

    /// The canonical block of a height, or the next below it if the chain has left that out.
    pub fn canonical_at(&self, number: BlockNumber) -> Option<BlockRef> {
        let (number, hash) = self.canonical.range(..=number).next_back()?;
        Some(BlockRef { number: *number, hash: *hash })
    }

    /// Whether a block is kept and canonical.
    pub fn is_canonical(&self, block: BlockRef) -> bool {
        self.canonical.get(&block.number) == Some(&block.hash)
    }

    /// Finds where a block belongs that has this parent.
    ///
    /// A block that is known stays what it is, an orphan too: a late repetition is no reorg.
    pub fn place(&self, block: BlockRef, parent: BlockHash) -> Result<Placement, BlockRefusal> {
        if self.blocks.contains_key(&block.hash) {
            return Ok(Placement::Known);
        }
        let Some(head) = self.head() else {
            return Ok(Placement::First);
        };
        let Some(kept) = self.blocks.get(&parent) else {
            return Err(self.unplaced(block, head));
        };
        if block.number <= kept.number {
            return Err(BlockRefusal::NotAboveParent { parent: kept.number });
        }
        if parent == head.hash {
            return Ok(Placement::OnHead);
        }
        self.fork_through(parent)
    }

    /// Finds what has to happen for a kept block to be the head.
    ///
    /// A canonical block below the head is no reason for a reorg: whoever sees it as the newest lags. `None` when it isn't kept.
    pub fn place_head(&self, head: BlockHash) -> Option<Result<Placement, BlockRefusal>> {
        let kept = self.blocks.get(&head)?;
        if self.is_canonical(BlockRef { number: kept.number, hash: head }) {
            return Some(Ok(Placement::Known));
        }
        Some(self.fork_through(head))
    }

    /// Keeps a block on top of the head.
    ///
    /// # Panics
    ///
    /// When it isn't above the head.
    pub fn extend(&mut self, block: BlockRef, parent: BlockHash) {
        assert!(self.head().is_none_or(|head| head.number < block.number), "blocks are added on top");
        self.canonical.insert(block.number, block.hash);
        self.blocks.insert(block.hash, Kept { number: block.number, parent });
    }

    /// Makes a kept orphan canonical, on top of the head.
    ///
    /// # Panics
    ///
    /// When it isn't kept, or isn't above the head.
    pub fn adopt(&mut self, hash: BlockHash) {
        let kept = self.blocks[&hash];
        self.extend(BlockRef { number: kept.number, hash }, kept.parent);
    }

    /// Keeps a block that isn't canonical.
    pub fn insert_orphan(&mut self, block: BlockRef, parent: BlockHash) {
        self.blocks.insert(block.hash, Kept { number: block.number, parent });
    }

    /// Makes orphans of all canonical blocks above `ancestor`.
    pub fn revoke_above(&mut self, ancestor: BlockNumber) {
        self.canonical.retain(|number, _| *number <= ancestor);
    }

    /// Notes up to which height the chain never changes again, at most up to the head: what lies above that isn't here yet. A lower one
    /// than before is passed over.
    pub fn finalize(&mut self, number: BlockNumber) {
        let Some(head) = self.head() else { return };
        self.finalized = self.finalized.max(Some(number.min(head.number)));
    }

    /// Forgets blocks below a height, but never the head.
    pub fn forget_below(&mut self, number: BlockNumber) {
        let Some(head) = self.head() else { return };
        let number = number.min(head.number);
        self.canonical = self.canonical.split_off(&number);
        self.blocks.retain(|_, kept| kept.number >= number);
    }

    fn oldest(&self) -> BlockNumber {
        self.canonical.first_key_value().map(|(number, _)| *number).unwrap_or_default()
    }

    /// The lowest block that a reorg may leave as the last that holds.
    fn floor(&self) -> BlockNumber {
        self.oldest().max(self.finalized.unwrap_or_default())
    }

    /// Why a block has no place whose parent isn't kept.
    fn unplaced(&self, block: BlockRef, have: BlockRef) -> BlockRefusal {
        let (oldest, floor) = (self.oldest(), self.floor());
        if block.number > floor {
            BlockRefusal::MissingParent { have }
        } else if block.number >= oldest {
            BlockRefusal::DeepReorg { floor }
        } else {
            BlockRefusal::TooOld { oldest }
        }
    }

    /// Walks from a kept block down to the first canonical one.
    fn fork_through(&self, tip: BlockHash) -> Result<Placement, BlockRefusal> {
        let floor = self.floor();
        let mut branch = Vec::new();
        let mut hash = tip;
        loop {
            let Some(kept) = self.blocks.get(&hash) else {
                return Err(BlockRefusal::DeepReorg { floor });
            };
            let block = BlockRef { number: kept.number, hash };
            if block.number < floor {
                return Err(BlockRefusal::DeepReorg { floor });
            }
            if self.is_canonical(block) {
                branch.reverse();
                return Ok(Placement::Fork { ancestor: block, branch });
            }
            branch.push(hash);
            hash = kept.parent;
        }
    }
}
