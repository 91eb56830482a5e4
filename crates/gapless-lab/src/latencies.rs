//! How long things took.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Durations, kept to three digits.
#[derive(Debug, Clone)]
pub(crate) struct Latencies(Histogram<u64>);

impl Latencies {
    /// None yet.
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self(Histogram::new(3)?))
    }

    /// Keeps one.
    pub(crate) fn record(&mut self, duration: Duration) -> anyhow::Result<()> {
        Ok(self.0.record(duration.as_micros() as u64)?)
    }

    /// Takes in what another one kept.
    pub(crate) fn include(&mut self, other: &Self) -> anyhow::Result<()> {
        Ok(self.0.add(&other.0)?)
    }

    /// Whether nothing was kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// That which so many of a hundred don't pass, in milliseconds.
    pub(crate) fn percentile_ms(&self, percent: f64) -> f64 {
        self.0.value_at_percentile(percent) as f64 / 1_000.0
    }

    /// p50, p99 and the longest, for a table.
    pub(crate) fn cells(&self) -> [String; 3] {
        [50.0, 99.0, 100.0].map(|percent| format!("{:.1} ms", self.percentile_ms(percent)))
    }
}
