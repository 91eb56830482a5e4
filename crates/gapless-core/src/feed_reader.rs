//! One client's cursor in one conversation.

mod page_check;

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use gapless_proto::{Entry, Epoch, ErrorCode, Page, Position, Seq};

use crate::{Backoff, BackoffConfig};

pub use page_check::PageError;

/// Bounds and times of a [`FeedReader`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedReaderConfig {
    /// How many pushed entries may wait for those before them.
    pub pending_max: usize,
    /// How long to wait after a sync that failed or brought nothing new.
    pub backoff: BackoffConfig,
}

impl Default for FeedReaderConfig {
    fn default() -> Self {
        Self { pending_max: 1_000, backoff: BackoffConfig::REQUEST }
    }
}

/// Keeps the contiguous cursor of one conversation: everything visible up to it was applied, in order and once (G3).
///
/// Feed it with the `handle_*` methods, then drain [`Self::poll_command`] and arm a timer for [`Self::poll_timeout`].
///
/// - The cursor never goes back within one life of the log, and passes a seq only when its entry was applied or a page has
///   shown that its owner may not see it.
/// - At most one sync is in flight. Whatever is heard meanwhile (entries beyond a gap, hints) costs at most one more,
///   and none if the page covers it.
/// - A sync that fails or brings nothing new is followed by a wait, never by silence and never by a hot loop.
/// - When the log was rewound, the reader starts over once and says so.
#[derive(Debug)]
pub struct FeedReader {
    config: FeedReaderConfig,
    /// Where to start while nothing is held.
    start: Seq,
    /// `None` while nothing is held, so that not even the epoch is known.
    position: Option<Position>,
    /// The newest place in the log that was heard of.
    newest: Option<Position>,
    /// Pushed entries that wait for those before them; empty or beyond the cursor.
    pending: BTreeMap<Position, Entry>,
    sync: SyncState,
    backoff: Backoff,
    /// Spreads resets that follow on each other, so that servers which disagree can't make it read for ever.
    reset_backoff: Backoff,
    last_reset: Option<Instant>,
    commands: VecDeque<FeedCommand>,
}

/// After how long without a reset the next one is taken as news rather than as a repetition.
const RESET_FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// A wait that a server asks for is cut here: longer ones are mistakes.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(600);

#[derive(Debug, Clone, Copy)]
enum SyncState {
    /// There is no connection; the next one begins with a sync.
    Offline,
    Idle,
    InFlight {
        asked: SyncRequest,
    },
    /// The last sync failed or brought nothing new. News may shorten the wait, but not to before `earliest`.
    Waiting {
        earliest: Instant,
        until: Instant,
    },
}

/// The question "what comes after my cursor?".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyncRequest {
    /// The cursor.
    pub after: Seq,
    /// The life of the log that it is from; `None` only if nothing is held.
    pub epoch: Option<Epoch>,
}

/// What a [`FeedReader`] wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedCommand {
    /// Ask the server; answer with [`FeedReader::handle_page`] or [`FeedReader::handle_sync_refused`].
    Sync(SyncRequest),
    /// Entries are due and the cursor moves over them: store both at once.
    Apply(Advance),
    /// Tell the server once more which cursor is stored: it seems not to know.
    Acknowledge,
    /// The log was rewound: forget what was applied. Entries from the beginning follow.
    Reset {
        /// How it became known.
        reason: ResetReason,
    },
    /// The server won't serve this conversation. It is asked again at the next push, hint or connection.
    Refused {
        /// Why.
        code: ErrorCode,
    },
}

/// A step of the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advance {
    /// The visible entries that are passed, in order; may be none.
    pub entries: Vec<Entry>,
    /// The cursor after them.
    pub position: Position,
    /// Which seqs were passed unseen because the server no longer keeps them; some of them may have been for others only.
    pub trimmed: Option<RangeInclusive<Seq>>,
    /// The newest seq that is known of; the cursor has caught up when it is there.
    pub head: Seq,
}

/// Why a conversation starts over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResetReason {
    /// The cursor is beyond the head of the log.
    CursorAhead,
    /// The log has begun another life.
    EpochChanged,
}

impl FeedReader {
    /// Goes on from a stored position, or from the beginning. The same seed gives the same waits.
    pub fn new(config: FeedReaderConfig, position: Option<Position>, seed: u64) -> Self {
        Self {
            config,
            start: Seq::ZERO,
            position,
            newest: None,
            pending: BTreeMap::new(),
            sync: SyncState::Offline,
            backoff: Backoff::new(config.backoff, seed),
            reset_backoff: Backoff::new(config.backoff, !seed),
            last_reset: None,
            commands: VecDeque::new(),
        }
    }

    /// Begins after `start` without holding what comes before it.
    pub fn starting_after(config: FeedReaderConfig, start: Seq, seed: u64) -> Self {
        Self { start, ..Self::new(config, None, seed) }
    }

