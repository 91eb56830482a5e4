//! Seeded worlds: honest ones keep every guarantee, and each that is broken on purpose is found out.
//!
//! `GAPLESS_SIM_SEEDS=100000` runs more of them, `GAPLESS_SIM_SEED=17` prints one of them.

#![allow(clippy::print_stdout, reason = "what a run has seen is worth reading")]

use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::Range;
use std::str::FromStr;

use gapless_sim::{Climate, Coverage, Fault, Guarantee, Landmark, Options, Outcome, report, simulate};

/// How many honest worlds there are, unless `GAPLESS_SIM_SEEDS` says otherwise.
const SEEDS: u64 = 2_000;

/// Within how many seeds a planted fault is found.
const SEEDS_TO_FIND_A_FAULT: u64 = 500;

// Behaviours 3, 4, 5, 6, 7, 8, 10, 12, 14, 17
#[test]
fn honest_worlds_keep_every_guarantee_and_nothing_is_left_untried() {
    let seeds = from_environment("GAPLESS_SIM_SEEDS").unwrap_or(SEEDS);
    let (coverage, steps) = run_all(0..seeds, &Options::default());
    println!("{seeds} worlds, {steps} steps\n{coverage}");
    assert_eq!(coverage.missing(), [], "these were never seen, so nothing is proved about them");
}

#[test]
fn the_same_seed_gives_the_same_world() {
    for seed in 0..20 {
        let traced = || simulate(seed, Options { is_traced: true, ..Options::default() });
        let first = traced();
        assert!(first.trace.len() > 100, "seed {seed} has no history");
        assert_eq!(first, traced());
    }
}

#[test]
fn other_seeds_give_other_worlds() {
    let steps: BTreeSet<u64> = (0..20).map(|seed| simulate(seed, Options::default()).steps).collect();
    assert!(steps.len() > 10);
}

/// Prints what `GAPLESS_SIM_SEED` names, and fails if that world does.
#[test]
fn replay() {
    let Some(seed) = from_environment("GAPLESS_SIM_SEED") else {
        return;
    };
    let Outcome { violation, trace, .. } =
        simulate(seed, Options { is_traced: true, ..options_from_environment() });
    for line in trace {
        println!("{line}");
    }
    assert_eq!(violation, None);
}

// Behaviour 17
#[test]
fn a_lost_push_of_the_last_entry_is_repaired_within_ten_seconds() {
    let lossy = Options { climate: Climate::LossyPushes, ..Options::default() };
    run_all(0..SEEDS / 10, &lossy);

    let unswept = Options { fault: Some(Fault::NoSweep), ..lossy };
    let found = (0..SEEDS_TO_FIND_A_FAULT).find_map(|seed| simulate(seed, unswept.clone()).violation);
    assert_eq!(found.map(|violation| violation.guarantee), Some(Guarantee::ReplayOrConverge));
}

macro_rules! finds {
    ($($(#[$attribute:meta])* $name:ident: $fault:ident,)*) => {
        $($(#[$attribute])* #[test] fn $name() {
            find(Fault::$fault);
        })*
    };
}

finds! {
    // Behaviours 3 and 4
    a_cursor_at_the_largest_seq_seen_is_found_out: LargestSeenCursor,
    an_ack_before_persisting_is_found_out: AckBeforePersisting,
    // Behaviour 12
    new_sends_before_the_outbox_are_found_out: OutboxAfterNewSends,
    // Behaviour 10
    a_resend_with_a_new_key_is_found_out: ResendWithNewKey,
    a_push_before_the_commit_is_found_out: PushBeforeCommit,
    // Behaviour 11
    an_answer_before_the_commit_is_found_out: AnswerBeforeCommit,
    // Behaviour 12
    a_send_that_follows_a_failed_one_is_found_out: SendsFollowFailures,
    // Behaviour 14
    a_cursor_that_passes_an_absence_is_found_out: PassTheAbsence,
    // Behaviour 18
    a_queue_that_drops_only_its_oldest_is_found_out: DropOnlyTheOldest,
    // Behaviour 14
    a_push_without_membership_is_found_out: PushWithoutMembership,
    // Behaviour 14
    registering_after_reading_is_found_out: RegisterAfterReading,
    // Behaviour 17
    a_missing_sweep_is_found_out: NoSweep,
    trust_in_the_news_is_found_out: NoHeadsPoll,
    reading_standings_only_once_is_found_out: NoReload,
}

/// Runs worlds with a fault until one breaks the guarantee that the fault is about.
fn find(fault: Fault) {
    for seed in 0..SEEDS_TO_FIND_A_FAULT {
        let options = Options { fault: Some(fault), ..Options::default() };
        let violation = simulate(seed, options).violation;
        if let Some(violation) = violation.filter(|found| fault.breaks().contains(&found.guarantee)) {
            println!("{fault} is found by seed {seed}: {violation}");
            return;
        }
    }
    panic!("{SEEDS_TO_FIND_A_FAULT} seeds don't see {fault}");
}

/// Runs honest worlds on two threads; fails with the report of the first one that isn't as it should be.
fn run_all(seeds: Range<u64>, options: &Options) -> (Coverage<Landmark>, u64) {
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

fn run_some(seeds: impl Iterator<Item = u64>, options: &Options) -> (Coverage<Landmark>, u64) {
    let mut total = (Coverage::default(), 0);
    for seed in seeds {
        let outcome = simulate(seed, options.clone());
        assert!(outcome.violation.is_none(), "{}", report(seed, options));
        total.0.merge(&outcome.coverage);
        total.1 += outcome.steps;
    }
    total
}

fn from_environment<T: FromStr<Err: Display>>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("{name} can't be {text:?}: {error}")))
}

fn options_from_environment() -> Options {
    let text = |name| std::env::var(name).ok();
    let without = text("GAPLESS_SIM_WITHOUT").unwrap_or_default();
    let without = without.split(',').filter(|name| !name.is_empty());
    Options {
        fault: from_environment("GAPLESS_SIM_FAULT"),
        mischief_max: from_environment("GAPLESS_SIM_MISCHIEF_MAX"),
        without: without.map(|name| name.parse().unwrap_or_else(|error| panic!("{error}"))).collect(),
        climate: if text("GAPLESS_SIM_LOSSY_PUSHES").is_some() {
            Climate::LossyPushes
        } else {
            Climate::Stormy
        },
        ..Options::default()
    }
}
