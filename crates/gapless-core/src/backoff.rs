//! How long to wait before trying again.

use std::time::Duration;

/// Bounds of a [`Backoff`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackoffConfig {
    /// The first delay, before it is spread.
    pub base: Duration,
    /// The longest delay, before it is spread.
    pub cap: Duration,
}

impl BackoffConfig {
    /// For connections: 500 ms, doubled up to 30 s.
    pub const RECONNECT: Self = Self { base: Duration::from_millis(500), cap: Duration::from_secs(30) };
    /// For requests over a connection that stands: 1 s, doubled up to 30 s.
    pub const REQUEST: Self = Self { base: Duration::from_secs(1), cap: Duration::from_secs(30) };
}

/// Delays that double up to a cap, each spread by a factor from 0.5 to 1.5 so that many clients don't come back at once.
///
/// The same seed gives the same delays.
#[derive(Debug, Clone)]
pub struct Backoff {
    config: BackoffConfig,
    attempts: u32,
    jitter: Jitter,
}

impl Backoff {
    /// Starts at the base delay.
    pub fn new(config: BackoffConfig, seed: u64) -> Self {
        Self { config, attempts: 0, jitter: Jitter(seed) }
    }

    /// The delay before the next try; the one after it is longer.
    pub fn next_delay(&mut self) -> Duration {
        let doubled = self.config.base.saturating_mul(2_u32.saturating_pow(self.attempts));
        self.attempts = self.attempts.saturating_add(1);
        doubled.min(self.config.cap).mul_f64(self.jitter.factor())
    }

    /// Falls back to the base delay, since a try has proved good.
    pub fn reset(&mut self) {
        self.attempts = 0;
    }
}

/// Dice that fall the same way for the same seed (SplitMix64).
#[derive(Debug, Clone)]
struct Jitter(u64);

impl Jitter {
    /// From 0.5 up to 1.5.
    fn factor(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let mixed = mixed ^ (mixed >> 31);
        // 53 bits are what an f64 keeps exact.
        0.5 + (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_cap_within_their_spread() {
        let mut backoff = Backoff::new(BackoffConfig::RECONNECT, 1);
        for middle_ms in [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000] {
            let delay = backoff.next_delay();
            let middle = Duration::from_millis(middle_ms);
            assert!(delay >= middle / 2 && delay < middle * 3 / 2, "{delay:?} is not around {middle:?}");
        }
    }

    #[test]
    fn delays_stay_at_the_cap_however_often_it_fails() {
        let mut backoff = Backoff::new(BackoffConfig::RECONNECT, 1);
        let longest = (0..10_000).map(|_| backoff.next_delay()).max();
        assert!(longest < Some(Duration::from_secs(45)));
    }

    #[test]
    fn a_reset_starts_over_at_the_base() {
        let mut backoff = Backoff::new(BackoffConfig::RECONNECT, 1);
        for _ in 0..10 {
            backoff.next_delay();
        }
        backoff.reset();
        assert!(backoff.next_delay() < Duration::from_millis(750));
    }

    #[test]
    fn two_clients_with_different_seeds_come_back_at_different_times() {
        let delays = |seed| {
            let mut backoff = Backoff::new(BackoffConfig::RECONNECT, seed);
            std::array::from_fn::<_, 5, _>(|_| backoff.next_delay())
        };
        assert_eq!(delays(1), delays(1));
        assert_ne!(delays(1), delays(2));
    }
}