    /// A connection stands. Pushes may have been missed, so it syncs.
    pub fn handle_connected(&mut self) {
        self.backoff.reset();
        self.start_sync();
    }

    /// The connection is gone, and with it the answer of a sync in flight.
    pub fn handle_disconnected(&mut self) {
        self.sync = SyncState::Offline;
    }

    /// An entry was pushed.
    pub fn handle_event(&mut self, epoch: Epoch, entry: Entry, now: Instant) {
        let place = Position { epoch, seq: entry.seq };
        if self.position.is_some_and(|position| place <= position) {
            return;
        }
        if self.position.and_then(following) == Some(place) {
            self.advance(Advance { entries: vec![entry], position: place, trimmed: None, head: place.seq });
            return;
        }
        self.hold(place, entry);
        self.handle_news(place, now);
    }

    /// The server says that there is more, up to `head`.
    pub fn handle_hint(&mut self, epoch: Epoch, head: Seq, now: Instant) {
        let place = Position { epoch, seq: head };
        match self.position {
            Some(position) if epoch < position.epoch => {}
            Some(position) if place <= position => self.commands.push_back(FeedCommand::Acknowledge),
            Some(_) | None => self.handle_news(place, now),
        }
    }

    /// A page arrived, which answers `asked`.
    ///
    /// An error means that nothing of it was used; the reader asks again after a wait.
    pub fn handle_page(&mut self, asked: SyncRequest, page: Page, now: Instant) -> Result<(), PageError> {
        let is_awaited = self.is_awaited(asked);
        if let Err(error) = page_check::check(asked, &page) {
            if is_awaited {
                self.wait(now);
            }
            return Err(error);
        }
        if asked.epoch.is_some_and(|epoch| epoch < page.epoch) {
            if is_awaited {
                self.reset(ResetReason::EpochChanged, now);
            }
            return Ok(());
        }

        let has_more = page.has_more;
        let moved = self.take_page(asked, page, is_awaited);
        if is_awaited {
            self.follow_up(asked, has_more, moved, now);
        }
        Ok(())
    }

    /// The server refused to answer `asked`.
    pub fn handle_sync_refused(
        &mut self,
        asked: SyncRequest,
        code: ErrorCode,
        retry_after: Option<Duration>,
        now: Instant,
    ) {
        if !self.is_awaited(asked) {
            return;
        }
        match code {
            ErrorCode::CursorAhead if asked.holds_something() => self.reset(ResetReason::CursorAhead, now),
            ErrorCode::EpochChanged if asked.holds_something() => self.reset(ResetReason::EpochChanged, now),
            ErrorCode::CursorAhead
            | ErrorCode::EpochChanged
            | ErrorCode::CursorExpired
            | ErrorCode::RateLimited
            | ErrorCode::Unavailable
            | ErrorCode::Internal
            | ErrorCode::Unknown => match retry_after {
                Some(delay) => self.wait_until(now + delay.min(RETRY_AFTER_MAX)),
                None => self.wait(now),
            },
            ErrorCode::BadRequest
            | ErrorCode::Unauthenticated
            | ErrorCode::Forbidden
            | ErrorCode::NotFound
            | ErrorCode::CursorInvalid
            | ErrorCode::KeyConflict
            | ErrorCode::MissingParent
            | ErrorCode::DeepReorg
            | ErrorCode::TooLarge => {
                self.newest = None;
                self.pending.clear();
                self.sync = SyncState::Idle;
                self.commands.push_back(FeedCommand::Refused { code });
            }
        }
    }

    /// Time has passed: asks again if a wait is over.
    pub fn handle_timeout(&mut self, now: Instant) {
        match self.sync {
            SyncState::Waiting { until, .. } if until <= now => self.start_sync(),
            SyncState::Waiting { .. } | SyncState::Offline | SyncState::Idle | SyncState::InFlight { .. } => {
            }
        }
    }

    /// What to do next, oldest first.
    pub fn poll_command(&mut self) -> Option<FeedCommand> {
        self.commands.pop_front()
    }

