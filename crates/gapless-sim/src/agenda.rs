//! What will happen, and when.

use std::collections::BTreeMap;
use std::time::Instant;

/// Events in the order of their time; those of one moment in the order in which they were planned.
#[derive(Debug)]
pub(crate) struct Agenda<E> {
    planned: BTreeMap<(Instant, u64), E>,
    count: u64,
}

impl<E> Agenda<E> {
    pub(crate) fn new() -> Self {
        Self { planned: BTreeMap::new(), count: 0 }
    }

    pub(crate) fn plan(&mut self, at: Instant, event: E) {
        self.planned.insert((at, self.count), event);
        self.count += 1;
    }

    pub(crate) fn next(&mut self) -> Option<(Instant, E)> {
        let ((at, _), event) = self.planned.pop_first()?;
        Some((at, event))
    }
}
