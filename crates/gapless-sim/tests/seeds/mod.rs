//! Running many seeds, and what the environment says of them.

use std::collections::BTreeSet;
use std::fmt::{Debug, Display};
use std::ops::Range;
use std::str::FromStr;

use gapless_sim::{Coverage, Guarantee, Seeded, report};

/// Runs honest worlds on two threads; fails with the report of the first one that isn't as it should be.
pub(crate) fn run_all<O: Seeded + Sync>(seeds: Range<u64>, options: &O) -> (Coverage<O::Landmark>, u64)
where
    O::Landmark: Send,
{
    let halves = [0, 1].map(|half| seeds.clone().filter(move |seed| seed % 2 == half));
    std::thread::scope(|scope| {
        let threads = halves.map(|half| scope.spawn(move || run_some(half, options)));
        let mut total = (Coverage::default(), 0);
        for thread in threads {
            let (coverage, steps) = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            total.0.merge(&coverage);
            total.1 += steps;
        }
        total
    })
}

fn run_some<O: Seeded>(seeds: impl Iterator<Item = u64>, options: &O) -> (Coverage<O::Landmark>, u64) {
    let mut total = (Coverage::default(), 0);
    for seed in seeds {
        let outcome = options.run(seed, false);
        assert!(outcome.violation.is_none(), "{}", report(seed, options));
        total.0.merge(&outcome.coverage);
        total.1 += outcome.steps;
    }
    total
}

/// Runs worlds with a planted fault until one breaks a guarantee that the fault is about.
pub(crate) fn find(options: &impl Seeded, fault: impl Display, breaks: &[Guarantee], seeds: u64) {
    for seed in 0..seeds {
        let violation = options.run(seed, false).violation;
        if let Some(violation) = violation.filter(|found| breaks.contains(&found.guarantee)) {
            println!("{fault} is found by seed {seed}: {violation}");
            return;
        }
    }
    panic!("{seeds} seeds don't see {fault}");
}

/// The same seed gives the same world, with a history.
pub(crate) fn assert_repeatable(options: &impl Seeded, seeds: u64, steps_min: usize) {
    for seed in 0..seeds {
        let first = options.run(seed, true);
        assert!(first.trace.len() > steps_min, "seed {seed} has no history");
        let again = options.run(seed, true);
        assert_eq!(
            (first.violation, first.coverage, first.steps, first.mischief, first.trace),
            (again.violation, again.coverage, again.steps, again.mischief, again.trace)
        );
    }
}

/// Other seeds give other worlds.
pub(crate) fn assert_various(options: &impl Seeded) {
    let steps: BTreeSet<u64> = (0..20).map(|seed| options.run(seed, false).steps).collect();
    assert!(steps.len() > 10);
}

/// Prints what `GAPLESS_SIM_SEED` names, and fails if that world does.
pub(crate) fn replay(options: &impl Seeded) {
    let Some(seed) = from_environment("GAPLESS_SIM_SEED") else {
        return;
    };
    let outcome = options.run(seed, true);
    for line in outcome.trace {
        println!("{line}");
    }
    assert_eq!(outcome.violation, None);
}

pub(crate) fn from_environment<T: FromStr<Err: Display>>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("{name} can't be {text:?}: {error}")))
}

/// The kinds of mischief that are left out.
pub(crate) fn without_from_environment<T: FromStr<Err: Debug> + Ord>() -> BTreeSet<T> {
    let without = std::env::var("GAPLESS_SIM_WITHOUT").unwrap_or_default();
    let names = without.split(',').filter(|name| !name.is_empty());
    names.map(|name| name.parse().unwrap_or_else(|error| panic!("{error:?}"))).collect()
}
