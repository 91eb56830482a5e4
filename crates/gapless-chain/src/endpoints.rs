//! Which of several nodes is asked.

use std::time::{Duration, Instant};

use gapless_core::{Backoff, BackoffConfig};
use gapless_proto::BlockRef;

use crate::errors::Trouble;

/// One node is asked until it fails; then the next that is ready. None is given up for good.
#[derive(Debug)]
pub struct Endpoints {
    endpoints: Vec<Endpoint>,
    current: usize,
    stall_timeout: Duration,
}

#[derive(Debug)]
struct Endpoint {
    backoff: Backoff,
    not_before: Option<Instant>,
    /// How often it has failed since it last answered all.
    failures: u32,
    /// Its head, and since when that stands still.
    head: Option<(BlockRef, Instant)>,
}

/// Whom to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// This one.
    Ask(usize),
    /// Nobody until then.
    Wait(Instant),
}

/// A node failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// For how long it is left alone.
    pub pause: Duration,
    /// How often it has failed in a row, from 1.
    pub failures: u32,
}

/// How long nodes are left alone that failed.
const PAUSES: BackoffConfig =
    BackoffConfig { base: Duration::from_millis(250), cap: Duration::from_secs(30) };
/// How long one is left alone that somebody has to mend.
const FATAL_PAUSE: Duration = Duration::from_secs(30);
/// The longest pause that a node may ask for; more looks like a mistake.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

impl Endpoints {
    /// So many nodes; pauses are spread by `seed`. A node whose head stands still for `stall_timeout` makes way for another.
    pub fn new(count: usize, stall_timeout: Duration, seed: u64) -> Self {
        let endpoint = |index| Endpoint {
            backoff: Backoff::new(PAUSES, seed ^ index),
            not_before: None,
            failures: 0,
            head: None,
        };
        Self { endpoints: (0..count as u64).map(endpoint).collect(), current: 0, stall_timeout }
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

    /// A node answered all that it was asked. Returns how often in a row it had failed before.
    pub fn handle_success(&mut self, index: usize) -> u32 {
        let endpoint = &mut self.endpoints[index];
        endpoint.backoff.reset();
        endpoint.not_before = None;
        std::mem::take(&mut endpoint.failures)
    }

    /// A node showed its head. Returns whether it makes way for the next one, since the head has stood still for too long; the node
    /// stays ready.
    pub fn handle_head(&mut self, index: usize, head: BlockRef, now: Instant) -> bool {
        let count = self.endpoints.len();
        let endpoint = &mut self.endpoints[index];
        match endpoint.head {
            Some((same, since)) if same == head => {
                let is_stalled = count > 1 && now.saturating_duration_since(since) >= self.stall_timeout;
                if is_stalled {
                    endpoint.head = Some((head, now));
                    self.current = (index + 1) % count;
                }
                is_stalled
            }
            Some(_) | None => {
                endpoint.head = Some((head, now));
                false
            }
        }
    }

    /// A node failed.
    pub fn handle_failure(&mut self, index: usize, trouble: Trouble, now: Instant) -> Failure {
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
        endpoint.failures = endpoint.failures.saturating_add(1);
        // When it comes back, its head may stand still for as long as any other.
        endpoint.head = None;
        Failure { pause, failures: endpoint.failures }
    }
}

#[cfg(test)]
mod tests {
    use gapless_proto::{BlockHash, BlockNumber};

    use super::*;

    // Chain behaviour 11
    #[test]
    fn the_next_node_is_asked_when_one_fails_and_stays_until_it_fails() {
        let (mut endpoints, now) = (Endpoints::new(2, STALL, 1), Instant::now());
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
            let (mut endpoints, mut now) = (Endpoints::new(1, STALL, 1), Instant::now());
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
        let (mut endpoints, now) = (Endpoints::new(1, STALL, 1), Instant::now());
        let wanted = |seconds| Trouble::RateLimited { retry_after: Some(Duration::from_secs(seconds)) };
        endpoints.handle_failure(0, wanted(7), now);
        assert_eq!(endpoints.choose(now), Choice::Wait(now + Duration::from_secs(7)));
        endpoints.handle_failure(0, wanted(u64::MAX), now);
        assert_eq!(endpoints.choose(now), Choice::Wait(now + RETRY_AFTER_MAX));
    }

    #[test]
    fn pauses_grow_until_the_node_answers_and_failures_are_counted_until_then() {
        let (mut endpoints, now) = (Endpoints::new(1, STALL, 1), Instant::now());
        let first = endpoints.handle_failure(0, Trouble::Passing, now);
        assert!(first.pause < Duration::from_millis(400) && first.failures == 1);
        let longest = (0..9).map(|_| endpoints.handle_failure(0, Trouble::Passing, now).pause).max();
        assert!(longest.unwrap() > Duration::from_secs(10));
        assert_eq!(endpoints.handle_success(0), 10);
        assert_eq!(endpoints.handle_success(0), 0);
        let again = endpoints.handle_failure(0, Trouble::Passing, now);
        assert!(again.pause < Duration::from_millis(400) && again.failures == 1);
    }

    #[test]
    fn a_node_that_shows_nothing_new_makes_way_and_may_be_asked_again() {
        let (mut endpoints, start) = (Endpoints::new(2, STALL, 1), Instant::now());
        for (step, index) in [(0, 0), (1, 1), (2, 0)] {
            assert_eq!(endpoints.choose(start), Choice::Ask(index));
            endpoints.handle_success(index);
            let begun = start + STALL * 2 * step;
            assert!(!endpoints.handle_head(index, block(step), begun));
            let is_early =
                endpoints.handle_head(index, block(step), begun + STALL - Duration::from_millis(1));
            assert!(!is_early);
            assert!(endpoints.handle_head(index, block(step), begun + STALL));
        }
    }

    #[test]
    fn a_head_that_moves_or_a_node_that_comes_back_begins_anew_and_a_single_node_never_makes_way() {
        let (mut endpoints, start) = (Endpoints::new(2, STALL, 1), Instant::now());
        assert!(!endpoints.handle_head(0, block(7), start));
        assert!(!endpoints.handle_head(0, block(8), start + STALL));
        assert!(!endpoints.handle_head(0, block(7), start + STALL + STALL / 2));
        endpoints.handle_failure(0, Trouble::Passing, start + STALL * 2);
        assert!(!endpoints.handle_head(0, block(7), start + STALL * 3));
        assert_eq!(endpoints.choose(start + STALL * 3), Choice::Ask(0));

        let mut single = Endpoints::new(1, STALL, 1);
        for times in 0..5 {
            assert!(!single.handle_head(0, block(7), start + STALL * times));
        }
    }

    const STALL: Duration = Duration::from_secs(60);

    fn block(number: u32) -> BlockRef {
        BlockRef { number: BlockNumber::new(number.into()).unwrap(), hash: BlockHash([7; 32]) }
    }
}
