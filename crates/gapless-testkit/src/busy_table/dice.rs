//! Everything that is left to chance.

use std::time::Duration;

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Dice that fall the same way for the same seed and the same writer.
#[derive(Debug)]
pub(super) struct Dice(ChaCha8Rng);

impl Dice {
    pub(super) fn new(seed: u64, writer: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(writer);
        Self(rng)
    }

    /// A number from 0 up to, and not including, 100.
    pub(super) fn percent(&mut self) -> u32 {
        self.0.random_range(0..100)
    }

    /// A number from `min` up to `max`.
    pub(super) fn between(&mut self, min: usize, max: usize) -> usize {
        self.0.random_range(min..=max)
    }

    /// A number from 0 up to, and not including, 1.
    pub(super) fn fraction(&mut self) -> f64 {
        self.0.random()
    }

    /// A time up to `max`.
    pub(super) fn pause(&mut self, max: Duration) -> Duration {
        self.0.random_range(Duration::ZERO..=max)
    }
}
