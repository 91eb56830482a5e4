//! Seeded worlds of chains: honest ones end with everyone holding what the chains have, and each that is broken on purpose is found out.
//!
//! `GAPLESS_SIM_CHAIN_SEEDS=100000` runs more of them, `GAPLESS_SIM_SEED=17` prints one of them.

#![allow(clippy::print_stdout, reason = "what a run has seen is worth reading")]

mod seeds;

use gapless_sim::{ChainFault, ChainOptions};

use self::seeds::{from_environment, run_all, without_from_environment};

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
    seeds::assert_repeatable(&ChainOptions::default(), 10, 50);
}

#[test]
fn other_seeds_give_other_worlds() {
    seeds::assert_various(&ChainOptions::default());
}

#[test]
fn replay() {
    seeds::replay(&options_from_environment());
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

fn find(fault: ChainFault) {
    let options = ChainOptions { fault: Some(fault), ..ChainOptions::default() };
    seeds::find(&options, fault, fault.breaks(), SEEDS_TO_FIND_A_FAULT);
}

fn options_from_environment() -> ChainOptions {
    ChainOptions {
        fault: from_environment("GAPLESS_SIM_FAULT"),
        mischief_max: from_environment("GAPLESS_SIM_MISCHIEF_MAX"),
        without: without_from_environment(),
        ..ChainOptions::default()
    }
}
