//! What happened in a table lately, for all who follow it.

use std::collections::VecDeque;

/// The newest changes of a table, in the order in which one reader found them, pass by pass. Each has an index, and so has the end of a
/// pass: that of the first change behind it.
///
/// Any two readers whose last pass ended at the same moment have been told the same, in whatever order. So whoever reads for themselves
/// can join at the end of a pass, if their own last one was of its moment; there is no other seam without a loss or a repetition.
#[derive(Debug)]
pub struct TableTail<C, B> {
    changes: VecDeque<(C, usize)>,
    /// The index of the first change that is kept.
    first: u64,
    bytes: usize,
    /// Where passes ended, in their order; of several with nothing between only the newest.
    boundaries: VecDeque<(u64, B)>,
    changes_max: usize,
    bytes_max: usize,
}

/// The end of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Boundary<'a, B> {
    /// The index of the next change.
    pub index: u64,
    /// What is known of it.
    pub of: &'a B,
}

/// What is at an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found<'a, C> {
    /// A change.
    Change(&'a C),
    /// Nothing yet.
    Ahead,
    /// Something that isn't kept any more.
    Gone,
}

impl<C, B> TableTail<C, B> {
    /// Keeps so many changes, and no more when they have so many bytes.
    pub fn new(changes_max: usize, bytes_max: usize) -> Self {
        let (changes, boundaries) = (VecDeque::new(), VecDeque::new());
        Self { changes, first: 0, bytes: 0, boundaries, changes_max, bytes_max }
    }

    /// Takes in a change of a pass that is under way.
    pub fn push(&mut self, change: C, bytes: usize) {
        self.changes.push_back((change, bytes));
        self.bytes += bytes;
        while self.changes.len() > self.changes_max || self.bytes > self.bytes_max {
            let Some((_, bytes)) = self.changes.pop_front() else { break };
            self.bytes -= bytes;
            self.first += 1;
        }
        let first = self.first;
        while self.boundaries.front().is_some_and(|(index, _)| *index < first) {
            self.boundaries.pop_front();
        }
    }

    /// Takes in that a pass has ended.
    pub fn end_pass(&mut self, of: B) {
        let index = self.next_index();
        if self.boundaries.back().is_some_and(|(last, _)| *last == index) {
            self.boundaries.pop_back();
        }
        self.boundaries.push_back((index, of));
    }

    /// Forgets all of it: what comes next doesn't follow on. No index is used again.
    pub fn clear(&mut self) {
        // So that nobody who was told everything takes what comes for what follows.
        self.first = self.next_index() + 1;
        self.bytes = 0;
        self.changes.clear();
        self.boundaries.clear();
    }

    /// What is at an index.
    pub fn at(&self, index: u64) -> Found<'_, C> {
        let Some(place) = index.checked_sub(self.first) else { return Found::Gone };
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        self.changes.get(place).map_or(Found::Ahead, |(change, _)| Found::Change(change))
    }

    /// The end of the last pass.
    pub fn newest(&self) -> Option<Boundary<'_, B>> {
        self.boundaries.back().map(|(index, of)| Boundary { index: *index, of })
    }

    /// Whether somebody can go on at an index.
    pub fn keeps(&self, index: u64) -> bool {
        (self.first..=self.next_index()).contains(&index)
    }

    /// The index behind the change, or at the end of the pass, that is recognised.
    pub fn position(&self, is_change: impl Fn(&C) -> bool, is_end: impl Fn(&B) -> bool) -> Option<u64> {
        let end = self.boundaries.iter().find(|(_, of)| is_end(of)).map(|(index, _)| *index);
        let behind = || self.changes.iter().position(|(change, _)| is_change(change));
        end.or_else(|| behind().map(|place| self.first + place as u64 + 1))
    }

    fn next_index(&self) -> u64 {
        self.first + self.changes.len() as u64
    }
}
