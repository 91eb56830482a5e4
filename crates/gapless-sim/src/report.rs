//! What to tell about a seed that has failed.

use std::fmt::Write as _;

use crate::{Climate, Guarantee, Mischief, Options, Outcome, simulate};

/// How many of the last steps are told.
const STEPS_TOLD: usize = 120;

/// Tells how a failing seed fails, with as little mischief as it takes, and how to see it again.
pub fn report(seed: u64, options: &Options) -> String {
    let options = shrink(seed, options);
    let Outcome { violation, trace, steps, mischief, .. } =
        simulate(seed, Options { is_traced: true, ..options.clone() });
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
fn command(seed: u64, options: &Options) -> String {
    let mut command = format!("GAPLESS_SIM_SEED={seed}");
    if let Some(fault) = options.fault {
        let _ = write!(command, " GAPLESS_SIM_FAULT={fault}");
    }
    if let Some(mischief_max) = options.mischief_max {
        let _ = write!(command, " GAPLESS_SIM_MISCHIEF_MAX={mischief_max}");
    }
    if !options.without.is_empty() {
        let without: Vec<_> = options.without.iter().map(Mischief::to_string).collect();
        let _ = write!(command, " GAPLESS_SIM_WITHOUT={}", without.join(","));
    }
    if options.climate == Climate::LossyPushes {
        command += " GAPLESS_SIM_LOSSY_PUSHES=1";
    }
    command + " cargo test -p gapless-sim --test worlds replay -- --nocapture"
}

/// Leaves out what isn't needed for the same guarantee to break: kinds of mischief, then the last of it.
fn shrink(seed: u64, options: &Options) -> Options {
    let broken = |options: &Options| -> Option<(Guarantee, u32)> {
        let outcome = simulate(seed, Options { is_traced: false, ..options.clone() });
        Some((outcome.violation?.guarantee, outcome.mischief))
    };
    let mut best = options.clone();
    let Some((guarantee, mut mischief)) = broken(options) else {
        return best;
    };
    for kind in Mischief::ALL {
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
        let smaller = Options { mischief_max: Some(mischief_max), ..best.clone() };
        if broken(&smaller).is_some_and(|(same, _)| same == guarantee) {
            return smaller;
        }
    }
    best
}
