//! How bad a world is.

use crate::dice::{Dice, PerMille, Spread};

/// How often what fails, and how long what takes, for one seed. Each kind of failure is switched off in about half of the worlds,
/// since a storm of one kind hides what another would show.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weather {
    /// How long a frame takes.
    pub(crate) latency: Spread,
    pub(crate) frames: FrameFaults,
    pub(crate) news: NewsFaults,
    /// How long a transaction takes to reach the disk.
    pub(crate) flush: Spread,
    /// How often a transaction fails, one way or another.
    pub(crate) commit_fails: PerMille,
    /// How long a read takes.
    pub(crate) read: Spread,
    pub(crate) read_fails: PerMille,
    /// How long a device takes to write its state.
    pub(crate) write: Spread,
}

/// What happens to frames on a connection that stands.
///
/// TCP neither loses nor reorders, so requests are never touched here: the order of sends rests on that. What the protocol
/// promises less for is fair game: a push or hint may be lost, doubled or late (it is a shortcut), an ack may be lost, and an
/// answer may come twice, late or never (answers come in any order, and a client replaces a connection that
/// leaves one out).
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrameFaults {
    pub(crate) push_lost: PerMille,
    pub(crate) hint_lost: PerMille,
    pub(crate) push_doubled: PerMille,
    pub(crate) push_late: PerMille,
    pub(crate) ack_lost: PerMille,
    pub(crate) answer_lost: PerMille,
    pub(crate) answer_doubled: PerMille,
    pub(crate) answer_late: PerMille,
    /// How late what is late comes.
    pub(crate) lateness: Spread,
}

/// What happens to the news of commits on its way to a gateway.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewsFaults {
    pub(crate) lost: PerMille,
    /// Only between gateways; a store's own news is lost at most.
    pub(crate) doubled: PerMille,
    pub(crate) delay: Spread,
}

impl Weather {
    /// What a seed draws.
    pub(crate) fn new(dice: &mut Dice) -> Self {
        let long = dice.coin();
        Self {
            latency: if long { Spread::millis(5, 400) } else { Spread::millis(1, 30) },
            frames: FrameFaults {
                push_lost: rate(dice, 300),
                hint_lost: rate(dice, 300),
                push_doubled: rate(dice, 200),
                push_late: rate(dice, 200),
                ack_lost: rate(dice, 300),
                answer_lost: rate(dice, 20),
                answer_doubled: rate(dice, 100),
                answer_late: rate(dice, 100),
                lateness: Spread::millis(1, if long { 5_000 } else { 300 }),
            },
            news: NewsFaults {
                lost: rate(dice, 600),
                doubled: rate(dice, 200),
                delay: Spread::millis(0, if dice.coin() { 2_000 } else { 20 }),
            },
            flush: if dice.coin() { Spread::millis(20, 600) } else { Spread::millis(1, 20) },
            commit_fails: rate(dice, 250),
            read: if dice.coin() { Spread::millis(0, 3000) } else { Spread::millis(0, 10) },
            read_fails: rate(dice, 100),
            write: if dice.coin() { Spread::millis(20, 500) } else { Spread::millis(0, 20) },
        }
    }

    /// Nothing fails but one push in three.
    pub(crate) fn lossy_pushes() -> Self {
        let mut weather = Self::calm();
        weather.frames.push_lost = PerMille(333);
        weather
    }

    /// Nothing fails any more.
    pub(crate) fn calm() -> Self {
        let never = PerMille::NEVER;
        Self {
            latency: Spread::millis(1, 20),
            frames: FrameFaults {
                push_lost: never,
                hint_lost: never,
                push_doubled: never,
                push_late: never,
                ack_lost: never,
                answer_lost: never,
                answer_doubled: never,
                answer_late: never,
                lateness: Spread::millis(1, 1),
            },
            news: NewsFaults { lost: never, doubled: never, delay: Spread::millis(0, 10) },
            flush: Spread::millis(1, 10),
            commit_fails: never,
            read: Spread::millis(0, 5),
            read_fails: never,
            write: Spread::millis(0, 5),
        }
    }
}

/// Never, in half of the worlds; else somewhere up to `max` thousandths.
fn rate(dice: &mut Dice, max: usize) -> PerMille {
    if dice.coin() {
        return PerMille::NEVER;
    }
    PerMille(u32::try_from(1 + dice.below(max)).unwrap_or(u32::MAX))
}
