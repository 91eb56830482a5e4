//! What a group commit does to the feeds it has locked.
//!
//! A store locks the feeds that a batch of [`Append`]s is for, loads what [`AppendBatch::new`] asks for, and lets
//! [`AppendBatch::push`] decide each append in the order of arrival. Then it writes what the batch says, in the same
//! transaction, and answers with the outcomes once that has committed.

use std::collections::BTreeMap;

use gapless_proto::{
    Body, ConvId, Entry, Epoch, Key, Kind, MembershipChange, Position, Seq, Timestamp, UserId,
};
use sha2::{Digest, Sha256};

use crate::{History, Interval, MemberState, MembershipRow};

#[cfg(test)]
mod tests;

/// Something to be appended to a conversation's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Append {
    /// Which conversation.
    pub conv: ConvId,
    /// On whose authority.
    pub authority: Authority,
    /// What.
    pub operation: Operation,
}

/// On whose authority something is appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authority {
    /// The acting user's own: they must be a member.
    Member,
    /// A trusted backend's, which acts for anyone.
    Service,
}

/// What is appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// A message.
    Message {
        /// Whose it is.
        sender: UserId,
        /// The sender's name for it.
        key: Key,
        /// The content.
        body: Body,
    },
    /// Makes a user a member.
    Join {
        /// Who becomes a member.
        user: UserId,
        /// Who adds them; the user themselves when they come back.
        by: UserId,
    },
    /// Ends a user's membership.
    Leave {
        /// Who ceases to be a member.
        user: UserId,
        /// Who removes them; the user themselves when they leave.
        by: UserId,
    },
}

impl Append {
    /// The users whose [`MemberState`] the decision depends on.
    pub fn users(&self) -> impl Iterator<Item = &UserId> {
        let (first, second) = match &self.operation {
            Operation::Message { sender, .. } => (sender, None),
            Operation::Join { user, by } | Operation::Leave { user, by } => (user, Some(by)),
        };
        std::iter::once(first).chain(second)
    }

    /// The sender's key, whose earlier use the decision depends on.
    pub fn key(&self) -> Option<(&UserId, &Key)> {
        match &self.operation {
            Operation::Message { sender, key, .. } => Some((sender, key)),
            Operation::Join { .. } | Operation::Leave { .. } => None,
        }
    }

    /// How many bytes of content it brings, for bounds on what may wait.
    pub fn bytes(&self) -> usize {
        match &self.operation {
            Operation::Message { body, .. } => body.as_str().len(),
            Operation::Join { .. } | Operation::Leave { .. } => 0,
        }
    }
}

/// The answer to an append that took effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Where the entry is.
    pub position: Position,
    /// When the store took it.
    pub ts: Timestamp,
    /// Whether it was there already.
    pub duplicate: bool,
}

/// Why an append was refused. Nothing was stored and no seq used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendRefusal {
    /// There is no such conversation, or none that the acting user may know of.
    #[error("there is no such conversation; create it first, or have a member add you")]
    NotFound,
    /// The acting user was a member once.
    #[error("you are no longer a member of this conversation; have a member add you again")]
    NoLongerMember,
    /// The acting user may not change this membership.
    #[error("only the conversation's creator or a backend may remove somebody else")]
    NotAllowed,
    /// The membership that is to end never was. Only those learn it who may end it.
    #[error("that user was never a member of this conversation; see that the id is right")]
    NeverMember,
    /// The key was used before with other content.
    #[error("the key was used for another message (seq {seq}); give this one a key of its own")]
    KeyConflict {
        /// The seq of the entry that has the key.
        seq: Seq,
    },
}

/// What an append came to.
pub type AppendOutcome = Result<Appended, AppendRefusal>;

/// A feed's row, as it was locked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedRow {
    /// The life of the log.
    pub epoch: Epoch,
    /// The newest seq.
    pub head: Seq,
    /// What joiners may see.
    pub history: History,
    /// Who created the conversation; may remove others.
    pub creator: UserId,
    /// How many members there are.
    pub members: u64,
}

/// An entry that has a key, as far as a later use of the key needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredKey {
    /// The entry's seq.
    pub seq: Seq,
    /// When the store took it.
    pub ts: Timestamp,
    /// What it said.
    pub content: StoredContent,
}

/// What is kept of a body to recognise it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredContent {
    /// The body itself.
    Body(Body),
    /// The SHA-256 of its text, once the entry is trimmed.
    Digest([u8; 32]),
}

impl StoredContent {
    /// The SHA-256 of a body's text.
    pub fn digest(body: &Body) -> [u8; 32] {
        Sha256::digest(body.as_str()).into()
    }

