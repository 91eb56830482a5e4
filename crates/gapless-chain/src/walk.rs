//! From a head that a node has to the blocks that the store lacks.

use std::collections::{BTreeSet, VecDeque};

use gapless_core::BlockRefusal;
use gapless_proto::{Block, BlockHash, BlockNumber, BlockRef};

use crate::wire::Header;

#[cfg(test)]
mod tests;

/// Bounds of a [`Walk`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalkBounds {
    /// The newest canonical block of the store; `None` when it has none.
    pub have: Option<BlockRef>,
    /// Up to which height the chain never changes again, as the store knows.
    pub finalized: Option<BlockNumber>,
    /// How many heights below its head the store keeps.
    pub window: u64,
    /// How many blocks are ingested at once.
    pub batch_blocks: usize,
}

/// Walks from one head of a node down, parent by parent, to a block that the store keeps, and up again.
///
/// Ask [`Walk::want`] what to do, do it, and tell what came of it with the `handle_*` method that the [`Want`] names; until it
/// wants [`Want::Nothing`]. Heights play no part in finding a parent, since some chains leave heights out.
#[derive(Debug)]
pub struct Walk {
    bounds: WalkBounds,
    head: Header,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Whether the store keeps the head, its parent, or neither.
    LookingUp {
        path: Vec<Header>,
    },
    /// The parent of the last one in the path is on its way.
    Descending {
        path: Vec<Header>,
    },
    /// These are new, oldest first; the events of the first few are on their way.
    Climbing {
        path: VecDeque<Header>,
    },
    /// These are being ingested; those of `path` come after them.
    Ingesting {
        blocks: Vec<Block>,
        path: VecDeque<Header>,
    },
    Done(Outcome),
}

/// What a walk wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Want {
    /// Ask the store which of these blocks it keeps, and call [`Walk::handle_kept`].
    Kept(Vec<BlockHash>),
    /// Ask a node for the header of this hash, and call [`Walk::handle_header`].
    Header(BlockHash),
    /// Ask a node for the events of these blocks, and call [`Walk::handle_blocks`] with all of them in the same order.
    Blocks(Vec<Header>),
    /// Hand these to the store, and call [`Walk::handle_ingested`] or [`Walk::handle_refusal`].
    Ingest {
        /// Oldest first.
        blocks: Vec<Block>,
        /// The block that is the newest in the end.
        head: Option<BlockHash>,
    },
    /// It is over.
    Nothing(Outcome),
}

/// How a walk ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The store holds the head.
    Arrived,
    /// The store holds more than the node shows, and nothing contradicts: the node lags.
    Lags,
    /// The node is below the store and shows none of its blocks: it isn't synced yet, or it is of another chain.
    Behind {
        /// The newest block of the store.
        have: BlockRef,
    },
    /// The chain or the store changed meanwhile: begin again.
    Moved,
    /// The node contradicts what can't be taken back any more.
    DeepReorg {
        /// The lowest block that a reorg may leave as the last that holds.
        floor: BlockNumber,
    },
    /// The node's blocks can't be a chain.
    Nonsense,
}

impl Walk {
    /// Begins with a head that a node has.
    pub fn new(bounds: WalkBounds, head: Header) -> Self {
        let state = match bounds.have {
            None => State::Climbing { path: VecDeque::from([head.clone()]) },
            Some(have) if have.hash == head.at.hash => State::Done(Outcome::Arrived),
            // As nearly always: nothing has to be looked up.
            Some(have) if have.hash == head.parent => {
                State::Climbing { path: VecDeque::from([head.clone()]) }
            }
            Some(_) => State::LookingUp { path: vec![head.clone()] },
        };
        Self { bounds, head, state }
    }

    /// What to do next.
    pub fn want(&self) -> Want {
        match &self.state {
            State::LookingUp { path } => {
                let newest = path.last().expect("a path has a block");
                Want::Kept(vec![newest.at.hash, newest.parent])
            }
            State::Descending { path } => Want::Header(path.last().expect("a path has a block").parent),
            State::Climbing { path } => {
                Want::Blocks(path.iter().take(self.bounds.batch_blocks).cloned().collect())
            }
            State::Ingesting { blocks, path } => {
                // Between two batches the last block so far is the newest.
                let head = path.is_empty().then_some(self.head.at.hash);
                Want::Ingest { blocks: blocks.clone(), head }
            }
            State::Done(outcome) => Want::Nothing(*outcome),
        }
    }

