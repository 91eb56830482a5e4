//! Whether the peer of a connection is still there.

use std::time::{Duration, Instant};

/// Times of a [`Heartbeat`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeartbeatConfig {
    /// After how much silence the peer is asked.
    pub ping_after: Duration,
    /// How long it may take to answer.
    pub give_up_after: Duration,
}

impl Default for HeartbeatConfig {
    fn default() -> Self {
        Self { ping_after: Duration::from_secs(25), give_up_after: Duration::from_secs(10) }
    }
}

/// Decides when to ask a peer whether it is alive, and when to give it up.
///
/// Anything that is received counts as a sign of life. A peer that is gone without a word is given up after
/// `ping_after + give_up_after`. A timer that fires far too late (the machine slept, or was starved) proves nothing about the
/// peer, so it is asked once more before it is given up.
#[derive(Debug, Clone)]
pub struct Heartbeat {
    config: HeartbeatConfig,
    state: State,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Heard { at: Instant },
    Asked { at: Instant, once_more: bool },
}

/// What a [`Heartbeat`] wants done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beat {
    /// Send a `ping`.
    Ping,
    /// End the connection: the peer is gone.
    GiveUp,
}

impl Heartbeat {
    /// Starts as if the peer had been heard `now`.
    pub fn new(config: HeartbeatConfig, now: Instant) -> Self {
        Self { config, state: State::Heard { at: now } }
    }

    /// Something arrived from the peer.
    pub fn handle_received(&mut self, now: Instant) {
        self.state = State::Heard { at: now };
    }

    /// The machine may have slept: asks at once, and gives up if no answer comes.
    pub fn handle_wake(&mut self, now: Instant) -> Beat {
        self.state = State::Asked { at: now, once_more: false };
        Beat::Ping
    }

    /// Time has passed; says what is due, if anything.
    pub fn handle_timeout(&mut self, now: Instant) -> Option<Beat> {
        let due = self.poll_timeout();
        if now < due {
            return None;
        }
        match self.state {
            State::Heard { .. } => {
                self.state = State::Asked { at: now, once_more: true };
                Some(Beat::Ping)
            }
            State::Asked { once_more: true, .. } if now >= due + self.config.give_up_after => {
                Some(self.handle_wake(now))
            }
            State::Asked { .. } => Some(Beat::GiveUp),
        }
    }

    /// When [`Self::handle_timeout`] has something to say.
    pub fn poll_timeout(&self) -> Instant {
        match self.state {
            State::Heard { at } => at + self.config.ping_after,
            State::Asked { at, .. } => at + self.config.give_up_after,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Behaviour 16
    #[test]
    fn a_silent_peer_is_asked_after_25_s_and_given_up_after_35_s() {
        let start = start();
        let mut heartbeat = Heartbeat::new(HeartbeatConfig::default(), start);

        assert_eq!(heartbeat.handle_timeout(start + secs(24)), None);
        assert_eq!(heartbeat.handle_timeout(start + secs(25)), Some(Beat::Ping));
        assert_eq!(heartbeat.handle_timeout(start + secs(34)), None);
        assert_eq!(heartbeat.handle_timeout(start + secs(35)), Some(Beat::GiveUp));
    }

    #[test]
    fn whatever_is_received_keeps_the_connection() {
        let start = start();
        let mut heartbeat = Heartbeat::new(HeartbeatConfig::default(), start);

        heartbeat.handle_timeout(start + secs(25));
        heartbeat.handle_received(start + secs(26));

        assert_eq!(heartbeat.handle_timeout(start + secs(35)), None);
        assert_eq!(heartbeat.poll_timeout(), start + secs(51));
    }

    #[test]
    fn a_timer_that_fires_far_too_late_asks_once_more_but_only_once() {
        let start = start();
        let mut heartbeat = Heartbeat::new(HeartbeatConfig::default(), start);
        heartbeat.handle_timeout(start + secs(25));

        assert_eq!(heartbeat.handle_timeout(start + secs(3_600)), Some(Beat::Ping));
        assert_eq!(heartbeat.handle_timeout(start + secs(9_999)), Some(Beat::GiveUp));
    }

    #[test]
    fn after_a_wake_the_peer_has_10_s_to_answer() {
        let start = start();
        let mut heartbeat = Heartbeat::new(HeartbeatConfig::default(), start);

        assert_eq!(heartbeat.handle_wake(start + secs(1)), Beat::Ping);
        assert_eq!(heartbeat.handle_timeout(start + secs(11)), Some(Beat::GiveUp));
    }

    #[expect(clippy::disallowed_methods, reason = "where a test's time starts doesn't matter")]
    fn start() -> Instant {
        Instant::now()
    }

    const fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }
}
