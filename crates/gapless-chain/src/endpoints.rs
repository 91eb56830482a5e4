//! Which of several nodes is asked.

use std::time::{Duration, Instant};

use gapless_core::{Backoff, BackoffConfig};

use crate::errors::Trouble;

/// One node is asked until it fails; then the next that is ready. None is given up for good.
#[derive(Debug)]
pub struct Endpoints {
    endpoints: Vec<Endpoint>,
    current: usize,
}

#[derive(Debug)]
struct Endpoint {
    backoff: Backoff,
    not_before: Option<Instant>,
}

/// Whom to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// This one.
    Ask(usize),
    /// Nobody until then.
    Wait(Instant),
}

/// How long nodes are left alone that failed.
const PAUSES: BackoffConfig =
    BackoffConfig { base: Duration::from_millis(250), cap: Duration::from_secs(30) };
/// How long one is left alone that somebody has to mend.
const FATAL_PAUSE: Duration = Duration::from_secs(30);
/// The longest pause that a node may ask for; more looks like a mistake.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

impl Endpoints {
    /// So many nodes; pauses are spread by `seed`.
    pub fn new(count: usize, seed: u64) -> Self {
        let endpoint = |index| Endpoint { backoff: Backoff::new(PAUSES, seed ^ index), not_before: None };
        Self { endpoints: (0..count as u64).map(endpoint).collect(), current: 0 }
    }

    /// Whom to ask: whoever answered last, otherwise the next that is ready.
    pub fn choose(&mut self, now: Instant) -> Choice {
        let count = self.endpoints.len();
        let mut candidates = (0..count).map(|step| (self.current + step) % count);
        let ready = |index: &usize| self.endpoints[*index].not_before.is_none_or(|then| then <= now);
        if let Some(index) = candidates.find(ready) {
            self.current = index;
            return Choice::Ask(index);
        }
        let soonest = self.endpoints.iter().filter_map(|endpoint| endpoint.not_before).min();
        Choice::Wait(soonest.unwrap_or(now))
    }

    /// A node answered all that it was asked.
    pub fn handle_success(&mut self, index: usize) {
        let endpoint = &mut self.endpoints[index];
        endpoint.backoff.reset();
        endpoint.not_before = None;
    }

    /// A node failed. Returns for how long it is left alone.
    pub fn handle_failure(&mut self, index: usize, trouble: Trouble, now: Instant) -> Duration {
        let endpoint = &mut self.endpoints[index];
        let pause = endpoint.backoff.next_delay();
        let pause = match trouble {
            Trouble::RateLimited { retry_after: Some(wanted) } => pause.max(wanted.min(RETRY_AFTER_MAX)),
            Trouble::Fatal | Trouble::Unsupported => FATAL_PAUSE,
            Trouble::RateLimited { retry_after: None }
            | Trouble::RangeTooLarge(_)
            | Trouble::UnknownBlock
            | Trouble::NullRound
            | Trouble::TimedOut
            | Trouble::Passing
            | Trouble::Untrustworthy => pause,
        };
        endpoint.not_before = Some(now + pause);
        pause
    }

    /// A node answers, but shows nothing new: the next one may. The node stays ready.
    pub fn handle_stall(&mut self, index: usize) {
        self.current = (index + 1) % self.endpoints.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Chain behaviour 11
    #[test]
    fn the_next_node_is_asked_when_one_fails_and_stays_until_it_fails() {
        let (mut endpoints, now) = (Endpoints::new(2, 1), Instant::now());
        assert_eq!(endpoints.choose(now), Choice::Ask(0));
        endpoints.handle_failure(0, Trouble::Passing, now);
        assert_eq!(endpoints.choose(now), Choice::Ask(1));
        assert_eq!(endpoints.choose(now + Duration::from_secs(60)), Choice::Ask(1));
        endpoints.handle_failure(1, Trouble::Passing, now + Duration::from_secs(60));
        assert_eq!(endpoints.choose(now + Duration::from_secs(60)), Choice::Ask(0));
    }

    // Chain behaviour 11
    #[test]
    fn no_node_is_lost_for_good() {
        for trouble in [Trouble::Fatal, Trouble::Untrustworthy, Trouble::RateLimited { retry_after: None }] {
            let (mut endpoints, mut now) = (Endpoints::new(1, 1), Instant::now());
            for _ in 0..50 {
                endpoints.handle_failure(0, trouble, now);
                let Choice::Wait(then) = endpoints.choose(now) else { panic!("{trouble:?} costs no pause") };
                assert!(then - now <= Duration::from_secs(45), "{trouble:?}");
                now = then;
                assert_eq!(endpoints.choose(now), Choice::Ask(0));
            }
        }
    }

    // Chain behaviour 11
    #[test]
    fn a_node_that_says_when_to_come_back_is_left_alone_until_then() {
        let (mut endpoints, now) = (Endpoints::new(1, 1), Instant::now());
        let wanted = |seconds| Trouble::RateLimited { retry_after: Some(Duration::from_secs(seconds)) };
        endpoints.handle_failure(0, wanted(7), now);
        assert_eq!(endpoints.choose(now), Choice::Wait(now + Duration::from_secs(7)));
        endpoints.handle_failure(0, wanted(u64::MAX), now);
        assert_eq!(endpoints.choose(now), Choice::Wait(now + RETRY_AFTER_MAX));
    }

    #[test]
    fn pauses_grow_until_the_node_answers() {
        let (mut endpoints, now) = (Endpoints::new(1, 1), Instant::now());
        let first = endpoints.handle_failure(0, Trouble::Passing, now);
        let longest = (0..9).map(|_| endpoints.handle_failure(0, Trouble::Passing, now)).max().unwrap();
        assert!(first < Duration::from_millis(400) && longest > Duration::from_secs(10));
        endpoints.handle_success(0);
        assert!(endpoints.handle_failure(0, Trouble::Passing, now) < Duration::from_millis(400));
    }

    #[test]
    fn a_node_that_shows_nothing_new_makes_way_and_may_be_asked_again() {
        let (mut endpoints, now) = (Endpoints::new(2, 1), Instant::now());
        endpoints.handle_stall(0);
        assert_eq!(endpoints.choose(now), Choice::Ask(1));
        endpoints.handle_stall(1);
        assert_eq!(endpoints.choose(now), Choice::Ask(0));
    }
}
