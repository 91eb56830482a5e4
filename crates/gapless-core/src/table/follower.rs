//! Where one who follows a table is, beside the tail that all share.

use super::tail::{Boundary, Found, TableTail};

/// Decides what one who follows a table is told next, each change once: from the tail, or, where that doesn't reach back, from the table
/// itself, until a pass has ended where one of the tail's did.
#[derive(Debug)]
pub struct TableFollower<B>(Place<B>);

#[derive(Debug)]
enum Place<B> {
    /// At an index of the tail.
    At(u64),
    /// Reading for themselves, up to where a pass of the tail ended.
    Behind { up_to: Option<Aim<B>> },
}

#[derive(Debug)]
struct Aim<B> {
    index: u64,
    of: B,
    /// Whether the pass that is under way is of its moment, and not of one that a reader has come with.
    has_begun: bool,
}

/// What a follower does next.
#[derive(Debug, PartialEq, Eq)]
pub enum FollowerStep<'a, C, B> {
    /// Tells this change.
    Tell(&'a C),
    /// Reads a page of the table from the last cursor on; if a pass begins with it, that is of the moment of this end of a pass.
    Read(&'a B),
    /// Was told everything, and waits until the tail grows.
    Wait,
    /// Waits until another pass of the tail has ended.
    WaitForPass,
}

impl<B: Clone> TableFollower<B> {
    /// Goes on at an index of the tail.
    pub fn at(index: u64) -> Self {
        Self(Place::At(index))
    }

    /// Goes on from a cursor of the table.
    pub fn behind() -> Self {
        Self(Place::Behind { up_to: None })
    }

    /// What to do next. `may_begin` says of the end of a pass whether its moment is no earlier than that of the follower's last one.
    pub fn next<'a, C>(
        &'a mut self,
        tail: &'a TableTail<C, B>,
        may_begin: impl FnOnce(&B) -> bool,
    ) -> FollowerStep<'a, C, B> {
        if let Place::At(index) = &mut self.0 {
            match tail.at(*index) {
                Found::Change(change) => {
                    *index += 1;
                    return FollowerStep::Tell(change);
                }
                Found::Ahead => return FollowerStep::Wait,
                Found::Gone => self.0 = Place::Behind { up_to: None },
            }
        }
        let Place::Behind { up_to } = &mut self.0 else { return FollowerStep::WaitForPass };
        if !up_to.as_ref().is_some_and(|aim| aim.has_begun) {
            let newest = tail.newest().filter(|end| may_begin(end.of));
            *up_to = newest.map(|Boundary { index, of }| Aim { index, of: of.clone(), has_begun: false });
        }
        up_to.as_ref().map_or(FollowerStep::WaitForPass, |aim| FollowerStep::Read(&aim.of))
    }

    /// Takes in that a page was read, whether a pass began with it, and whether there is more of it.
    pub fn handle_page<C>(&mut self, tail: &TableTail<C, B>, has_begun: bool, has_more: bool) {
        let Place::Behind { up_to: Some(aim) } = &mut self.0 else { return };
        aim.has_begun |= has_begun;
        if !has_more {
            let joins = aim.has_begun && tail.keeps(aim.index);
            self.0 = if joins { Place::At(aim.index) } else { Place::Behind { up_to: None } };
        }
    }

    /// Whether all that was found up to the end of the last pass was told.
    pub fn is_through<C>(&self, tail: &TableTail<C, B>) -> bool {
        matches!((&self.0, tail.newest()), (Place::At(at), Some(Boundary { index, .. })) if *at == index)
    }
}
