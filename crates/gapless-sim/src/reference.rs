//! What is true: every life of every log, and who may see what of it, in the plainest code there is.

use std::collections::{BTreeMap, BTreeSet};

use gapless_core::{Advance, History};
use gapless_proto::{ConvId, Entry, Epoch, Key, Kind, MembershipChange, Position, Seq, UserId};

use crate::names::DeviceNo;
use crate::utterance::Utterance;
use crate::words::Words;
use crate::{Guarantee, Violation};

/// The committed entries, told by the store at every commit.
///
/// It shares no code with the parts under test. What it is told of is never taken back: a rewound log begins another
/// life, and the former ones are kept.
#[derive(Debug, Default)]
pub(crate) struct Reference {
    convs: BTreeMap<ConvId, Lives>,
}

/// The present lives of all logs at some moment, for a restore.
#[derive(Debug, Default, Clone)]
pub(crate) struct Remembered(BTreeMap<ConvId, LogLife>);

#[derive(Debug)]
struct Lives {
    current: Epoch,
    lives: BTreeMap<Epoch, LogLife>,
}

/// One life of one log.
#[derive(Debug, Clone)]
struct LogLife {
    history: History,
    /// The entry of seq n at n − 1.
    entries: Vec<Entry>,
    /// Those below may be gone.
    min_seq: Seq,
    /// First and last visible seq of each membership; 0 while it lasts.
    memberships: BTreeMap<UserId, Vec<(u64, u64)>>,
    uttered: BTreeSet<Utterance>,
    keys: BTreeSet<(UserId, Key)>,
    /// The newest thing that each device has said.
    last_of: BTreeMap<DeviceNo, u64>,
}

impl Reference {
    /// A conversation is created.
    pub(crate) fn created(&mut self, conv: &ConvId, epoch: Epoch, history: History) {
        let life = LogLife {
            history,
            entries: Vec::new(),
            min_seq: Seq::FIRST,
            memberships: BTreeMap::new(),
            uttered: BTreeSet::new(),
            keys: BTreeSet::new(),
            last_of: BTreeMap::new(),
        };
        self.convs.insert(conv.clone(), Lives { current: epoch, lives: BTreeMap::from([(epoch, life)]) });
    }

    /// Entries are on disk. `was_refused` tells what the store has decided against before.
    pub(crate) fn committed(
        &mut self,
        conv: &ConvId,
        epoch: Epoch,
        entries: &[Entry],
        was_refused: impl Fn(Utterance) -> bool,
    ) -> Result<(), Violation> {
        let lives = self.convs.get_mut(conv).expect("it was created");
        // What was said in a life that was taken back may be said again later than what was typed after it.
        let was_taken_back = |utterance| lives.lives.values().any(|life| life.uttered.contains(&utterance));
        let may_come_late: BTreeSet<Utterance> = entries
            .iter()
            .filter_map(Utterance::of_entry)
            .filter(|utterance| was_refused(*utterance) || was_taken_back(*utterance))
            .collect();
        let life = lives.lives.get_mut(&epoch).filter(|_| epoch == lives.current).ok_or_else(|| {
            Violation::new(Guarantee::CommitOrder, format!("{conv} grows in epoch {epoch}, which is over"))
        })?;
        for entry in entries {
            life.append(conv, entry, &may_come_late)?;
        }
        Ok(())
    }

    /// The entries below `min_seq` may be gone.
    pub(crate) fn trimmed(&mut self, conv: &ConvId, epoch: Epoch, min_seq: Seq) {
        if let Some(life) = self.convs.get_mut(conv).and_then(|lives| lives.lives.get_mut(&epoch)) {
            life.min_seq = life.min_seq.max(min_seq);
        }
    }

    pub(crate) fn remember(&self) -> Remembered {
        let lives = self.convs.iter().filter_map(|(conv, lives)| Some((conv.clone(), lives.life()?.clone())));
        Remembered(lives.collect())
    }

    /// A log goes on from an earlier moment, in another life.
    pub(crate) fn rewound(&mut self, conv: &ConvId, epoch: Epoch, to: &Remembered) {
        if let (Some(lives), Some(life)) = (self.convs.get_mut(conv), to.0.get(conv)) {
            lives.current = epoch;
            lives.lives.insert(epoch, life.clone());
        }
    }

    pub(crate) fn conversations(&self) -> impl Iterator<Item = &ConvId> {
        self.convs.keys()
    }

    /// Where a log is now.
    pub(crate) fn head(&self, conv: &ConvId) -> Option<Position> {
        let lives = self.convs.get(conv)?;
        let head = u64::try_from(lives.life()?.entries.len()).ok()?;
        Some(Position { epoch: lives.current, seq: Seq::new(head).ok()? })
    }

