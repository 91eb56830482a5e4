//! Who is connected to this gateway, and what they are told.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use gapless_proto::{ConvId, Entry, Epoch, Kind, MembershipChange, Position, Seq, UserId};

use crate::Interval;
use crate::hub::audience::{Audience, Continuity};

mod audience;
#[cfg(test)]
mod tests;

/// Knows which session wants which feed, and decides what each is pushed.
///
/// News of a feed is taken in seq order only; where some is missing, the hub asks for the log ([`HubCommand::Fetch`]) and goes on
/// from there. Since joins and leaves are entries, it so knows at every entry who may see it (G11).
///
/// A session is entered in three steps: [`Self::handle_connected`], then [`Self::handle_standing`] for each conversation
/// that the store says its user is or was in, then [`Self::handle_loaded`]. What changes in between is not lost: the session is
/// registered first. Only then may the session answer its first `sync`, so that the page covers what wasn't pushed yet.
///
/// `S` names a session, `F` is an encoded entry, shared by all who get it.
#[derive(Debug)]
pub struct Hub<S, F> {
    config: HubConfig,
    users: BTreeMap<UserId, BTreeSet<S>>,
    sessions: BTreeMap<S, Session>,
    feeds: BTreeMap<ConvId, Audience<S>>,
    commands: VecDeque<HubCommand<S, F>>,
}

/// The limits and times of a [`Hub`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HubConfig {
    /// Conversations with more members than this are hinted, not pushed.
    pub pushed_members_max: u64,
    /// How long a reader may lag behind before it is hinted.
    pub lag_max: Duration,
    /// The longest time between two hints to a reader that doesn't react.
    pub hint_interval_max: Duration,
    /// A feed that is further behind than this isn't read entry by entry; its readers are hinted and looked up anew.
    pub fetched_entries_max: u64,
}

impl Default for HubConfig {
    fn default() -> Self {
        Self {
            pushed_members_max: 500,
            lag_max: Duration::from_secs(3),
            hint_interval_max: Duration::from_secs(60),
            fetched_entries_max: 2_000,
        }
    }
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HubCommand<S, F> {
    /// Queue an entry for a session.
    Push {
        /// Whom to.
        session: S,
        /// Of which conversation.
        conv: ConvId,
        /// Where the entry is.
        position: Position,
        /// The entry.
        frame: F,
    },
    /// Queue a hint for a session.
    Hint {
        /// Whom to.
        session: S,
        /// Of which conversation.
        conv: ConvId,
        /// The newest position that they may see.
        position: Position,
    },
    /// Read the feed's log and hand it to [`Hub::handle_log`].
    Fetch {
        /// Which feed.
        conv: ConvId,
        /// After which seq.
        after: Seq,
    },
    /// Look up the session's standing in the store and hand it to [`Hub::handle_looked_up`]; end the session if that
    /// fails.
    LookUp {
        /// Whose.
        session: S,
        /// In which conversation.
        conv: ConvId,
    },
}

/// What was appended to one feed, or where it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedNews<F> {
    /// The feed.
    pub conv: ConvId,
    /// Its position after this.
    pub position: Position,
    /// How many members it has after this.
    pub members: u64,
    /// What was appended, in seq order; may be empty.
    pub entries: Vec<Fresh<F>>,
}

/// A new entry, and its frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fresh<F> {
    /// The entry.
    pub entry: Entry,
    /// The same as it goes out.
    pub frame: F,
}

/// How a session's user stands to a conversation, as the store had it at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// The conversation.
    pub conv: ConvId,
    /// Where the feed was at that moment.
    pub position: Position,
    /// How many members it had.
    pub members: u64,
    /// The latest interval of the user.
    pub latest: Interval,
}

/// Where news comes from.
#[derive(Debug, Clone, Copy)]
enum Source {
    /// A commit; what is missing stands in the log.
    News,
    /// The log itself; what is missing is nowhere.
    Log,
}

#[derive(Debug)]
struct Session {
    user: UserId,
    /// The conversations that it reads.
    feeds: BTreeSet<ConvId>,
    /// How many reads of its standings are under way.
    look_ups: u32,
    /// What its user left meanwhile, and with which entry: the store may have answered before that.
    left_meanwhile: BTreeMap<ConvId, Position>,
    /// What its user has left and read to that end.
    read_out: BTreeMap<ConvId, Position>,
}

impl Session {
    /// Whether it was read to its end what a standing lets its user see.
    fn has_read_out(&self, standing: &Standing) -> bool {
        let end = standing.latest.to.map(|to| Position { epoch: standing.position.epoch, seq: to });
        end.is_some_and(|end| self.read_out.get(&standing.conv).is_some_and(|read| *read >= end))
    }
}

