//! Whether the peer takes what it is given.

use std::time::{Duration, Instant};

/// Notices when a peer has taken no byte for too long.
///
/// As long as the kernel takes what is written, nothing is known of the peer: its buffer has room. Once that is full, each further
/// byte that it takes means that the peer has acknowledged one, so this is a sign of life, even of a peer that is too slow to
/// be heard because it is not read from meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stall {
    /// The kernel takes all that is written.
    Free,
    /// Something waits to be written.
    Blocked {
        /// When a byte was last taken.
        since: Instant,
        /// How many were taken until then.
        taken: u64,
    },
}

impl Stall {
    /// Something couldn't be written; `taken` bytes were since the beginning. Returns whether that is a sign of life.
    pub(super) fn handle_blocked(&mut self, taken: u64, now: Instant) -> bool {
        let progressed = match *self {
            Self::Free => false,
            Self::Blocked { taken: before, .. } if taken == before => return false,
            Self::Blocked { .. } => true,
        };
        *self = Self::Blocked { since: now, taken };
        progressed
    }

    /// All was written. Returns whether that is a sign of life.
    pub(super) fn handle_free(&mut self) -> bool {
        std::mem::replace(self, Self::Free) != Self::Free
    }

    /// When the peer is to be given up, if it takes no byte until then.
    pub(super) fn poll_timeout(&self, stall_max: Duration) -> Option<Instant> {
        match *self {
            Self::Free => None,
            Self::Blocked { since, .. } => Some(since + stall_max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALL_MAX: Duration = Duration::from_secs(30);

    #[test]
    fn a_peer_that_takes_no_byte_is_given_up_after_30_s() {
        let start = start();
        let mut stall = Stall::Free;
        stall.handle_blocked(100, start);
        stall.handle_blocked(100, start + secs(20));
        assert_eq!(stall.poll_timeout(STALL_MAX), Some(start + secs(30)));
    }

    #[test]
    fn each_byte_that_is_taken_gives_the_peer_another_30_s_and_proves_that_it_lives() {
        let start = start();
        let mut stall = Stall::Free;
        assert!(!stall.handle_blocked(100, start));
        assert!(stall.handle_blocked(101, start + secs(20)));
        assert_eq!(stall.poll_timeout(STALL_MAX), Some(start + secs(50)));
        assert!(stall.handle_free());
    }

    #[test]
    fn what_the_kernel_takes_at_once_proves_nothing() {
        let mut stall = Stall::Free;
        assert!(!stall.handle_free());
        assert_eq!(stall.poll_timeout(STALL_MAX), None);
    }

    fn start() -> Instant {
        Instant::now()
    }

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }
}