    fn is(&self, body: &Body) -> bool {
        match self {
            Self::Body(stored) => stored == body,
            Self::Digest(digest) => *digest == Self::digest(body),
        }
    }
}

/// What is known of one feed in a batch; what isn't in the maps doesn't exist.
#[derive(Debug, Clone)]
pub struct FeedState {
    /// The row.
    pub row: FeedRow,
    /// The latest membership of each user that some append of the batch names and who ever was a member.
    pub memberships: BTreeMap<UserId, MembershipRow>,
    /// Those keys of the batch that were used before.
    pub keys: BTreeMap<(UserId, Key), StoredKey>,
}

impl FeedState {
    /// A feed that nobody is in and nothing was said in.
    pub fn created(epoch: Epoch, history: History, creator: UserId) -> Self {
        let row = FeedRow { epoch, head: Seq::ZERO, history, creator, members: 0 };
        Self { row, memberships: BTreeMap::new(), keys: BTreeMap::new() }
    }

    fn member_state(&self, user: &UserId) -> MemberState {
        let Some(membership) = self.memberships.get(user) else {
            return MemberState::Never;
        };
        match membership.visible.to {
            None => MemberState::Member { joined: membership.joined },
            Some(left) => MemberState::Former { left, by_themselves: membership.left_by_themselves },
        }
    }
}

/// One group commit: the feeds it has locked, and what it will write.
#[derive(Debug)]
pub struct AppendBatch {
    now: Timestamp,
    feeds: BTreeMap<ConvId, FeedState>,
    /// Entries to insert, in seq order within each feed.
    entries: Vec<(ConvId, Entry)>,
    /// Memberships to insert or, where the join seq exists already, to overwrite.
    memberships: BTreeMap<(ConvId, UserId, Seq), MembershipRow>,
}

impl AppendBatch {
    /// Begins a batch over the feeds that were locked.
    pub fn new(now: Timestamp, feeds: BTreeMap<ConvId, FeedState>) -> Self {
        Self { now, feeds, entries: Vec::new(), memberships: BTreeMap::new() }
    }

    /// Decides the next append, in the order of arrival.
    pub fn push(&mut self, append: &Append) -> AppendOutcome {
        let Some(feed) = self.feeds.get(&append.conv) else {
            return Err(AppendRefusal::NotFound);
        };
        match &append.operation {
            Operation::Message { sender, key, body } => {
                if let Some(stored) = feed.keys.get(&(sender.clone(), key.clone())) {
                    return repeated(feed.row.epoch, stored, body);
                }
                may_send(append.authority, feed.member_state(sender))?;
                Ok(self.append_message(&append.conv, sender, key, body))
            }
            Operation::Join { user, by } => {
                if let MemberState::Member { joined } = feed.member_state(user) {
                    may_look(append.authority, feed.member_state(by))?;
                    return Ok(self.already(feed, joined));
                }
                may_add(append.authority, user, by, feed)?;
                Ok(self.join(&append.conv, user, by))
            }
            Operation::Leave { user, by } => {
                may_remove(append.authority, user, by, feed)?;
                match feed.member_state(user) {
                    MemberState::Never => Err(AppendRefusal::NeverMember),
                    MemberState::Former { left, .. } => Ok(self.already(feed, left)),
                    MemberState::Member { .. } => Ok(self.leave(&append.conv, user, by)),
                }
            }
        }
    }

    /// The entries to insert, in seq order within each feed.
    pub fn entries(&self) -> &[(ConvId, Entry)] {
        &self.entries
    }

    /// The membership rows to write, by conversation, user and join seq.
    pub fn memberships(&self) -> impl Iterator<Item = (&ConvId, &UserId, &MembershipRow)> {
        self.memberships.iter().map(|((conv, user, _), row)| (conv, user, row))
    }

    /// The feed rows that changed, in id order, with their new head and count of members.
    pub fn changed_feeds(&self) -> impl Iterator<Item = (&ConvId, &FeedRow)> {
        let mut changed: Vec<&ConvId> = self.entries.iter().map(|(conv, _)| conv).collect();
        changed.sort_unstable();
        changed.dedup();
        changed.into_iter().filter_map(|conv| Some((conv, &self.feeds.get(conv)?.row)))
    }

    fn already(&self, feed: &FeedState, seq: Seq) -> Appended {
        Appended { position: Position { epoch: feed.row.epoch, seq }, ts: self.now, duplicate: true }
    }