impl<S: Clone + Ord, F: Clone> Hub<S, F> {
    /// A hub that nobody is connected to.
    pub fn new(config: HubConfig) -> Self {
        Self {
            config,
            users: BTreeMap::new(),
            sessions: BTreeMap::new(),
            feeds: BTreeMap::new(),
            commands: VecDeque::new(),
        }
    }

    /// Registers a session, before its user's standings are read from the store.
    pub fn handle_connected(&mut self, session: S, user: UserId) {
        self.users.entry(user.clone()).or_default().insert(session.clone());
        let entered = Session {
            user,
            feeds: BTreeSet::new(),
            look_ups: 1,
            left_meanwhile: BTreeMap::new(),
            read_out: BTreeMap::new(),
        };
        self.sessions.insert(session, entered);
    }

    /// Registers that a session's standings are about to be read anew; hand them in as after [`Self::handle_connected`], and call
    /// [`Self::handle_loaded`] also if reading them fails. Returns whether the session is still there.
    ///
    /// News that is lost is noticed at the feeds that are read here. A join to another one, and a rewind that makes somebody a
    /// member again, are noticed only by this, so each session is due for it now and then (G7).
    pub fn handle_reloading(&mut self, session: &S) -> bool {
        let entered = self.sessions.get_mut(session);
        entered.map(|entered| entered.look_ups += 1).is_some()
    }

    /// Enters a session as a reader of a conversation. Does nothing when it is one already, has read all that it may, or
    /// is gone.
    pub fn handle_standing(&mut self, session: &S, standing: Standing, now: Instant) {
        let Some(entered) = self.sessions.get(session) else {
            return;
        };
        if entered.feeds.contains(&standing.conv) || entered.has_read_out(&standing) {
            return;
        }
        let mut visible = standing.latest;
        let left = entered.left_meanwhile.get(&standing.conv);
        if let Some(left) = left.filter(|left| **left > standing.position) {
            visible.to.get_or_insert(left.seq);
        }
        let audience = self
            .feeds
            .entry(standing.conv.clone())
            .or_insert_with(|| Audience::new(standing.position, standing.members));
        if audience.position().epoch < standing.position.epoch {
            self.rewind(&standing.conv, standing.position, standing.members);
        } else if !audience.has_heard_all_after(standing.position) {
            // The user may have left since, unheard.
            self.look_up(session.clone(), standing.conv);
            return;
        }
        self.enter(session, &standing.conv, visible, now);
    }

    /// Ends a session's loading: all its standings were handed in.
    pub fn handle_loaded(&mut self, session: &S) {
        self.looked_up(session);
    }

    /// Takes what [`HubCommand::LookUp`] asked for; `None` when the user never was in that conversation.
    pub fn handle_looked_up(&mut self, session: &S, conv: &ConvId, standing: Option<Standing>, now: Instant) {
        if let Some(standing) = standing {
            self.handle_standing(session, standing, now);
        } else if self.feeds.get(conv).is_some_and(Audience::is_empty) {
            self.feeds.remove(conv);
        }
        self.looked_up(session);
    }

    /// Forgets a session.
    pub fn handle_disconnected(&mut self, session: &S) {
        let Some(gone) = self.sessions.remove(session) else {
            return;
        };
        if let Some(sessions) = self.users.get_mut(&gone.user) {
            sessions.remove(session);
            if sessions.is_empty() {
                self.users.remove(&gone.user);
            }
        }
        for conv in gone.feeds {
            self.leave_audience(session, &conv);
        }
    }

    /// Takes what a commit did to a feed. News may come late, twice or not at all.
    pub fn handle_news(&mut self, news: FeedNews<F>, now: Instant) {
        self.take(news, Source::News, now);
    }

    /// Takes the log that [`HubCommand::Fetch`] asked for: everything after the seq it named, or the first part of it. What
    /// is missing in it is trimmed.
    pub fn handle_log(&mut self, log: FeedNews<F>, now: Instant) {
        if let Some(audience) = self.feeds.get_mut(&log.conv) {
            audience.fetched();
        }
        self.take(log, Source::Log, now);
    }

    /// Takes that the log couldn't be read. The next news or heads try again.
    pub fn handle_fetch_failed(&mut self, conv: &ConvId) {
        if let Some(audience) = self.feeds.get_mut(conv) {
            audience.fetched();
        }
    }

    /// Takes a client's word that it keeps everything visible up to `cursor`.
    pub fn handle_ack(
        &mut self,
        session: &S,
        conv: &ConvId,
        cursor: Seq,
        epoch: Option<Epoch>,
        now: Instant,
    ) {
        let Some(audience) = self.feeds.get_mut(conv) else {
            return;
        };
        let known = audience.position();
        if epoch.is_some_and(|epoch| epoch != known.epoch) {
            if let Some(position) = audience.visible_position(session) {
                self.commands.push_back(HubCommand::Hint {
                    session: session.clone(),
                    conv: conv.clone(),
                    position,
                });
            }
            return;
        }
        if let Some(end) = audience.ack(session, cursor, self.config.lag_max, now) {
            self.leave_audience(session, conv);
            if let Some(entered) = self.sessions.get_mut(session) {
                entered.feeds.remove(conv);
                entered.read_out.insert(conv.clone(), Position { epoch: known.epoch, seq: end });
            }
        }
    }

