//! Which of the blocks that came in are new, and where they go.

use gapless_proto::{Block, BlockHash, BlockRef};

use super::{BlockRefusal, BlockTree, Placement};

/// Blocks that follow each other, on the head or at a fork.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    /// The last block that still holds, when those above it are revoked.
    pub revoke_to: Option<BlockRef>,
    /// Orphans that are kept and become canonical again, oldest first; see [`Stretch::with_adopted`].
    pub adopt: Vec<BlockHash>,
    /// Blocks that are new.
    pub blocks: Vec<Block>,
}

impl Stretch {
    /// Puts the orphans that become canonical again, as [`Stretch::adopt`] names them, before the new blocks.
    #[must_use]
    pub fn with_adopted(mut self, orphans: Vec<Block>) -> Self {
        self.blocks.splice(0..0, orphans);
        self
    }
}

/// Finds where blocks go that came in, in their order. Returns the tree as it is with them; all or none of them are taken.
///
/// With a `head`, that block is canonical in the end: so a chain comes back to a branch that it had left.
pub fn plan(
    mut tree: BlockTree,
    blocks: Vec<Block>,
    head: Option<BlockHash>,
) -> Result<(BlockTree, Vec<Stretch>), BlockRefusal> {
    let mut stretches: Vec<Stretch> = Vec::new();
    for block in blocks {
        match tree.place(block.at(), block.parent)? {
            Placement::Known => continue,
            Placement::First | Placement::OnHead => {}
            Placement::Fork { ancestor, branch } => stretches.push(fork(&mut tree, ancestor, branch)),
        }
        tree.extend(block.at(), block.parent);
        match stretches.last_mut() {
            Some(stretch) => stretch.blocks.push(block),
            None => stretches.push(Stretch { revoke_to: None, adopt: Vec::new(), blocks: vec![block] }),
        }
    }
    if let Some(head) = head {
        match tree.place_head(head).ok_or(BlockRefusal::UnknownHead)?? {
            Placement::Fork { ancestor, branch } => stretches.push(fork(&mut tree, ancestor, branch)),
            Placement::Known | Placement::First | Placement::OnHead => {}
        }
    }
    Ok((tree, stretches))
}

fn fork(tree: &mut BlockTree, ancestor: BlockRef, branch: Vec<BlockHash>) -> Stretch {
    tree.revoke_above(ancestor.number);
    for hash in &branch {
        tree.adopt(*hash);
    }
    Stretch { revoke_to: Some(ancestor), adopt: branch, blocks: Vec::new() }
}
