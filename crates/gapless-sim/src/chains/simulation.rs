//! One seed of a world of chains, from its beginning to its end.

use std::collections::BTreeSet;

use super::world::ChainWorld;
use super::{ChainFault, ChainLandmark, ChainMischief};
use crate::report::variables;
use crate::{Outcome, Seeded};

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
pub type ChainOutcome = Outcome<ChainLandmark>;

/// Runs the world of chains of one seed.
pub fn simulate_chains(seed: u64, options: ChainOptions) -> ChainOutcome {
    ChainWorld::new(seed, options).run()
}

impl Seeded for ChainOptions {
    type Mischief = ChainMischief;
    type Landmark = ChainLandmark;

    const MISCHIEF: &'static [ChainMischief] = &ChainMischief::ALL;
    const REPLAY: &'static str = "chains replay";

    fn run(&self, seed: u64, is_traced: bool) -> ChainOutcome {
        simulate_chains(seed, Self { is_traced, ..self.clone() })
    }

    fn leave_out(&mut self, mischief: ChainMischief) {
        self.without.insert(mischief);
    }

    fn limit(&mut self, mischief_max: u32) {
        self.mischief_max = Some(mischief_max);
    }

    fn variables(&self) -> String {
        variables(self.fault, self.mischief_max, &self.without)
    }
}
