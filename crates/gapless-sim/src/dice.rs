//! Everything that is left to chance.

use std::time::Duration;

use rand::Rng;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Dice that fall the same way for the same seed.
#[derive(Debug)]
pub(crate) struct Dice(ChaCha8Rng);

/// A probability in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PerMille(pub(crate) u32);

impl PerMille {
    pub(crate) const NEVER: Self = Self(0);
}

/// A duration between two others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spread {
    min: Duration,
    max: Duration,
}

impl Spread {
    pub(crate) const fn millis(min: u64, max: u64) -> Self {
        Self { min: Duration::from_millis(min), max: Duration::from_millis(max) }
    }
}

impl Dice {
    /// Dice of their own for one purpose, so that more throws for one don't change another.
    pub(crate) fn new(seed: u64, purpose: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(purpose);
        Self(rng)
    }

    pub(crate) fn seed(&mut self) -> u64 {
        self.0.random()
    }

    pub(crate) fn chance(&mut self, probability: PerMille) -> bool {
        probability > PerMille::NEVER && self.0.random_ratio(probability.0.min(1_000), 1_000)
    }

    pub(crate) fn coin(&mut self) -> bool {
        self.0.random()
    }

    /// A number from 0 up to, and not including, `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0.random_range(0..end)
    }

    /// One of several; `None` if there is none.
    pub(crate) fn pick<T: Clone>(&mut self, options: &[T]) -> Option<T> {
        if options.is_empty() {
            return None;
        }
        options.get(self.below(options.len())).cloned()
    }

    pub(crate) fn duration(&mut self, spread: Spread) -> Duration {
        self.0.random_range(spread.min..=spread.max)
    }
}
