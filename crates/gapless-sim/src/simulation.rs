//! One seed, from its beginning to its end.

use std::collections::BTreeSet;

use crate::report::variables;
use crate::world::World;
use crate::{Coverage, Fault, Landmark, Mischief, Seeded, Violation};

/// What goes wrong in a world.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Climate {
    /// Whatever the seed draws.
    #[default]
    Stormy,
    /// Nothing but lost pushes, while users talk, come and go. Every entry must then be with everyone within ten seconds.
    LossyPushes,
}

/// What is different from an honest world.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// What is built wrong.
    pub fault: Option<Fault>,
    /// What goes wrong.
    pub climate: Climate,
    /// Whether each step is put into words.
    pub is_traced: bool,
    /// How much mischief there is at most.
    pub mischief_max: Option<u32>,
    /// Which mischief there is not.
    pub without: BTreeSet<Mischief>,
}

/// How a world went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome<L = Landmark> {
    /// What was broken, if anything.
    pub violation: Option<Violation>,
    /// What has happened in it.
    pub coverage: Coverage<L>,
    /// How many events it had.
    pub steps: u64,
    /// How much mischief it had.
    pub mischief: u32,
    /// Its steps in words, if they were asked for.
    pub trace: Vec<String>,
}

/// Runs the world of one seed.
pub fn simulate(seed: u64, options: Options) -> Outcome {
    World::new(seed, options).run()
}

impl Seeded for Options {
    type Mischief = Mischief;
    type Landmark = Landmark;

    const MISCHIEF: &'static [Mischief] = &Mischief::ALL;
    const REPLAY: &'static str = "worlds replay";

    fn run(&self, seed: u64, is_traced: bool) -> Outcome {
        simulate(seed, Self { is_traced, ..self.clone() })
    }

    fn leave_out(&mut self, mischief: Mischief) {
        self.without.insert(mischief);
    }

    fn limit(&mut self, mischief_max: u32) {
        self.mischief_max = Some(mischief_max);
    }

    fn variables(&self) -> String {
        let climate = match self.climate {
            Climate::Stormy => "",
            Climate::LossyPushes => " GAPLESS_SIM_LOSSY_PUSHES=1",
        };
        variables(self.fault, self.mischief_max, &self.without) + climate
    }
}
