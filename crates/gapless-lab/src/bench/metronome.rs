//! A beat that doesn't wait for anybody.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use tokio::sync::mpsc;

/// Beats a number of times at a fixed rate, by a thread and the kernel's own timer: tokio's has steps of a millisecond, which is as
/// long as what is measured.
///
/// Beats that nobody waited for are kept, so that a load that follows it doesn't slow down with what it measures.
pub(super) struct Metronome {
    due: mpsc::Receiver<Instant>,
    thread: JoinHandle<anyhow::Result<()>>,
}

impl Metronome {
    /// Begins to beat, `count` times.
    pub(super) fn start(rate: f64, count: usize) -> anyhow::Result<Self> {
        let period = Duration::from_secs_f64(1.0 / rate);
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::empty()).context("making a timer")?;
        let (beats, due) = mpsc::channel(count);
        let start = Instant::now();
        let interval = Expiration::Interval(TimeSpec::from_duration(period));
        timer.set(interval, TimerSetTimeFlags::empty()).context("setting a timer")?;
        let thread = thread::spawn(move || {
            let mut beaten = 0;
            while beaten < count {
                timer.wait().context("waiting for a timer")?;
                // The timer only wakes: which beats are due is told by the clock.
                let elapsed = start.elapsed();
                while beaten < count && period.mul_f64((beaten + 1) as f64) <= elapsed {
                    beaten += 1;
                    if beats.blocking_send(start + period.mul_f64(beaten as f64)).is_err() {
                        return Ok(());
                    }
                }
            }
            Ok(())
        });
        Ok(Self { due, thread })
    }

    /// Waits for beats that have not been returned yet, and adds when each was due. Returns how many; 0 once all are.
    pub(super) async fn beats(&mut self, due: &mut Vec<Instant>) -> usize {
        self.due.recv_many(due, BEATS_AT_ONCE).await
    }

    /// Waits for the end of its thread.
    pub(super) fn stop(self) -> anyhow::Result<()> {
        drop(self.due);
        self.thread.join().map_err(|_| anyhow!("the metronome panicked"))?
    }
}

/// How many beats are returned together at most.
const BEATS_AT_ONCE: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_beat_is_left_out_when_nobody_waits_for_it() {
        let mut metronome = Metronome::start(10_000.0, 200).unwrap();
        let mut due = Vec::new();
        while metronome.beats(&mut due).await > 0 {}
        metronome.stop().unwrap();

        assert_eq!(due.len(), 200);
        for pair in due.windows(2) {
            assert_eq!((pair[1] - pair[0]).as_micros(), 100);
        }
    }
}
