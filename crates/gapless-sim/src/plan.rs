//! Which mischief a world gets, and how much.

use crate::dice::{Dice, Spread};

/// Draws the mischief of one world until there was enough.
#[derive(Debug)]
pub(crate) struct Plan<M> {
    /// Each as often as it is to come.
    lots: Vec<M>,
    pause: Spread,
    left: u32,
    done: u32,
}

impl<M: Clone> Plan<M> {
    /// Draws how much there is; not more than `most`, if there is a most.
    pub(crate) fn new(lots: Vec<M>, pause: Spread, most: Option<u32>, dice: &mut Dice) -> Self {
        let left = u32::try_from(20 + dice.below(60)).expect("it is small");
        Self { lots, pause, left: left.min(most.unwrap_or(u32::MAX)), done: 0 }
    }

    /// How long it is until the next.
    pub(crate) fn pause(&self) -> Spread {
        self.pause
    }

    /// How much there was.
    pub(crate) fn done(&self) -> u32 {
        self.done
    }

    pub(crate) fn draw(&mut self, dice: &mut Dice) -> Option<M> {
        self.left = self.left.checked_sub(1)?;
        self.done += 1;
        dice.pick(&self.lots)
    }
}
