//! What one transaction does, decided before it begins.

use std::ops::Range;
use std::time::Duration;

use super::dice::Dice;

/// One transaction, from its begin to its end.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Transaction {
    /// How long it is open, and its `now()` fixed, before it writes and so gets a transaction id.
    pub(super) pause_before_writes: Duration,
    /// Those of old rows come in the order of their ids, so that no two transactions wait for each other.
    pub(super) writes: Vec<Write>,
    pub(super) savepoint: Option<Savepoint>,
    pub(super) pause_after_writes: Duration,
    pub(super) commits: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Write {
    /// Inserts so many rows, all with the same `updated_at`.
    Insert(u32),
    /// Inserts a row under an id that this writer has deleted.
    InsertAgain,
    /// Moves an order on.
    Advance(Target),
    Delete(Target),
}

/// An old row: this part of all ids so far are smaller.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(super) struct Target(f64);

/// Some of the writes are in a subtransaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Savepoint {
    /// Which, by their places.
    pub(super) around: Range<usize>,
    /// Whether it is released; otherwise it is rolled back to.
    pub(super) released: bool,
}

/// What is peculiar to one writer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Habits {
    /// How many rows it inserts when it inserts many; 0 if it never does.
    pub(super) tie_rows: u32,
}

impl Transaction {
    /// The transaction with this number of a writer, from 0 on.
    pub(super) fn roll(dice: &mut Dice, habits: Habits, number: u64) -> Self {
        if habits.tie_rows > 0 && number % TIE_EVERY == TIE_FIRST {
            return Self::tie(habits.tie_rows);
        }
        let pause_before_writes = match dice.percent() {
            0..LONG_PERCENT => dice.pause(LONG_PAUSE_MAX),
            LONG_PERCENT..PAUSING_PERCENT => dice.pause(PAUSE_MAX),
            PAUSING_PERCENT.. => Duration::ZERO,
        };
        let count = dice.between(1, WRITES_MAX);
        let mut writes: Vec<_> = (0..count).map(|_| Write::roll(dice)).collect();
        writes
            .sort_by(|one, other| one.target().partial_cmp(&other.target()).expect("fractions are numbers"));
        let savepoint = (dice.percent() < SAVEPOINT_PERCENT).then(|| Savepoint::roll(dice, count));
        let pause_after_writes = match dice.percent() {
            0..LINGERING_PERCENT => dice.pause(LINGERING_MAX),
            LINGERING_PERCENT.. => Duration::ZERO,
        };
        let commits = dice.percent() >= ROLLBACK_PERCENT;
        Self { pause_before_writes, writes, savepoint, pause_after_writes, commits }
    }

    fn tie(rows: u32) -> Self {
        Self {
            pause_before_writes: Duration::ZERO,
            writes: vec![Write::Insert(rows)],
            savepoint: None,
            pause_after_writes: Duration::ZERO,
            commits: true,
        }
    }
}

impl Write {
    fn roll(dice: &mut Dice) -> Self {
        match dice.percent() {
            0..60 => Self::Insert(1),
            60..66 => Self::InsertAgain,
            66..94 => Self::Advance(Target(dice.fraction())),
            94.. => Self::Delete(Target(dice.fraction())),
        }
    }

    fn target(self) -> Option<Target> {
        match self {
            Self::Insert(_) | Self::InsertAgain => None,
            Self::Advance(target) | Self::Delete(target) => Some(target),
        }
    }
}

impl Target {
    /// The id it means while `last` is the highest.
    pub(super) fn id(self, last: i64) -> i64 {
        1 + (self.0 * last as f64) as i64
    }
}

impl Savepoint {
    fn roll(dice: &mut Dice, writes: usize) -> Self {
        let start = dice.between(0, writes - 1);
        let end = dice.between(start + 1, writes);
        Self { around: start..end, released: dice.percent() < 50 }
    }
}

/// How many of a hundred transactions wait before they write.
const PAUSING_PERCENT: u32 = 55;
/// How many of them for long.
const LONG_PERCENT: u32 = 5;
const PAUSE_MAX: Duration = Duration::from_millis(200);
const LONG_PAUSE_MAX: Duration = Duration::from_secs(2);
/// How many wait after their writes, holding what they locked.
const LINGERING_PERCENT: u32 = 20;
const LINGERING_MAX: Duration = Duration::from_millis(50);
const ROLLBACK_PERCENT: u32 = 10;
const SAVEPOINT_PERCENT: u32 = 20;
const WRITES_MAX: usize = 5;
const TIE_FIRST: u64 = 2;
const TIE_EVERY: u64 = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_transactions_and_each_writer_others() {
        assert_eq!(rolled(7, 1), rolled(7, 1));
        assert_ne!(rolled(7, 1), rolled(7, 2));
        assert_ne!(rolled(7, 1), rolled(8, 1));
    }

    #[test]
    fn transactions_are_of_all_the_kinds_in_their_shares() {
        let transactions = rolled(7, 1);
        let percent = |is_one: fn(&Transaction) -> bool| {
            transactions.iter().filter(|one| is_one(one)).count() * 100 / transactions.len()
        };
        assert!((50..60).contains(&percent(|one| !one.pause_before_writes.is_zero())));
        assert!((1..4).contains(&percent(|one| one.pause_before_writes > Duration::from_secs(1))));
        assert!((8..12).contains(&percent(|one| !one.commits)));
        assert!((8..12).contains(&percent(|one| one.savepoint.as_ref().is_some_and(|at| !at.released))));
        assert!((8..12).contains(&percent(|one| one.savepoint.as_ref().is_some_and(|at| at.released))));
        for has in [
            |write: &Write| matches!(write, Write::Insert(1)),
            |write: &Write| matches!(write, Write::InsertAgain),
            |write: &Write| matches!(write, Write::Advance(_)),
            |write: &Write| matches!(write, Write::Delete(_)),
        ] {
            assert!(transactions.iter().flat_map(|one| &one.writes).any(has));
        }
    }

    #[test]
    fn old_rows_are_written_in_the_order_of_their_ids() {
        for transaction in rolled(7, 1) {
            let ids =
                transaction.writes.iter().filter_map(|write| write.target()).map(|target| target.id(1_000));
            assert!(ids.clone().is_sorted());
            assert!(ids.clone().all(|id| (1..=1_000).contains(&id)));
        }
    }

    #[test]
    fn a_savepoint_is_around_at_least_one_of_the_writes() {
        for transaction in rolled(7, 1) {
            let Some(Savepoint { around, .. }) = transaction.savepoint else { continue };
            assert!(around.start < around.end && around.end <= transaction.writes.len());
        }
    }

    #[test]
    fn only_a_writer_with_that_habit_inserts_many_at_once() {
        let mut dice = Dice::new(7, 1);
        let ties = (0..100).filter(|number| {
            let transaction = Transaction::roll(&mut dice, Habits { tie_rows: 300 }, *number);
            transaction.writes == [Write::Insert(300)]
        });
        assert_eq!(ties.collect::<Vec<_>>(), [2, 42, 82]);
        assert!(
            rolled(7, 1)
                .iter()
                .all(|one| one.writes.iter().all(|write| !matches!(write, Write::Insert(2..))))
        );
    }

    fn rolled(seed: u64, writer: u64) -> Vec<Transaction> {
        let mut dice = Dice::new(seed, writer);
        (0..2_000).map(|number| Transaction::roll(&mut dice, Habits { tie_rows: 0 }, number)).collect()
    }
}
