//! Order, paging and positions of a conversation.
//!
//! Each begins with a database and a server of its own.

mod concurrent_total_order;
mod control_max_seen;
mod control_offset_paging;
mod control_sequence;
mod cursor_ahead_and_epoch;
mod out_of_order;
mod paging_under_writes;

use crate::database::Databases;
use crate::finding::{Check, Finding};
use crate::world::World;

/// One of the experiments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Experiment {
    ConcurrentTotalOrder,
    PagingUnderWrites,
    OutOfOrderContiguous,
    CursorAheadAndEpoch,
    ControlOffsetPaging,
    ControlMaxSeenSkips,
    ControlMaxSeenPermanent,
    ControlSequenceCommitOrder,
}

impl Experiment {
    /// All of them, in the order in which they run.
    pub(super) const ALL: &[Self] = &[
        Self::ConcurrentTotalOrder,
        Self::PagingUnderWrites,
        Self::OutOfOrderContiguous,
        Self::CursorAheadAndEpoch,
        Self::ControlOffsetPaging,
        Self::ControlMaxSeenSkips,
        Self::ControlMaxSeenPermanent,
        Self::ControlSequenceCommitOrder,
    ];

    /// Its name, as users quote it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::ConcurrentTotalOrder => "07-concurrent-total-order",
            Self::PagingUnderWrites => "07-paging-under-writes",
            Self::OutOfOrderContiguous => "07-out-of-order-contiguous",
            Self::CursorAheadAndEpoch => "07-cursor-ahead-and-epoch",
            Self::ControlOffsetPaging => "07-control-offset-paging",
            Self::ControlMaxSeenSkips => "07-control-max-seen-skips",
            Self::ControlMaxSeenPermanent => "07-control-max-seen-permanent",
            Self::ControlSequenceCommitOrder => "07-control-sequence-commit-order",
        }
    }

    const fn claim(self) -> &'static str {
        match self {
            Self::ConcurrentTotalOrder => {
                "Three users send 50 messages each at the same time; all of them read the same log, without a hole."
            }
            Self::PagingUnderWrites => {
                "Pages of 20 from the beginning, while another appends 60: every entry once, up to the head."
            }
            Self::OutOfOrderContiguous => {
                "The newest entry is pushed before the first page of many arrives; the cursor stays contiguous."
            }
            Self::CursorAheadAndEpoch => {
                "A position of a log that was rewound gets a named answer, and the client starts over once."
            }
            Self::ControlOffsetPaging => {
                "Newest-first OFFSET pages of 10 over 30 rows, 3 rows inserted between two of them: duplicates."
            }
            Self::ControlMaxSeenSkips => {
                "One push is lost; a cursor that is the largest seq seen jumps over it."
            }
            Self::ControlMaxSeenPermanent => {
                "What a largest-seen cursor has jumped, no later sync, push or restart brings back."
            }
            Self::ControlSequenceCommitOrder => {
                "Numbers from a sequence, the later commits first: a reader skips the earlier for ever."
            }
        }
    }

    fn is_control(self) -> bool {
        self.name().contains("-control-")
    }

    /// Carries it out.
    pub(super) async fn find(self, databases: &Databases) -> Finding {
        let (checks, failure) = match self.carry_out(databases).await {
            Ok(checks) => (checks, None),
            Err(error) => (Vec::new(), Some(format!("{error:#}"))),
        };
        Finding {
            name: self.name(),
            claim: self.claim(),
            is_control: self.is_control(),
            checks,
            exhibits: Vec::new(),
            failure,
        }
    }

    async fn carry_out(self, databases: &Databases) -> anyhow::Result<Vec<Check>> {
        let mut world = World::begin(databases).await?;
        let checks = match self {
            Self::ConcurrentTotalOrder => concurrent_total_order::run(&world).await,
            Self::PagingUnderWrites => paging_under_writes::run(&world).await,
            Self::OutOfOrderContiguous => out_of_order::run(&world).await,
            Self::CursorAheadAndEpoch => cursor_ahead_and_epoch::run(&mut world).await,
            Self::ControlOffsetPaging => control_offset_paging::run(&world).await,
            Self::ControlMaxSeenSkips => control_max_seen::skips(&world).await,
            Self::ControlMaxSeenPermanent => control_max_seen::permanent(&mut world).await,
            Self::ControlSequenceCommitOrder => control_sequence::run(&world).await,
        }?;
        world.end().await?;
        Ok(checks)
    }
}

/// How many seqs of `1 ..= head` are missing.
fn holes(seqs: &[u64], head: u64) -> u64 {
    (1..=head).filter(|seq| !seqs.contains(seq)).count() as u64
}

/// How many of them came before.
fn duplicates(seqs: &[u64]) -> u64 {
    let distinct: std::collections::BTreeSet<_> = seqs.iter().collect();
    (seqs.len() - distinct.len()) as u64
}