    pub(crate) fn entry(&self, conv: &ConvId, position: Position) -> Option<&Entry> {
        let index = usize::try_from(position.seq.get()).ok()?.checked_sub(1)?;
        self.life(conv, position.epoch)?.entries.get(index)
    }

    pub(crate) fn may_see(&self, user: &UserId, conv: &ConvId, position: Position) -> bool {
        self.life(conv, position.epoch).is_some_and(|life| life.may_see(user, position.seq))
    }

    /// Whether a user is or was in the present life of a conversation.
    pub(crate) fn knows(&self, user: &UserId, conv: &ConvId) -> bool {
        let life = self.convs.get(conv).and_then(Lives::life);
        life.is_some_and(|life| life.memberships.contains_key(user))
    }

    /// Whether a user is in a conversation now.
    pub(crate) fn is_member(&self, user: &UserId, conv: &ConvId) -> bool {
        self.head(conv)
            .is_some_and(|head| self.may_see(user, conv, Position { seq: head.seq.next(), ..head }))
    }

    /// An entry that a user was sent: it is in the log, and they may see it.
    pub(crate) fn check_shown(
        &self,
        user: &UserId,
        conv: &ConvId,
        epoch: Epoch,
        entry: &Entry,
    ) -> Result<(), Violation> {
        let position = Position { epoch, seq: entry.seq };
        match self.entry(conv, position) {
            None => {
                let how = format!("{user} was sent {position} of {conv}, which isn't on disk");
                return Err(Violation::new(Guarantee::CommitOrder, how));
            }
            Some(committed) if committed != entry => {
                let how =
                    format!("{user} was sent {entry:?} as {position} of {conv}, which is {committed:?}");
                return Err(Violation::new(Guarantee::Order, how));
            }
            Some(_) => {}
        }
        if !self.may_see(user, conv, position) {
            let how = format!("{user} was sent {position} of {conv}, which they may not see");
            return Err(Violation::new(Guarantee::Privacy, how));
        }
        Ok(())
    }

    /// G3 for one step of a cursor: it takes exactly what is visible between its two ends.
    pub(crate) fn check_advance(
        &self,
        user: &UserId,
        conv: &ConvId,
        from: Option<Position>,
        advance: &Advance,
    ) -> Result<(), Violation> {
        let broken =
            |guarantee, how: String| Err(Violation::new(guarantee, format!("{user} in {conv}: {how}")));
        let to = advance.position;
        let Some(life) = self.life(conv, to.epoch) else {
            return broken(
                Guarantee::HonestPositions,
                format!("the cursor is at {to}, in a life that never was"),
            );
        };
        match from {
            Some(from) if from.epoch != to.epoch => {
                let how = format!("the cursor went from {from} to {to} without a reset");
                return broken(Guarantee::HonestPositions, how);
            }
            Some(from) if from.seq >= to.seq => {
                return broken(Guarantee::ContiguousCursor, format!("the cursor went from {from} to {to}"));
            }
            Some(_) | None => {}
        }
        if to.seq.get() > life.head() {
            let how = format!("the cursor is at {to}, the head at {}", life.head());
            return broken(Guarantee::ContiguousCursor, how);
        }

        let after = from.map_or(Seq::ZERO, |from| from.seq);
        let mut is_something_gone = false;
        let mut given = advance.entries.iter().peekable();
        for expected in life.visible_between(user, after, to.seq) {
            if given.next_if(|entry| *entry == expected).is_some() {
                continue;
            }
            let said_so = advance.trimmed.as_ref().is_some_and(|trimmed| trimmed.contains(&expected.seq));
            if expected.seq >= life.min_seq || !said_so {
                let how =
                    format!("the cursor went from {after} to {to} without the visible {}", expected.seq);
                return broken(Guarantee::ContiguousCursor, how);
            }
            is_something_gone = true;
        }
        if advance.trimmed.is_some() && !is_something_gone {
            let how = format!("entries are said to be gone from {after} to {to}, but none is");
            return broken(Guarantee::HonestPositions, how);
        }
        match given.next() {
            Some(entry) if !life.may_see(user, entry.seq) => {
                broken(Guarantee::Privacy, format!("{} was applied, which they may not see", entry.seq))
            }
            Some(entry) => broken(
                Guarantee::ContiguousCursor,
                format!("{} was applied out of order or twice", entry.seq),
            ),
            None => Ok(()),
        }
    }

