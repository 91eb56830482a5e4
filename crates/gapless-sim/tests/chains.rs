//! Seeded worlds of chains: honest ones end with everyone holding what the chains have, and each that is broken on purpose is found out.
//!
//! `GAPLESS_SIM_CHAIN_SEEDS=100000` runs more of them, `GAPLESS_SIM_SEED=17` prints one of them.

#![allow(clippy::print_stdout, reason = "what a run has seen is worth reading")]

use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::Range;
use std::str::FromStr;

use gapless_sim::{ChainCoverage, ChainFault, ChainOptions, ChainOutcome, report_chains, simulate_chains};

/// How many honest worlds there are, unless `GAPLESS_SIM_CHAIN_SEEDS` says otherwise.
const SEEDS: u64 = 500;

/// Within how many seeds a planted fault is found.
const SEEDS_TO_FIND_A_FAULT: u64 = 300;

// Chain behaviours 1, 2, 3, 6, 7, 8, 9, 10, 12, 13, 15
#[test]
fn what_clients_hold_is_what_the_chain_has_and_nothing_is_left_untried() {
    let seeds = from_environment("GAPLESS_SIM_CHAIN_SEEDS").unwrap_or(SEEDS);
    let (coverage, steps) = run_all(0..seeds, &ChainOptions::default());
    println!("{seeds} worlds, {steps} steps\n{coverage}");
    assert_eq!(coverage.missing(), [], "these were never seen, so nothing is proved about them");
}

#[test]
fn the_same_seed_gives_the_same_world() {
    for seed in 0..10 {
        let traced = || simulate_chains(seed, ChainOptions { is_traced: true, ..ChainOptions::default() });
        let first = traced();
        assert!(first.trace.len() > 50, "seed {seed} has no history");
        assert_eq!(first, traced());
    }
}

#[test]
fn other_seeds_give_other_worlds() {
    let steps: BTreeSet<u64> =
        (0..20).map(|seed| simulate_chains(seed, ChainOptions::default()).steps).collect();
    assert!(steps.len() > 10);
}

/// Prints what `GAPLESS_SIM_SEED` names, and fails if that world does.
#[test]
fn replay() {
    let Some(seed) = from_environment("GAPLESS_SIM_SEED") else {
        return;
    };
    let options = ChainOptions { is_traced: true, ..options_from_environment() };
    let ChainOutcome { violation, trace, .. } = simulate_chains(seed, options);
    for line in trace {
        println!("{line}");
    }
    assert_eq!(violation, None);
}

macro_rules! finds {
    ($($(#[$attribute:meta])* $name:ident: $fault:ident,)*) => {
        $($(#[$attribute])* #[test] fn $name() {
            find(ChainFault::$fault);
        })*
    };
}

finds! {
    // Chain behaviour 8
    deduplicating_by_place_alone_is_found_out: DeduplicateByPlace,
    // Chain behaviours 2, 7
    resuming_by_place_alone_is_found_out: ResumeByPlace,
    // Chain behaviour 6
    a_snapshot_before_subscribing_is_found_out: SnapshotBeforeSubscribing,
    // Chain behaviour 7
    a_revoke_after_the_new_branch_is_found_out: RevokeAfterNewBranch,
    // Chain behaviour 2
    a_revoke_with_an_old_seq_is_found_out: RevokeWithOldSeq,
    // Chain behaviour 3
    a_quiet_cursor_that_expires_is_found_out: NoProgress,
    // Chain behaviour 4
    dropping_only_the_oldest_is_found_out: DropOnlyTheOldest,
    // Chain behaviour 13
    confirming_one_block_too_early_is_found_out: ConfirmedTooEarly,
    trust_in_the_news_is_found_out: NoHeadsPoll,
    // Chain behaviour 12
    a_feed_that_begins_anew_without_a_gap_is_found_out: RestartWithoutGap,
    // Chain behaviour 7
    trimming_where_a_reorg_may_go_back_to_is_found_out: TrimForkPoint,
    // Chain behaviour 10
    taking_a_lower_head_for_a_reorg_is_found_out: LowerHeadIsReorg,
    // Chain behaviour 11
    believing_in_no_logs_is_found_out: BelieveNoLogs,
}

/// Runs worlds with a fault until one breaks the guarantee that the fault is about.
fn find(fault: ChainFault) {
    for seed in 0..SEEDS_TO_FIND_A_FAULT {
        let options = ChainOptions { fault: Some(fault), ..ChainOptions::default() };
        let violation = simulate_chains(seed, options).violation;
        if let Some(violation) = violation.filter(|found| fault.breaks().contains(&found.guarantee)) {
            println!("{fault} is found by seed {seed}: {violation}");
            return;
        }
    }
    panic!("{SEEDS_TO_FIND_A_FAULT} seeds don't see {fault}");
}

/// Runs honest worlds on two threads; fails with the report of the first one that isn't as it should be.
fn run_all(seeds: Range<u64>, options: &ChainOptions) -> (ChainCoverage, u64) {
    let halves = [0, 1].map(|half| seeds.clone().filter(move |seed| seed % 2 == half));
    std::thread::scope(|scope| {
        let threads = halves.map(|half| scope.spawn(move || run_some(half, options)));
        let mut total = (ChainCoverage::default(), 0);
        for thread in threads {
            let (coverage, steps) = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            total.0.merge(&coverage);
            total.1 += steps;
        }
        total
    })
}

fn run_some(seeds: impl Iterator<Item = u64>, options: &ChainOptions) -> (ChainCoverage, u64) {
    let mut total = (ChainCoverage::default(), 0);
    for seed in seeds {
        let outcome = simulate_chains(seed, options.clone());
        assert!(outcome.violation.is_none(), "{}", report_chains(seed, options));
        total.0.merge(&outcome.coverage);
        total.1 += outcome.steps;
    }
    total
}

fn from_environment<T: FromStr<Err: Display>>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("{name} can't be {text:?}: {error}")))
}

fn options_from_environment() -> ChainOptions {
    let without = std::env::var("GAPLESS_SIM_WITHOUT").unwrap_or_default();
    let without = without.split(',').filter(|name| !name.is_empty());
    ChainOptions {
        fault: from_environment("GAPLESS_SIM_FAULT"),
        mischief_max: from_environment("GAPLESS_SIM_MISCHIEF_MAX"),
        without: without.map(|name| name.parse().unwrap_or_else(|error| panic!("{error}"))).collect(),
        ..ChainOptions::default()
    }
}