    /// Hints every reader that has lagged behind for too long. Call it about every second.
    pub fn handle_sweep(&mut self, now: Instant) {
        for (conv, audience) in &mut self.feeds {
            for (session, position) in
                audience.lagging(self.config.lag_max, self.config.hint_interval_max, now)
            {
                self.commands.push_back(HubCommand::Hint { session, conv: conv.clone(), position });
            }
        }
    }

    /// What to do next.
    pub fn poll_command(&mut self) -> Option<HubCommand<S, F>> {
        self.commands.pop_front()
    }

    /// The feeds that somebody here reads, in id order, beginning after `after`.
    pub fn feeds_after(&self, after: Option<&ConvId>, limit: usize) -> Vec<ConvId> {
        use std::ops::Bound;
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.feeds
            .range::<ConvId, _>((from, Bound::Unbounded))
            .take(limit)
            .map(|(conv, _)| conv.clone())
            .collect()
    }

    /// Sessions in their order, beginning after `after`.
    pub fn sessions_after(&self, after: Option<&S>, limit: usize) -> Vec<S> {
        use std::ops::Bound;
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.sessions
            .range((from, Bound::Unbounded))
            .take(limit)
            .map(|(session, _)| session.clone())
            .collect()
    }

    /// The sessions of a user.
    pub fn sessions_of(&self, user: &UserId) -> Vec<S> {
        self.users.get(user).into_iter().flatten().cloned().collect()
    }

    /// All sessions, in order.
    pub fn sessions(&self) -> impl Iterator<Item = &S> {
        self.sessions.keys()
    }

    /// How many sessions there are.
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    fn take(&mut self, news: FeedNews<F>, source: Source, now: Instant) {
        self.note_leaves(&news);
        if !self.feeds.contains_key(&news.conv) && !self.open_audience(&news) {
            return;
        }
        let (conv, joined) = (news.conv.clone(), joined(&news));
        self.advance(news, source, now);
        self.note_unheard_joins(&conv, joined);
    }

    /// Remembers leaves for sessions whose standings are being read: the store may have answered before the leave.
    fn note_leaves(&mut self, news: &FeedNews<F>) {
        for fresh in news.entries.iter().filter(|fresh| fresh.entry.kind == Kind::Leave) {
            let Some(user) = concerned(&fresh.entry) else {
                continue;
            };
            let position = Position { epoch: news.position.epoch, seq: fresh.entry.seq };
            for session in self.users.get(&user).into_iter().flatten() {
                if let Some(entered) = self.sessions.get_mut(session).filter(|entered| entered.look_ups > 0) {
                    entered.left_meanwhile.insert(news.conv.clone(), position);
                }
            }
        }
    }

    /// Looks up those of `joined` whose joins are of the time before their feed was followed here: others' standings were read before
    /// the news of it came, or so much was missing that it was passed over.
    fn note_unheard_joins(&mut self, conv: &ConvId, joined: Vec<(UserId, Position)>) {
        for (user, position) in joined {
            if !self.feeds.get(conv).is_some_and(|audience| audience.began_after(position)) {
                continue;
            }
            for session in self.sessions_of(&user) {
                if self.sessions.get(&session).is_some_and(|entered| !entered.feeds.contains(conv)) {
                    self.look_up(session, conv.clone());
                }
            }
        }
    }

    /// Begins to follow a feed because somebody who is connected joins it.
    fn open_audience(&mut self, news: &FeedNews<F>) -> bool {
        let joins = news.entries.iter().find(|fresh| {
            fresh.entry.kind == Kind::Join
                && concerned(&fresh.entry).is_some_and(|user| self.users.contains_key(&user))
        });
        let Some(join) = joins else { return false };
        let before = Position { epoch: news.position.epoch, seq: join.entry.seq.prev() };
        self.feeds.insert(news.conv.clone(), Audience::new(before, news.members));
        true
    }

