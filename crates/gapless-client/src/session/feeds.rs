//! The conversations that a session follows.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use gapless_core::{FeedCommand, FeedReader};
use gapless_proto::{ConvId, Position, Seq};

use super::config::{Follow, SessionConfig};

/// A reader for each conversation, and when which of them has something to do.
#[derive(Debug)]
pub(super) struct Feeds {
    config: SessionConfig,
    followed: BTreeMap<ConvId, Followed>,
    timers: BTreeSet<(Instant, ConvId)>,
    /// What the local state holds of conversations that aren't followed.
    dormant: BTreeMap<ConvId, Position>,
    next_seed: u64,
}

#[derive(Debug)]
struct Followed {
    reader: FeedReader,
    /// The position that survives a crash: what may be acknowledged.
    stored: Option<Position>,
    timer: Option<Instant>,
}

/// The bound on conversations is reached.
#[derive(Debug)]
pub(super) struct TooMany;

impl Feeds {
    pub(super) fn new(config: SessionConfig, positions: BTreeMap<ConvId, Position>, seed: u64) -> Self {
        let mut feeds = Self {
            config,
            followed: BTreeMap::new(),
            timers: BTreeSet::new(),
            dormant: positions,
            next_seed: seed,
        };
        if config.follow == Follow::All {
            for (conv, position) in std::mem::take(&mut feeds.dormant) {
                feeds.insert(conv, Some(position), Seq::ZERO);
            }
        }
        feeds
    }

    /// Follows a conversation, from where the local state is or else after `start`. Returns whether it wasn't followed
    /// before.
    pub(super) fn watch(&mut self, conv: &ConvId, start: Seq) -> Result<bool, TooMany> {
        if self.followed.contains_key(conv) {
            return Ok(false);
        }
        if self.followed.len() >= self.config.conversations_max {
            return Err(TooMany);
        }
        let stored = self.dormant.remove(conv);
        self.insert(conv.clone(), stored, start);
        Ok(true)
    }

    /// Whether news of a conversation that isn't followed makes it so.
    pub(super) fn discovers(&self) -> bool {
        self.config.follow == Follow::All
    }

    pub(super) fn conversations(&self) -> Vec<ConvId> {
        self.followed.keys().cloned().collect()
    }

    /// Lets a reader take something in; returns what it wants done.
    pub(super) fn with(&mut self, conv: &ConvId, input: impl FnOnce(&mut FeedReader)) -> Vec<FeedCommand> {
        let Some(Followed { reader, timer, .. }) = self.followed.get_mut(conv) else {
            return Vec::new();
        };
        input(reader);
        let due = reader.poll_timeout();
        if *timer != due {
            if let Some(old) = timer.take() {
                self.timers.remove(&(old, conv.clone()));
            }
            if let Some(due) = due {
                self.timers.insert((due, conv.clone()));
            }
            *timer = due;
        }
        std::iter::from_fn(|| reader.poll_command()).collect()
    }

    /// A conversation whose reader has waited long enough.
    pub(super) fn next_due(&self, now: Instant) -> Option<ConvId> {
        let (due, conv) = self.timers.first()?;
        (*due <= now).then(|| conv.clone())
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.timers.first().map(|(due, _)| *due)
    }

    pub(super) fn set_stored(&mut self, conv: &ConvId, position: Option<Position>) {
        if let Some(followed) = self.followed.get_mut(conv) {
            followed.stored = position;
        }
    }

    pub(super) fn stored(&self, conv: &ConvId) -> Option<Position> {
        self.followed.get(conv)?.stored
    }

    /// How far a conversation was read, stored or not.
    pub(super) fn position(&self, conv: &ConvId) -> Option<Position> {
        self.followed.get(conv)?.reader.position()
    }

    fn insert(&mut self, conv: ConvId, stored: Option<Position>, start: Seq) {
        let seed = self.next_seed;
        self.next_seed = seed.wrapping_add(1);
        let reader = match stored {
            Some(_) => FeedReader::new(self.config.reader, stored, seed),
            None => FeedReader::starting_after(self.config.reader, start, seed),
        };
        self.followed.insert(conv, Followed { reader, stored, timer: None });
    }
}