    /// Takes in which of the blocks the store keeps, and whether they are canonical.
    pub fn handle_kept(&mut self, kept: &[(BlockHash, bool)]) {
        let State::LookingUp { path } = &mut self.state else { return };
        let mut path = std::mem::take(path);
        let newest = path.last().expect("a path has a block");
        let of = |hash| kept.iter().find(|(kept, _)| *kept == hash).map(|(_, is_canonical)| *is_canonical);
        self.state = match (of(newest.at.hash), of(newest.parent)) {
            (Some(true), _) if path.len() == 1 => State::Done(Outcome::Lags),
            (Some(_), _) => {
                path.pop();
                self.climb(path)
            }
            (None, Some(_)) => self.climb(path),
            (None, None) if newest.at.number <= self.bounds.floor() => State::Done(self.found_nothing()),
            (None, None) => State::Descending { path },
        };
    }

    /// Takes in a header; `None` when no node has it any more.
    pub fn handle_header(&mut self, header: Option<Header>) {
        let State::Descending { path } = &mut self.state else { return };
        let child = path.last().expect("a path has a block");
        self.state = match header {
            None => State::Done(Outcome::Moved),
            Some(header) if header.at.hash != child.parent || header.at.number >= child.at.number => {
                State::Done(Outcome::Nonsense)
            }
            Some(header) => {
                let mut path = std::mem::take(path);
                path.push(header);
                State::LookingUp { path }
            }
        };
    }

    /// Takes in the blocks that were wanted.
    pub fn handle_blocks(&mut self, blocks: Vec<Block>) {
        let State::Climbing { path } = &mut self.state else { return };
        let mut path = std::mem::take(path);
        let got: BTreeSet<BlockHash> = blocks.iter().map(|block| block.hash).collect();
        path.retain(|header| !got.contains(&header.at.hash));
        self.state = State::Ingesting { blocks, path };
    }

    /// Goes on after the store took the blocks.
    pub fn handle_ingested(&mut self) {
        let State::Ingesting { path, .. } = &mut self.state else { return };
        let path = std::mem::take(path);
        self.state = match path.is_empty() {
            true => State::Done(Outcome::Arrived),
            false => State::Climbing { path },
        };
    }

    /// Ends since the store refused the blocks.
    pub fn handle_refusal(&mut self, refusal: BlockRefusal) {
        self.state = State::Done(Outcome::of(refusal));
    }

    /// What it means that the store keeps no block of the node's. A node that is below the store may yet come to those blocks.
    fn found_nothing(&self) -> Outcome {
        match self.bounds.have {
            Some(have) if self.head.at.number < have.number => Outcome::Behind { have },
            Some(_) | None => Outcome::DeepReorg { floor: self.bounds.floor() },
        }
    }

    /// Turns around. `path` is newest first and may be empty, when the head itself is kept.
    fn climb(&self, path: Vec<Header>) -> State {
        if path.is_empty() {
            return State::Ingesting { blocks: Vec::new(), path: VecDeque::new() };
        }
        State::Climbing { path: path.into_iter().rev().collect() }
    }
}

impl Outcome {
    /// What a refusal of the store means.
    pub(crate) fn of(refusal: BlockRefusal) -> Self {
        match refusal {
            BlockRefusal::MissingParent { .. } | BlockRefusal::UnknownHead => Self::Moved,
            BlockRefusal::NotAboveParent { .. } => Self::Nonsense,
            BlockRefusal::DeepReorg { floor } => Self::DeepReorg { floor },
            BlockRefusal::TooOld { oldest } => Self::DeepReorg { floor: oldest },
        }
    }
}

impl WalkBounds {
    /// The height at and below which nothing can be taken back.
    fn floor(&self) -> BlockNumber {
        let oldest = self.have.map(|have| have.number.below(self.window)).unwrap_or_default();
        oldest.max(self.finalized.unwrap_or_default())
    }
}
