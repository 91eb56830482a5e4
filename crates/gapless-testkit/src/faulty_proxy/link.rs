//! How slow and narrow a network is.

use std::time::{Duration, Instant};

/// What a network does to every connection, without failing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Link {
    /// How long each byte takes to the other side, in either direction.
    pub delay: Duration,
    /// How many bytes a second each direction of a connection takes; `None` if it isn't narrow.
    pub bytes_per_second: Option<u32>,
    /// How often a piece has to be sent again: each so-many-th arrives a round trip later, and all behind it wait for it, as after the
    /// loss of a packet.
    pub resent_every: Option<u32>,
}

impl Link {
    /// The most that is taken at once, so that a narrow link is narrow at every moment.
    pub(super) fn piece_bytes_max(self) -> usize {
        let narrow = self.bytes_per_second.map(|bytes| (bytes / PIECES_PER_SECOND).max(1) as usize);
        let resent = self.resent_every.map(|_| PACKET_BYTES);
        [narrow, resent].into_iter().flatten().fold(PIECE_BYTES_MAX, usize::min)
    }
}

/// When the pieces of one direction of a connection arrive.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    /// Until when the link is taken by the pieces before.
    busy_until: Option<Instant>,
    /// When the piece before arrives.
    last_arrival: Option<Instant>,
    pieces: u32,
}

impl Schedule {
    /// When a piece arrives that comes to the link at `now`. No piece overtakes another.
    pub(super) fn arrival(&mut self, link: Link, bytes: usize, now: Instant) -> Instant {
        let starts = self.busy_until.map_or(now, |busy| busy.max(now));
        let takes = link.bytes_per_second.map_or(Duration::ZERO, |per_second| {
            Duration::from_secs_f64(bytes as f64 / f64::from(per_second.max(1)))
        });
        self.busy_until = Some(starts + takes);
        self.pieces = self.pieces.wrapping_add(1);
        let is_resent = link.resent_every.is_some_and(|every| self.pieces.is_multiple_of(every));
        let resending = if is_resent { link.delay * 2 } else { Duration::ZERO };
        let arrival = starts + takes + link.delay + resending;
        let arrival = self.last_arrival.map_or(arrival, |last| last.max(arrival));
        self.last_arrival = Some(arrival);
        arrival
    }
}

const PIECE_BYTES_MAX: usize = 16 * 1024;
const PIECES_PER_SECOND: u32 = 100;
/// What a packet carries on most networks.
const PACKET_BYTES: usize = 1_460;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_a_narrow_link_come_one_after_the_other_and_late() {
        let delay = Duration::from_millis(500);
        let link = Link { delay, bytes_per_second: Some(1_000), resent_every: None };
        let (mut schedule, now) = (Schedule::default(), Instant::now());
        let arrivals = [100, 100].map(|bytes| schedule.arrival(link, bytes, now) - now);
        assert_eq!(arrivals, [Duration::from_millis(600), Duration::from_millis(700)]);
        let later = now + Duration::from_secs(9);
        assert_eq!(schedule.arrival(link, 0, later) - later, delay);
    }

    #[test]
    fn a_piece_that_is_sent_again_holds_up_all_behind_it() {
        let delay = Duration::from_millis(50);
        let link = Link { delay, bytes_per_second: None, resent_every: Some(2) };
        let (mut schedule, now) = (Schedule::default(), Instant::now());
        let arrivals = [1, 2, 3].map(|bytes| schedule.arrival(link, bytes, now) - now);
        assert_eq!(arrivals, [delay, 3 * delay, 3 * delay]);
    }
}