    fn advance(&mut self, news: FeedNews<F>, source: Source, now: Instant) {
        let FeedNews { conv, position, members, entries } = news;
        let Some(audience) = self.feeds.get_mut(&conv) else {
            return;
        };
        let first = entries.first().map(|fresh| fresh.entry.seq);
        let last = entries.last().map(|fresh| fresh.entry.seq);
        match audience.continuity(position, first, self.config.fetched_entries_max) {
            Continuity::Stale => {}
            Continuity::Rewound | Continuity::TooFarBehind => self.rewind(&conv, position, members),
            Continuity::Gap { after } => match source {
                Source::News => self.fetch(conv, after),
                // The joins and leaves among what is trimmed can't be told any more.
                Source::Log => self.rewind(&conv, position, members),
            },
            Continuity::Next => {
                audience.set_members(members);
                for fresh in entries {
                    self.deliver(&conv, position.epoch, &fresh, now);
                }
                if let Some(after) = last.filter(|last| *last < position.seq) {
                    self.fetch(conv, after);
                }
            }
        }
    }

    fn fetch(&mut self, conv: ConvId, after: Seq) {
        if self.feeds.get_mut(&conv).is_some_and(Audience::fetch) {
            self.commands.push_back(HubCommand::Fetch { conv, after });
        }
    }

    /// Tells one entry to everyone who may see it. Those that the audience has passed already are left out.
    fn deliver(&mut self, conv: &ConvId, epoch: Epoch, fresh: &Fresh<F>, now: Instant) {
        let Fresh { entry, frame } = fresh;
        if self.feeds.get(conv).is_none_or(|audience| entry.seq <= audience.position().seq) {
            return;
        }
        if entry.kind == Kind::Join
            && let Some(user) = concerned(entry)
        {
            for session in self.sessions_of(&user) {
                self.rejoin(&session, conv, Interval { from: entry.seq, to: None }, now);
            }
        }
        let Some(audience) = self.feeds.get_mut(conv) else {
            return;
        };
        audience.pass(entry.seq);
        let position = Position { epoch, seq: entry.seq };
        let pushed = audience.members() <= self.config.pushed_members_max;
        for session in audience.readers_of(entry.seq) {
            let (session, conv) = (session.clone(), conv.clone());
            self.commands.push_back(if pushed {
                HubCommand::Push { session, conv, position, frame: frame.clone() }
            } else {
                HubCommand::Hint { session, conv, position }
            });
        }
        if entry.kind == Kind::Leave
            && let Some(user) = concerned(entry)
        {
            audience.end(&user, entry.seq);
        }
    }

    /// Enters a session anew because its user has joined; an older interval that it still reads is given up, since the
    /// newer head is past its end.
    fn rejoin(&mut self, session: &S, conv: &ConvId, visible: Interval, now: Instant) {
        let reads_on = self.feeds.get(conv).is_some_and(|audience| audience.is_open(session));
        if !reads_on {
            self.enter(session, conv, visible, now);
        }
    }

    fn enter(&mut self, session: &S, conv: &ConvId, visible: Interval, now: Instant) {
        let (Some(entered), Some(audience)) = (self.sessions.get_mut(session), self.feeds.get_mut(conv))
        else {
            return;
        };
        entered.feeds.insert(conv.clone());
        audience.enter(session.clone(), entered.user.clone(), visible, self.config.lag_max, now);
    }

    /// Takes a feed's new life, or a jump over much of the old one: who may see what has to be looked up anew.
    fn rewind(&mut self, conv: &ConvId, position: Position, members: u64) {
        let Some(audience) = self.feeds.get_mut(conv) else {
            return;
        };
        for session in audience.restart(position, members) {
            if let Some(entered) = self.sessions.get_mut(&session) {
                entered.feeds.remove(conv);
            }
            self.look_up(session, conv.clone());
        }
    }

    fn look_up(&mut self, session: S, conv: ConvId) {
        if let Some(entered) = self.sessions.get_mut(&session) {
            entered.look_ups += 1;
            self.commands.push_back(HubCommand::LookUp { session, conv });
        }
    }

    fn looked_up(&mut self, session: &S) {
        let Some(entered) = self.sessions.get_mut(session) else {
            return;
        };
        entered.look_ups = entered.look_ups.saturating_sub(1);
        if entered.look_ups == 0 {
            entered.left_meanwhile.clear();
        }
    }

    fn leave_audience(&mut self, session: &S, conv: &ConvId) {
        let Some(audience) = self.feeds.get_mut(conv) else {
            return;
        };
        audience.leave(session);
        if audience.is_empty() {
            self.feeds.remove(conv);
        }
    }
}

/// Who joins, and with which entry.
fn joined<F>(news: &FeedNews<F>) -> Vec<(UserId, Position)> {
    let joins = news.entries.iter().filter(|fresh| fresh.entry.kind == Kind::Join);
    let position = |entry: &Entry| Position { seq: entry.seq, ..news.position };
    joins.filter_map(|fresh| Some((concerned(&fresh.entry)?, position(&fresh.entry)))).collect()
}

/// Whom a membership entry concerns.
fn concerned(entry: &Entry) -> Option<UserId> {
    entry.body.parse::<MembershipChange>().ok().map(|change| change.user)
}
