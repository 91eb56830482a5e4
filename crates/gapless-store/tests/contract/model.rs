//! What a conversation must show to whom, told once more in the plainest way: every user has the set of seqs that they may see.

use std::collections::BTreeSet;

use gapless_core::History;
use proptest::prelude::{Just, Strategy, prop_oneof};

/// How many users a history is about; the first creates the conversation.
pub(crate) const USERS: usize = 4;

/// What happens next.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    Join(usize),
    Leave(usize),
    Say,
    Trim { of_head_percent: u64 },
}

/// A history policy, a page size, and what happens.
pub(crate) fn histories() -> impl Strategy<Value = (History, u32, Vec<Step>)> {
    let step = prop_oneof![
        4 => (1..USERS).prop_map(Step::Join),
        4 => (1..USERS).prop_map(Step::Leave),
        4 => Just(Step::Say),
        1 => (0..=100u64).prop_map(|of_head_percent| Step::Trim { of_head_percent }),
    ];
    let history = prop_oneof![Just(History::FromJoin), Just(History::All)];
    let limit = prop_oneof![Just(1), Just(2), Just(3), Just(200)];
    (history, limit, proptest::collection::vec(step, 1..30))
}

/// What a page shows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) seqs: Vec<u64>,
    pub(crate) has_more: bool,
    pub(crate) next_after: u64,
    pub(crate) trimmed: bool,
}

pub(crate) struct Model {
    history: History,
    head: u64,
    min_seq: u64,
    users: [User; USERS],
}

#[derive(Default, Clone)]
struct User {
    is_member: bool,
    was_member: bool,
    /// The latest leave entry; 0 before there is any.
    left: u64,
    visible: BTreeSet<u64>,
}

impl Model {
    /// A conversation that the first user has created.
    pub(crate) fn created(history: History) -> Self {
        let mut model =
            Self { history, head: 0, min_seq: 1, users: std::array::from_fn(|_| User::default()) };
        model.take(Step::Join(0));
        model
    }

    pub(crate) fn take(&mut self, step: Step) {
        match step {
            Step::Join(who) => self.join(who),
            Step::Leave(who) => self.leave(who),
            Step::Say => self.append(),
            Step::Trim { of_head_percent } => {
                self.min_seq = self.min_seq.max(self.head * of_head_percent / 100 + 1);
            }
        }
    }

    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    /// What a user is shown after a cursor; `None` when they never were there.
    pub(crate) fn page(&self, who: usize, after: u64, limit: u32) -> Option<Shown> {
        let user = &self.users[who];
        let kept: Vec<u64> = user.visible.range(self.min_seq.max(after + 1)..).copied().collect();
        let seqs: Vec<u64> = kept.iter().copied().take(limit as usize).collect();
        let has_more = kept.len() > seqs.len();
        user.was_member.then(|| Shown {
            has_more,
            next_after: match seqs.last() {
                Some(last) if has_more => *last,
                // What follows may become visible yet, so no cursor passes it.
                _ if self.history == History::All && !user.is_member => user.left.max(after),
                _ => self.head,
            },
            trimmed: (after + 1..self.min_seq).any(|seq| user.visible.contains(&seq)),
            seqs,
        })
    }

    fn join(&mut self, who: usize) {
        if self.users[who].is_member {
            return;
        }
        if self.history == History::All {
            self.users[who].visible.extend(1..=self.head);
        }
        self.users[who].is_member = true;
        self.users[who].was_member = true;
        self.append();
    }

    fn leave(&mut self, who: usize) {
        if self.users[who].is_member {
            self.append();
            self.users[who].is_member = false;
            self.users[who].left = self.head;
        }
    }

    fn append(&mut self) {
        self.head += 1;
        for user in self.users.iter_mut().filter(|user| user.is_member) {
            user.visible.insert(self.head);
        }
    }
}
