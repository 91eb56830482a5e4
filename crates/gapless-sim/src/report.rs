//! What to tell about a seed that has failed.

use std::collections::BTreeSet;
use std::fmt::{Debug, Display, Write as _};

use crate::{Guarantee, Landmarks, Outcome};

/// How many of the last steps are told.
const STEPS_TOLD: usize = 120;

/// What a kind of worlds is run with, so that a seed which fails can be told of.
pub trait Seeded: Clone + Debug {
    /// A kind of mischief that can be left out.
    type Mischief: Copy + 'static;
    /// What its worlds are looked through for.
    type Landmark: Landmarks;

    /// All the mischief there is.
    const MISCHIEF: &'static [Self::Mischief];
    /// The test that replays one seed.
    const REPLAY: &'static str;

    /// Runs the world of one seed.
    fn run(&self, seed: u64, is_traced: bool) -> Outcome<Self::Landmark>;

    /// Leaves out a kind of mischief.
    fn leave_out(&mut self, mischief: Self::Mischief);

    /// Allows only so much mischief.
    fn limit(&mut self, mischief_max: u32);

    /// The variables that a replay needs beside the seed, each behind a space.
    fn variables(&self) -> String;
}

/// Tells how a failing seed fails, with as little mischief as it takes, and how to see it again.
pub fn report<O: Seeded>(seed: u64, options: &O) -> String {
    let options = shrink(seed, options);
    let Outcome { violation, trace, steps, mischief, .. } = options.run(seed, true);
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
    let (variables, replay) = (options.variables(), O::REPLAY);
    let _ = writeln!(
        text,
        "to see all of it:\n  GAPLESS_SIM_SEED={seed}{variables} cargo test -p gapless-sim --test {replay} -- --nocapture"
    );
    text
}

/// The variables that all kinds of worlds have.
pub(crate) fn variables(
    fault: Option<impl Display>,
    mischief_max: Option<u32>,
    without: &BTreeSet<impl Display>,
) -> String {
    let mut text = String::new();
    if let Some(fault) = fault {
        let _ = write!(text, " GAPLESS_SIM_FAULT={fault}");
    }
    if let Some(mischief_max) = mischief_max {
        let _ = write!(text, " GAPLESS_SIM_MISCHIEF_MAX={mischief_max}");
    }
    if !without.is_empty() {
        let without: Vec<_> = without.iter().map(ToString::to_string).collect();
        let _ = write!(text, " GAPLESS_SIM_WITHOUT={}", without.join(","));
    }
    text
}

/// Leaves out what isn't needed for the same guarantee to break: kinds of mischief, then the last of it.
fn shrink<O: Seeded>(seed: u64, options: &O) -> O {
    let broken = |options: &O| -> Option<(Guarantee, u32)> {
        let outcome = options.run(seed, false);
        Some((outcome.violation?.guarantee, outcome.mischief))
    };
    let mut best = options.clone();
    let Some((guarantee, mut mischief)) = broken(options) else {
        return best;
    };
    for kind in O::MISCHIEF {
        let mut smaller = best.clone();
        smaller.leave_out(*kind);
        if let Some((same, done)) = broken(&smaller)
            && same == guarantee
            && done <= mischief
        {
            (best, mischief) = (smaller, done);
        }
    }
    for mischief_max in 0..mischief {
        let mut smaller = best.clone();
        smaller.limit(mischief_max);
        if broken(&smaller).is_some_and(|(same, _)| same == guarantee) {
            return smaller;
        }
    }
    best
}