    /// G3 and G7 for what a client holds at the end: all that is visible and kept, each once and in order.
    pub(crate) fn check_held(
        &self,
        user: &UserId,
        conv: &ConvId,
        position: Option<Position>,
        held: &[Entry],
    ) -> Result<(), Violation> {
        let broken =
            |guarantee, how: String| Err(Violation::new(guarantee, format!("{user} in {conv}: {how}")));
        let Some((head, life)) = self.head(conv).and_then(|head| Some((head, self.life(conv, head.epoch)?)))
        else {
            return Ok(());
        };
        let Some(position) = position.filter(|position| position.epoch == head.epoch) else {
            return broken(
                Guarantee::ReplayOrConverge,
                format!("they are at {}, the log at {head}", Words(&position)),
            );
        };
        if let Some(missed) = life.visible_between(user, position.seq, head.seq).next() {
            let how = format!("they are at {position}, but may see {} of {head}", missed.seq);
            return broken(Guarantee::ReplayOrConverge, how);
        }
        let mut held = held.iter().peekable();
        for expected in life.visible_between(user, Seq::ZERO, position.seq) {
            if held.next_if(|entry| *entry == expected).is_none() && expected.seq >= life.min_seq {
                let how = format!("they are at {position} and don't hold {}", expected.seq);
                return broken(Guarantee::ContiguousCursor, how);
            }
        }
        match held.next() {
            Some(entry) => broken(Guarantee::ContiguousCursor, format!("they hold {} wrongly", entry.seq)),
            None => Ok(()),
        }
    }

    fn life(&self, conv: &ConvId, epoch: Epoch) -> Option<&LogLife> {
        self.convs.get(conv)?.lives.get(&epoch)
    }
}

impl Lives {
    fn life(&self) -> Option<&LogLife> {
        self.lives.get(&self.current)
    }
}

impl LogLife {
    fn append(
        &mut self,
        conv: &ConvId,
        entry: &Entry,
        may_come_late: &BTreeSet<Utterance>,
    ) -> Result<(), Violation> {
        let seq = entry.seq.get();
        if seq != self.head() + 1 {
            let how = format!("{seq} of {conv} follows on {}", self.head());
            return Err(Violation::new(Guarantee::CommitOrder, how));
        }
        if let Some(utterance) = Utterance::of_entry(entry) {
            self.note_utterance(conv, entry, utterance, may_come_late)?;
        }
        if let Ok(MembershipChange { user }) = entry.body.parse() {
            self.note_membership(&entry.kind, user, seq);
        }
        self.entries.push(entry.clone());
        Ok(())
    }

    /// G6: everything is said once, and what one device says stands in the order in which it was typed.
    fn note_utterance(
        &mut self,
        conv: &ConvId,
        entry: &Entry,
        utterance: Utterance,
        may_come_late: &BTreeSet<Utterance>,
    ) -> Result<(), Violation> {
        let broken = |how: String| Err(Violation::new(Guarantee::Sends, how));
        let key = entry.key.clone().expect("messages have keys");
        if !self.keys.insert((entry.sender.clone(), key)) {
            return broken(format!("the key of {utterance} is in {conv} twice"));
        }
        if !self.uttered.insert(utterance) {
            return broken(format!("{utterance} is in {conv} twice"));
        }
        if may_come_late.contains(&utterance) {
            return Ok(());
        }
        let last = self.last_of.entry(utterance.device).or_default();
        if utterance.number < *last {
            return broken(format!("{utterance} is in {conv} after message {last}, which was typed later"));
        }
        *last = utterance.number;
        Ok(())
    }

    fn note_membership(&mut self, kind: &Kind, user: UserId, seq: u64) {
        let of_user = self.memberships.entry(user).or_default();
        match kind {
            Kind::Join => {
                let from = match self.history {
                    History::FromJoin => seq,
                    History::All => of_user.last().map_or(1, |(_, to)| to + 1),
                };
                of_user.push((from, 0));
            }
            Kind::Leave => {
                if let Some((_, to)) = of_user.last_mut() {
                    *to = seq;
                }
            }
            Kind::Message | Kind::Other(_) => {}
        }
    }

    fn head(&self) -> u64 {
        self.entries.len() as u64
    }

    fn may_see(&self, user: &UserId, seq: Seq) -> bool {
        let seq = seq.get();
        let memberships = self.memberships.get(user).into_iter().flatten();
        memberships.into_iter().any(|(from, to)| *from <= seq && (*to == 0 || seq <= *to))
    }

    fn visible_between(&self, user: &UserId, after: Seq, to: Seq) -> impl Iterator<Item = &Entry> {
        let index = |seq: Seq| usize::try_from(seq.get()).expect("logs are short").min(self.entries.len());
        let between = self.entries.get(index(after)..index(to)).unwrap_or_default();
        between.iter().filter(|entry| self.may_see(user, entry.seq))
    }
}
