//! Places of a log or table, which should all be equally fast to read.

use crate::figure::{Figure, Target};

/// What places are called whose figures are given one after the other.
pub(super) const NAMES: [&str; 3] = ["beginning", "middle", "end"];

/// The slowest of them against the fastest, given the p50 of each in milliseconds.
pub(super) fn slowest_against_fastest(bench: &'static str, p50s: &[f64], ratio_max: f64) -> Figure {
    let slowest = p50s.iter().copied().fold(0.0, f64::max);
    let fastest = p50s.iter().copied().fold(f64::INFINITY, f64::min);
    Figure::new(bench, "the slowest place, p50", "ms", slowest)
        .versus("the fastest place, p50", fastest)
        .target(Target::RatioAtMost(ratio_max))
}
