//! Where a reader is, and what it reads next.

use serde::{Deserialize, Serialize};

use super::{Floor, Snapshot};

/// A place in an order of rows: a number, and the row's key behind that. Only the database compares keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The value of the cursor column as the database counts it (microseconds or days since 2000-01-01). Among late rows of a table that
    /// stamps them, the transaction instead.
    pub at: i64,
    /// The values of the key's columns, in the database's binary form; `None` is before all rows of that number.
    pub key: Option<Vec<Vec<u8>>>,
}

/// A moment of the database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Which transactions had ended.
    pub snapshot: Snapshot,
    /// No transaction that hadn't ended began earlier, as the cursor column counts; `None` where nobody knows, so that late rows may be
    /// anywhere. Where rows are stamped with their transaction this isn't needed.
    pub oldest_start: Option<i64>,
}

/// Where a reader of a table is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TableCursor {
    /// The moment of the last pass that is through: what had ended then has been delivered.
    base: Option<Mark>,
    /// The last row in the order of the cursor column.
    reached: Option<Place>,
    pass: Option<Pass>,
    /// Whether it began at some value of the cursor column, so that its reader may hold what was deleted before.
    is_replay: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Pass {
    /// The moment when it began.
    mark: Mark,
    stage: Stage,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Stage {
    /// Among the late rows, behind one of them.
    Late(Option<Place>),
    Forward,
}

/// What is read next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableStep<'a> {
    /// A pass begins: a [`Mark`] is needed, taken before anything else is read.
    Begin,
    /// The rows at or before `up_to` that had ended at the pass's mark and not at `base`, behind one of them.
    Late {
        /// The mark of the pass before.
        base: &'a Mark,
        /// The mark of this pass.
        mark: &'a Mark,
        /// The last row in the order of the cursor column.
        up_to: &'a Place,
        /// The last late row.
        after: Option<&'a Place>,
    },
    /// The rows beyond a place that had ended at the pass's mark and not at `base`.
    Forward {
        /// The mark of the pass before, if there was one.
        base: Option<&'a Mark>,
        /// The mark of this pass.
        mark: &'a Mark,
        /// The last row; `None` begins with the first there is.
        after: Option<&'a Place>,
        /// Whether its reader has nothing yet but what this pass delivers, so that nothing needs to be deleted.
        is_initial: bool,
    },
}

/// How a step of a page ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepEnd {
    /// The page has no room for the rest.
    Full,
    /// There are no more rows of its kind.
    Through,
    /// There are no more up to this place; what lies behind it wasn't looked at, so that the page is read in time.
    Fence(Place),
}

impl TableCursor {
    /// At the beginning of a table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Before all rows whose cursor column has a value or a later one.
    pub fn since(at: i64) -> Self {
        Self { reached: Some(Place { at, key: None }), is_replay: true, ..Self::default() }
    }

    /// With nothing but what is committed from a moment on. `at` is some value of the cursor column, best the newest: rows from there on
    /// are found in its order, and others as late ones.
    pub fn newest(mark: Mark, at: i64) -> Self {
        Self { base: Some(mark), reached: Some(Place { at, key: None }), ..Self::default() }
    }

    /// What to read next.
    pub fn step(&self) -> TableStep<'_> {
        match (&self.pass, &self.base, &self.reached) {
            (None, _, _) => TableStep::Begin,
            (Some(Pass { mark, stage: Stage::Late(after) }), Some(base), Some(up_to)) => {
                TableStep::Late { base, mark, up_to, after: after.as_ref() }
            }
            (Some(Pass { mark, .. }), base, reached) => {
                let is_initial = base.is_none() && !self.is_replay;
                TableStep::Forward { base: base.as_ref(), mark, after: reached.as_ref(), is_initial }
            }
        }
    }

    /// Begins a pass. Late rows are looked for if there was one before, and it has got anywhere.
    pub fn begin(&mut self, mark: Mark) {
        let may_be_late = self.base.is_some() && self.reached.is_some();
        let stage = if may_be_late { Stage::Late(None) } else { Stage::Forward };
        self.pass = Some(Pass { mark, stage });
    }

    /// Notes what a step has read: the last row, if there was one, and how it ended. Says whether the page ends here, too; otherwise the
    /// next step fills it further.
    pub fn handle_rows(&mut self, last: Option<Place>, end: StepEnd) -> bool {
        let is_late = matches!(self.step(), TableStep::Late { .. });
        let (place, is_through) = match end {
            StepEnd::Full => (last, false),
            StepEnd::Through => (last, true),
            StepEnd::Fence(place) => (Some(place), false),
        };
        let Some(pass) = &mut self.pass else { return true };
        match (is_late, is_through) {
            (true, true) => pass.stage = Stage::Forward,
            (true, false) => {
                if place.is_some() {
                    pass.stage = Stage::Late(place);
                }
            }
            (false, _) => {
                self.reached = place.or(self.reached.take());
                if is_through {
                    self.base = self.pass.take().map(|pass| pass.mark);
                }
            }
        }
        !is_through || !self.has_more()
    }

    /// Whether nothing has ended since the last pass, so that a pass of this mark would be empty.
    pub fn is_through_at(&self, mark: &Mark) -> bool {
        self.pass.is_none() && self.base.as_ref().is_some_and(|base| base.snapshot == mark.snapshot)
    }

    /// Whether its reader lacks nothing of what was purged. That has to be asked before a step is noted, and of a floor that isn't older
    /// than what the step has read.
    pub fn has_passed(&self, floor: &Floor) -> bool {
        match (&self.base, &self.reached) {
            (Some(base), _) => floor.is_within(&base.snapshot),
            // Who asked for deletes from some time on has them up to where they are.
            (None, Some(reached)) if self.is_replay => reached.at > floor.at,
            // Its reader holds only rows of the first pass, and what was deleted when that began isn't among them. What was deleted
            // since matters to the next pass.
            (None, _) => true,
        }
    }

    /// Whether a pass is under way, so that there is more to read at once.
    pub fn has_more(&self) -> bool {
        self.pass.is_some()
    }

    /// Whether the next pass may be one of this moment: it has to be no earlier than the last.
    pub fn may_begin(&self, mark: &Mark) -> bool {
        self.base.as_ref().is_none_or(|base| mark.snapshot.includes(&base.snapshot))
    }

    /// The value of the cursor column that was reached, if any was.
    pub fn reached_at(&self) -> Option<i64> {
        self.reached.as_ref().map(|reached| reached.at)
    }

    /// The moment of the last pass that is through.
    pub fn base(&self) -> Option<&Mark> {
        self.base.as_ref()
    }
}