    /// When [`Self::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.sync {
            SyncState::Waiting { until, .. } => Some(until),
            SyncState::Offline | SyncState::Idle | SyncState::InFlight { .. } => None,
        }
    }

    /// Everything visible up to here was applied; `None` while nothing is held.
    pub fn position(&self) -> Option<Position> {
        self.position
    }

    /// How many pushed entries wait for those before them.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Applies what a page has beyond the cursor. Returns whether the cursor moved.
    fn take_page(&mut self, asked: SyncRequest, page: Page, is_awaited: bool) -> bool {
        let cursor = match self.position {
            Some(position) if position.epoch == page.epoch => position.seq,
            None if is_awaited => asked.after,
            // It is from before a reset.
            Some(_) | None => return false,
        };
        let position = Position { epoch: page.epoch, seq: page.next_after.max(cursor) };
        if asked.after > cursor || self.position == Some(position) {
            return false;
        }
        let last_trimmed = page.min_seq.prev().min(position.seq);
        if page.trimmed && asked.after < cursor && cursor < last_trimmed {
            // All that is gone may be passed already. Only a page from here on tells.
            let head = Position { epoch: page.epoch, seq: page.head };
            self.newest = self.newest.max(Some(head));
            return false;
        }
        self.advance(Advance {
            trimmed: (page.trimmed && last_trimmed > cursor).then(|| cursor.next()..=last_trimmed),
            entries: page.events.into_iter().filter(|entry| entry.seq > cursor).collect(),
            position,
            head: page.head,
        });
        true
    }

    /// Moves the cursor, and on over what waited for it.
    fn advance(&mut self, mut step: Advance) {
        self.pending = self.pending.split_off(&step.position);
        self.pending.remove(&step.position);
        while let Some(next) = following(step.position)
            && let Some(entry) = self.pending.remove(&next)
        {
            step.entries.push(entry);
            step.position = next;
        }
        step.head = self
            .newest
            .filter(|newest| newest.epoch == step.position.epoch)
            .map_or(step.head, |newest| newest.seq.max(step.head))
            .max(step.position.seq);
        self.position = Some(step.position);
        self.commands.push_back(FeedCommand::Apply(step));
    }

    /// Keeps an entry until those before it are there.
    fn hold(&mut self, place: Position, entry: Entry) {
        if self.position.is_some_and(|position| position.epoch != place.epoch) {
            return;
        }
        if self.pending.len() >= self.config.pending_max {
            // Nothing is lost: `newest` remembers that there is more to ask for.
            self.pending.clear();
            return;
        }
        self.pending.insert(place, entry);
    }

    /// Something newer than the cursor exists.
    fn handle_news(&mut self, place: Position, now: Instant) {
        let is_newer = self.newest < Some(place);
        self.newest = self.newest.max(Some(place));
        match &mut self.sync {
            SyncState::Idle => self.start_sync(),
            SyncState::Waiting { earliest, until } if is_newer => *until = now.max(*earliest).min(*until),
            SyncState::Waiting { .. } | SyncState::Offline | SyncState::InFlight { .. } => {}
        }
    }

    /// Decides what comes after the page that answered `asked`.
    fn follow_up(&mut self, asked: SyncRequest, has_more: bool, moved: bool, now: Instant) {
        if has_more || self.is_behind() {
            if self.question() == asked {
                self.wait(now);
            } else {
                self.backoff.reset();
                self.start_sync();
            }
            return;
        }
        self.backoff.reset();
        self.sync = SyncState::Idle;
        if !moved {
            self.commands.push_back(FeedCommand::Acknowledge);
        }
    }

    fn reset(&mut self, reason: ResetReason, now: Instant) {
        self.start = Seq::ZERO;
        self.position = None;
        self.newest = None;
        self.pending.clear();
        self.commands.push_back(FeedCommand::Reset { reason });

        let is_repetition =
            self.last_reset.replace(now).is_some_and(|last| now < last + RESET_FORGOTTEN_AFTER);
        if is_repetition {
            let delay = self.reset_backoff.next_delay();
            self.wait_until(now + delay);
        } else {
            self.reset_backoff.reset();
            self.start_sync();
        }
    }

    fn start_sync(&mut self) {
        let asked = self.question();
        self.sync = SyncState::InFlight { asked };
        self.commands.push_back(FeedCommand::Sync(asked));
    }

    /// Waits with backoff; news may shorten it to the shortest wait there is.
    fn wait(&mut self, now: Instant) {
        let delay = self.backoff.next_delay();
        self.sync =
            SyncState::Waiting { earliest: now + delay.min(self.config.backoff.base), until: now + delay };
    }

    fn wait_until(&mut self, until: Instant) {
        self.sync = SyncState::Waiting { earliest: until, until };
    }

    fn question(&self) -> SyncRequest {
        SyncRequest {
            after: self.position.map_or(self.start, |position| position.seq),
            epoch: self.position.map(|position| position.epoch),
        }
    }

    fn is_awaited(&self, asked: SyncRequest) -> bool {
        matches!(self.sync, SyncState::InFlight { asked: awaited } if awaited == asked)
    }

    fn is_behind(&self) -> bool {
        self.newest.is_some() && self.newest > self.position
    }
}

impl SyncRequest {
    fn holds_something(self) -> bool {
        self.epoch.is_some() || self.after > Seq::ZERO
    }
}

/// The place after this one; `None` at the largest seq there is, which only a faulty server claims.
fn following(position: Position) -> Option<Position> {
    let seq = Seq::new(position.seq.get() + 1).ok()?;
    Some(Position { seq, ..position })
}

#[cfg(test)]
mod tests;
