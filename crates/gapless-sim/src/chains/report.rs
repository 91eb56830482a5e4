//! What to tell about a seed of a world of chains that has failed.

use std::fmt::Write as _;

use super::{ChainMischief, ChainOptions, ChainOutcome, simulate_chains};
use crate::Guarantee;

/// How many of the last steps are told.
const STEPS_TOLD: usize = 120;

/// Tells how a failing seed fails, with as little mischief as it takes, and how to see it again.
pub fn report_chains(seed: u64, options: &ChainOptions) -> String {
    let options = shrink(seed, options);
    let ChainOutcome { violation, trace, steps, mischief, .. } =
        simulate_chains(seed, ChainOptions { is_traced: true, ..options.clone() });
    let Some(violation) = violation else {
        return format!("seed {seed} holds with {options:?}");
    };
    let mut text = format!("seed {seed}: {violation}\n");
    let told = trace.len().saturating_sub(STEPS_TOLD);
    let _ =
        writeln!(text, "the last of {} lines ({steps} steps, mischief done {mischief} times):", trace.len());
    for line in &trace[told..] {
        let _ = writeln!(text, "{line}");
    }
    let _ = writeln!(text, "to see all of it:\n  {}", command(seed, &options));
    text
}

/// The command that runs a seed again and prints its whole trace.
fn command(seed: u64, options: &ChainOptions) -> String {
    let mut command = format!("GAPLESS_SIM_SEED={seed}");
    if let Some(fault) = options.fault {
        let _ = write!(command, " GAPLESS_SIM_FAULT={fault}");
    }
    if let Some(mischief_max) = options.mischief_max {
        let _ = write!(command, " GAPLESS_SIM_MISCHIEF_MAX={mischief_max}");
    }
    if !options.without.is_empty() {
        let without: Vec<_> = options.without.iter().map(ChainMischief::to_string).collect();
        let _ = write!(command, " GAPLESS_SIM_WITHOUT={}", without.join(","));
    }
    command + " cargo test -p gapless-sim --test chains replay -- --nocapture"
}

/// Leaves out what isn't needed for the same guarantee to break: kinds of mischief, then the last of it.
fn shrink(seed: u64, options: &ChainOptions) -> ChainOptions {
    let broken = |options: &ChainOptions| -> Option<(Guarantee, u32)> {
        let outcome = simulate_chains(seed, ChainOptions { is_traced: false, ..options.clone() });
        Some((outcome.violation?.guarantee, outcome.mischief))
    };
    let mut best = options.clone();
    let Some((guarantee, mut mischief)) = broken(options) else {
        return best;
    };
    for kind in ChainMischief::ALL {
        let mut smaller = best.clone();
        smaller.without.insert(kind);
        if let Some((same, done)) = broken(&smaller)
            && same == guarantee
            && done <= mischief
        {
            (best, mischief) = (smaller, done);
        }
    }
    for mischief_max in 0..mischief {
        let smaller = ChainOptions { mischief_max: Some(mischief_max), ..best.clone() };
        if broken(&smaller).is_some_and(|(same, _)| same == guarantee) {
            return smaller;
        }
    }
    best
}
