//! How long a tail waits for what may never come.

use std::time::{Duration, Instant};

use gapless_client::ClientEvent;

/// Decides when a tail has waited for long enough.
#[derive(Debug)]
pub(super) struct Patience {
    /// The longest wait; without one it waits for ever.
    limit: Option<Duration>,
    waits_for: WaitsFor,
    deadline: Option<Instant>,
}

/// What it is that mustn't take longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitsFor {
    /// A connection, each time that there is none.
    Connection,
    /// The end, whatever happens until then.
    End,
}

impl Patience {
    pub(super) fn new(limit: Option<Duration>, waits_for: WaitsFor, now: Instant) -> Self {
        Self { limit, waits_for, deadline: limit.and_then(|limit| now.checked_add(limit)) }
    }

    pub(super) fn handle_event(&mut self, event: &ClientEvent, now: Instant) {
        if self.waits_for == WaitsFor::End {
            return;
        }
        match event {
            ClientEvent::Connected { .. } => self.deadline = None,
            ClientEvent::Disconnected { .. } if self.deadline.is_none() => {
                self.deadline = self.limit.and_then(|limit| now.checked_add(limit));
            }
            ClientEvent::Disconnected { .. }
            | ClientEvent::Entries { .. }
            | ClientEvent::UpToDate { .. }
            | ClientEvent::Reset { .. }
            | ClientEvent::Refused { .. }
            | ClientEvent::Sent(_)
            | ClientEvent::SendRefused(_)
            | ClientEvent::TokenExpiring { .. }
            | ClientEvent::Topics { .. }
            | ClientEvent::TopicsRefused { .. }
            | ClientEvent::Fault(_)
            | ClientEvent::Stopped(_) => {}
        }
    }

    /// When it is over.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.deadline
    }
}

#[cfg(test)]
mod tests {
    use gapless_client::DisconnectReason;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(3);
    const LATER: Duration = Duration::from_secs(100);

    #[test]
    fn a_connection_is_waited_for_anew_each_time_that_there_is_none() {
        let start = Instant::now();
        let mut patience = Patience::new(Some(LIMIT), WaitsFor::Connection, start);
        patience.handle_event(&disconnected(), start + LIMIT / 2);
        assert_eq!(patience.poll_timeout(), Some(start + LIMIT), "an attempt more gives no time more");

        patience.handle_event(&connected(), start + LIMIT / 2);
        assert_eq!(patience.poll_timeout(), None);
        patience.handle_event(&disconnected(), start + LATER);
        assert_eq!(patience.poll_timeout(), Some(start + LATER + LIMIT));
    }

    #[test]
    fn the_end_is_not_put_off_by_a_connection() {
        let start = Instant::now();
        let mut patience = Patience::new(Some(LIMIT), WaitsFor::End, start);
        patience.handle_event(&connected(), start);
        patience.handle_event(&disconnected(), start + LIMIT / 2);
        assert_eq!(patience.poll_timeout(), Some(start + LIMIT));
    }

    #[test]
    fn without_a_limit_it_waits_for_ever() {
        let start = Instant::now();
        let mut patience = Patience::new(None, WaitsFor::Connection, start);
        patience.handle_event(&disconnected(), start);
        assert_eq!(patience.poll_timeout(), None);
    }

    fn connected() -> ClientEvent {
        crate::connection::tests::connected()
    }

    fn disconnected() -> ClientEvent {
        ClientEvent::Disconnected { reason: DisconnectReason::ConnectTimeout, retry_in: LIMIT }
    }
}
