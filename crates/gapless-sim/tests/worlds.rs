//! Seeded worlds: honest ones keep every guarantee, and each that is broken on purpose is found out.
//!
//! `GAPLESS_SIM_SEEDS=100000` runs more of them, `GAPLESS_SIM_SEED=17` prints one of them.

#![allow(clippy::print_stdout, reason = "what a run has seen is worth reading")]

mod seeds;

use gapless_sim::{Climate, Fault, Guarantee, Options, simulate};

use self::seeds::{from_environment, run_all, without_from_environment};

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
    seeds::assert_repeatable(&Options::default(), 20, 100);
}

#[test]
fn other_seeds_give_other_worlds() {
    seeds::assert_various(&Options::default());
}

#[test]
fn replay() {
    seeds::replay(&options_from_environment());
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

fn find(fault: Fault) {
    let options = Options { fault: Some(fault), ..Options::default() };
    seeds::find(&options, fault, fault.breaks(), SEEDS_TO_FIND_A_FAULT);
}

fn options_from_environment() -> Options {
    let is_lossy = std::env::var_os("GAPLESS_SIM_LOSSY_PUSHES").is_some();
    Options {
        fault: from_environment("GAPLESS_SIM_FAULT"),
        mischief_max: from_environment("GAPLESS_SIM_MISCHIEF_MAX"),
        without: without_from_environment(),
        climate: if is_lossy { Climate::LossyPushes } else { Climate::Stormy },
        ..Options::default()
    }
}
