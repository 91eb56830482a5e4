//! When a connection's token runs out.

use std::time::{Duration, Instant};

use gapless_proto::Timestamp;

/// How long before the expiry the peer is told, if the token lives that long.
const NOTICE_BEFORE: Duration = Duration::from_secs(30);

/// Decides when to tell the peer that its token runs out, and when to end the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expiry {
    /// It never does.
    Never,
    /// The peer hasn't been told yet.
    Ahead {
        /// When to tell it.
        notice_at: Instant,
        /// When the token is over.
        expires_at: Instant,
    },
    /// The peer was told.
    Told {
        /// When the token is over.
        expires_at: Instant,
    },
}

/// What an [`Expiry`] wants done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expiring {
    /// Tell the peer.
    Tell {
        /// How long the token still holds.
        expires_in: Duration,
    },
    /// End the connection.
    End,
}

impl Expiry {
    /// Of a token that runs out at `expires_at`, taken at `now`, which the clock on the wall calls `wall_now`.
    pub(super) fn new(expires_at: Option<Timestamp>, wall_now: Timestamp, now: Instant) -> Self {
        let Some(expires_at) = expires_at else {
            return Self::Never;
        };
        let life = Duration::from_millis(expires_at.get().saturating_sub(wall_now.get()));
        let Some(expires_at) = now.checked_add(life) else {
            return Self::Never;
        };
        Self::Ahead { notice_at: expires_at - NOTICE_BEFORE.min(life / 2), expires_at }
    }

    /// Time has passed; says what is due, if anything.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> Option<Expiring> {
        match *self {
            Self::Ahead { expires_at, .. } | Self::Told { expires_at } if expires_at <= now => {
                Some(Expiring::End)
            }
            Self::Ahead { notice_at, expires_at } if notice_at <= now => {
                *self = Self::Told { expires_at };
                Some(Expiring::Tell { expires_in: expires_at - now })
            }
            Self::Never | Self::Ahead { .. } | Self::Told { .. } => None,
        }
    }

    /// When [`Self::handle_timeout`] has something to say.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        match *self {
            Self::Never => None,
            Self::Ahead { notice_at, .. } => Some(notice_at),
            Self::Told { expires_at } => Some(expires_at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Behaviour 20
    #[test]
    fn the_peer_is_told_30_s_before_its_token_runs_out_and_ended_when_it_does() {
        let start = start();
        let mut expiry = expiring_in(100_000, start);

        assert_eq!(expiry.handle_timeout(start + secs(69)), None);
        assert_eq!(expiry.poll_timeout(), Some(start + secs(70)));
        let told = expiry.handle_timeout(start + secs(70));
        assert_eq!(told, Some(Expiring::Tell { expires_in: secs(30) }));
        assert_eq!(expiry.handle_timeout(start + secs(99)), None);
        assert_eq!(expiry.handle_timeout(start + secs(100)), Some(Expiring::End));
    }

    #[test]
    fn a_short_lived_token_is_announced_at_half_of_its_life() {
        let start = start();
        assert_eq!(expiring_in(20_000, start).poll_timeout(), Some(start + secs(10)));
    }

    #[test]
    fn a_token_that_has_run_out_already_ends_the_connection_at_once() {
        let start = start();
        let wall = Timestamp::new(5_000).unwrap();
        let mut expiry = Expiry::new(Some(Timestamp::new(4_000).unwrap()), wall, start);
        assert_eq!(expiry.handle_timeout(start), Some(Expiring::End));
    }

    #[test]
    fn a_token_without_expiry_never_runs_out() {
        let start = start();
        for expires_at in [None, Some(Timestamp::new((1 << 53) - 1).unwrap())] {
            let mut expiry = Expiry::new(expires_at, Timestamp::default(), start);
            assert_eq!(expiry.handle_timeout(start + secs(1_000_000)), None);
        }
    }

    fn expiring_in(millis: u64, now: Instant) -> Expiry {
        let wall = Timestamp::new(1_000).unwrap();
        Expiry::new(Some(Timestamp::new(1_000 + millis).unwrap()), wall, now)
    }

    fn start() -> Instant {
        Instant::now()
    }

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }
}
