//! One seed of a world of chains, from its beginning to its end.

use std::collections::BTreeSet;

use super::{ChainCoverage, ChainFault, ChainMischief};
use crate::Violation;
use crate::chains::world::ChainWorld;

/// What is different from an honest world of chains.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChainOptions {
    /// What is built wrong.
    pub fault: Option<ChainFault>,
    /// Whether each step is put into words.
    pub is_traced: bool,
    /// How much mischief there is at most.
    pub mischief_max: Option<u32>,
    /// Which mischief there is not.
    pub without: BTreeSet<ChainMischief>,
}

/// How a world of chains went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainOutcome {
    /// What was broken, if anything.
    pub violation: Option<Violation>,
    /// What has happened in it.
    pub coverage: ChainCoverage,
    /// How many events it had.
    pub steps: u64,
    /// How much mischief it had.
    pub mischief: u32,
    /// Its steps in words, if they were asked for.
    pub trace: Vec<String>,
}

/// Runs the world of chains of one seed.
pub fn simulate_chains(seed: u64, options: ChainOptions) -> ChainOutcome {
    ChainWorld::new(seed, options).run()
}