    fn append_message(&mut self, conv: &ConvId, sender: &UserId, key: &Key, body: &Body) -> Appended {
        let appended = self.append_entry(conv, Kind::Message, sender, Some(key), body.clone());
        let stored = StoredKey {
            seq: appended.position.seq,
            ts: appended.ts,
            content: StoredContent::Body(body.clone()),
        };
        self.feed_mut(conv).keys.insert((sender.clone(), key.clone()), stored);
        appended
    }

    fn join(&mut self, conv: &ConvId, user: &UserId, by: &UserId) -> Appended {
        let appended = self.append_entry(conv, Kind::Join, by, None, membership_body(user));
        let joined = appended.position.seq;
        let feed = self.feed_mut(conv);
        let former_end = feed.memberships.get(user).and_then(|former| former.visible.to);
        let from = feed.row.history.visible_from(joined, former_end);
        feed.row.members += 1;
        let row = MembershipRow { visible: Interval { from, to: None }, joined, left_by_themselves: false };
        self.write_membership(conv, user, row);
        appended
    }

    fn leave(&mut self, conv: &ConvId, user: &UserId, by: &UserId) -> Appended {
        let appended = self.append_entry(conv, Kind::Leave, by, None, membership_body(user));
        let feed = self.feed_mut(conv);
        feed.row.members = feed.row.members.saturating_sub(1);
        let Some(mut row) = feed.memberships.get(user).cloned() else {
            unreachable!("only members leave");
        };
        row.visible.to = Some(appended.position.seq);
        row.left_by_themselves = user == by;
        self.write_membership(conv, user, row);
        appended
    }

    fn write_membership(&mut self, conv: &ConvId, user: &UserId, row: MembershipRow) {
        self.feed_mut(conv).memberships.insert(user.clone(), row.clone());
        self.memberships.insert((conv.clone(), user.clone(), row.joined), row);
    }

    fn append_entry(
        &mut self,
        conv: &ConvId,
        kind: Kind,
        sender: &UserId,
        key: Option<&Key>,
        body: Body,
    ) -> Appended {
        let ts = self.now;
        let row = &mut self.feed_mut(conv).row;
        row.head = row.head.next();
        let position = Position { epoch: row.epoch, seq: row.head };
        let entry = Entry { seq: position.seq, kind, sender: sender.clone(), key: key.cloned(), ts, body };
        self.entries.push((conv.clone(), entry));
        Appended { position, ts, duplicate: false }
    }

    fn feed_mut(&mut self, conv: &ConvId) -> &mut FeedState {
        self.feeds.get_mut(conv).expect("an append is decided only for a feed that is there")
    }
}

fn repeated(epoch: Epoch, stored: &StoredKey, body: &Body) -> AppendOutcome {
    if !stored.content.is(body) {
        return Err(AppendRefusal::KeyConflict { seq: stored.seq });
    }
    Ok(Appended { position: Position { epoch, seq: stored.seq }, ts: stored.ts, duplicate: true })
}

fn membership_body(user: &UserId) -> Body {
    Body::from_value(&MembershipChange { user: user.clone() }).expect("an id is a text")
}

/// Whether a user may learn how things stand.
fn may_look(authority: Authority, state: MemberState) -> Result<(), AppendRefusal> {
    match (authority, state) {
        (Authority::Service, _) | (Authority::Member, MemberState::Member { .. }) => Ok(()),
        (Authority::Member, MemberState::Former { .. }) => Err(AppendRefusal::NoLongerMember),
        (Authority::Member, MemberState::Never) => Err(AppendRefusal::NotFound),
    }
}

fn may_send(authority: Authority, sender: MemberState) -> Result<(), AppendRefusal> {
    may_look(authority, sender)
}

/// Members add others; those who left by themselves may come back by themselves.
fn may_add(authority: Authority, user: &UserId, by: &UserId, feed: &FeedState) -> Result<(), AppendRefusal> {
    let state = feed.member_state(by);
    match state {
        MemberState::Former { by_themselves: true, .. } if user == by => Ok(()),
        MemberState::Never | MemberState::Member { .. } | MemberState::Former { .. } => {
            may_look(authority, state)
        }
    }
}

/// Everyone may leave, also twice; others are removed by the conversation's creator.
fn may_remove(
    authority: Authority,
    user: &UserId,
    by: &UserId,
    feed: &FeedState,
) -> Result<(), AppendRefusal> {
    let state = feed.member_state(by);
    match (authority, state) {
        (Authority::Service, _) => return Ok(()),
        (Authority::Member, MemberState::Former { .. }) if user == by => return Ok(()),
        (Authority::Member, _) => may_look(authority, state)?,
    }
    if user != by && *by != feed.row.creator {
        return Err(AppendRefusal::NotAllowed);
    }
    Ok(())
}
