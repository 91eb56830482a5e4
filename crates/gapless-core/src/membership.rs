//! Who may see which part of a conversation.

use gapless_proto::Seq;

/// What a new member may see of the time before they joined. A property of the conversation, applied when someone joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum History {
    /// Nothing: their first visible entry is their own join.
    #[default]
    FromJoin,
    /// Everything since the first entry.
    All,
}

impl History {
    /// The policy's name in requests and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FromJoin => "from_join",
            Self::All => "all",
        }
    }

    /// Reads a policy's name; `None` when there is no such policy.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "from_join" => Some(Self::FromJoin),
            "all" => Some(Self::All),
            _ => None,
        }
    }

    /// The first seq that a user sees who joins with the entry `joined`, given where their former membership ended.
    ///
    /// Successive intervals never overlap, whatever the policy, so the visible part is a plain union.
    pub fn visible_from(self, joined: Seq, former_end: Option<Seq>) -> Seq {
        match (self, former_end) {
            (Self::FromJoin, _) => joined,
            (Self::All, None) => Seq::FIRST,
            (Self::All, Some(end)) => end.next(),
        }
    }
}

/// One visible stretch of a conversation, both ends inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Interval {
    /// The first visible seq.
    pub from: Seq,
    /// The last visible seq: the user's own leave entry. `None` while they are a member.
    pub to: Option<Seq>,
}

impl Interval {
    /// Whether `seq` lies inside.
    pub fn contains(&self, seq: Seq) -> bool {
        self.from <= seq && self.to.is_none_or(|to| seq <= to)
    }
}

/// How a user stands to a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberState {
    /// They were never in it, and may not learn that it exists.
    Never,
    /// They are in it.
    Member {
        /// The seq of their latest join entry.
        joined: Seq,
    },
    /// They were in it.
    Former {
        /// The seq of their latest leave entry.
        left: Seq,
        /// Whether they went by themselves; only then may they come back by themselves.
        by_themselves: bool,
    },
}

/// A membership as the stores keep it: one row an interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MembershipRow {
    /// What the user may see because of it.
    pub visible: Interval,
    /// The seq of the join entry.
    pub joined: Seq,
    /// Whether the user ended it by themselves; meaningless while it lasts.
    pub left_by_themselves: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seq(number: u64) -> Seq {
        Seq::new(number).expect("a small number")
    }

    #[test]
    fn a_joiner_sees_from_their_own_join_entry_on() {
        assert_eq!(History::FromJoin.visible_from(seq(8), None), seq(8));
        assert_eq!(History::FromJoin.visible_from(seq(8), Some(seq(3))), seq(8));
    }

    #[test]
    fn full_history_leaves_no_hole_and_no_overlap_between_memberships() {
        assert_eq!(History::All.visible_from(seq(8), None), seq(1));
        assert_eq!(History::All.visible_from(seq(8), Some(seq(3))), seq(4));
    }

    #[test]
    fn an_interval_holds_both_of_its_ends() {
        let interval = Interval { from: seq(3), to: Some(seq(5)) };
        let inside: Vec<_> = (1..8).filter(|n| interval.contains(seq(*n))).collect();
        assert_eq!(inside, [3, 4, 5]);
    }
}
