//! The subscriptions to topics, across connections.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use gapless_proto::{
    ClientMessage, Cursor, ErrorReply, Mode, Rid, Snapshot, Sub, Subscribe, Subscribed, Topic, TopicEvent,
    TopicReset, TopicResetReason,
};

use super::Session;
use super::requests::Request;
use crate::{ClientEvent, DisconnectReason};

/// Numbers the subscriptions of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicsId(u64);

/// What to subscribe to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topics {
    /// The topics, of one chain, as in `chain:1:transfers`.
    pub names: Vec<Topic>,
    /// When to be told: at once, or once it is confirmed.
    pub mode: Mode,
    /// Where to begin.
    pub start: TopicsStart,
}

/// Where a subscription begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopicsStart {
    /// With what comes next.
    Newest,
    /// With the values of the topics, and what comes after them.
    Snapshot,
    /// After a position that was told before, by this client or another. When it can't be served, the subscription goes on with what
    /// comes next.
    After(Cursor),
}

/// What happened to a subscription. Each but [`TopicsTold::Reset`] moves its cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopicsTold {
    /// It has begun, or begun again on another connection.
    Begun {
        /// After this position.
        cursor: Cursor,
    },
    /// Values of the topics, all of them or a part.
    Snapshot(Snapshot),
    /// Something happened.
    Event(Box<TopicEvent>),
    /// All behind this position is void.
    Revoke {
        /// The position.
        cursor: Cursor,
    },
    /// Nothing happened up to this position.
    Progress {
        /// The position.
        cursor: Cursor,
    },
    /// Its position can't be served; it begins again by itself. But for [`TopicResetReason::SlowConsumer`], whatever was told before
    /// doesn't hold any more.
    Reset(TopicResetReason),
}

/// The subscriptions of a session.
#[derive(Debug, Default)]
pub(super) struct TopicSubscriptions {
    next: u64,
    all: BTreeMap<TopicsId, Wanted>,
    /// Those that the present connection has.
    subs: BTreeMap<Sub, TopicsId>,
}

#[derive(Debug)]
struct Wanted {
    topics: Topics,
    /// The position; `None` until there is one, and while a snapshot isn't whole.
    cursor: Option<Cursor>,
    /// Whether the last thing that was told is a reset.
    was_reset: bool,
    /// When it is asked for again, after resets in a row.
    ask_at: Option<Instant>,
}

/// How long a subscription rests that was reset twice with nothing told between: a server may have a reason again and again.
const RESET_PAUSE: Duration = Duration::from_secs(5);

impl Wanted {
    /// How it is asked for.
    fn subscribe(&self) -> impl FnOnce(Rid) -> ClientMessage + use<> {
        let Topics { names, mode, start } = self.topics.clone();
        let cursor = self.cursor.clone();
        let snapshot = (cursor.is_none() && start == TopicsStart::Snapshot).then_some(true);
        move |rid| {
            ClientMessage::Subscribe(Subscribe { rid, topics: names, cursor, mode: Some(mode), snapshot })
        }
    }
}

impl TopicSubscriptions {
    fn insert(&mut self, topics: Topics) -> TopicsId {
        let id = TopicsId(self.next);
        self.next += 1;
        let cursor = match &topics.start {
            TopicsStart::After(cursor) => Some(cursor.clone()),
            TopicsStart::Newest | TopicsStart::Snapshot => None,
        };
        self.all.insert(id, Wanted { topics, cursor, was_reset: false, ask_at: None });
        id
    }

    /// When the next one is asked for again.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.all.values().filter_map(|wanted| wanted.ask_at).min()
    }

    /// Which subscription of the client a server's number is of, and its cursor.
    fn of(&mut self, sub: Sub) -> Option<(TopicsId, &mut Wanted)> {
        let id = *self.subs.get(&sub)?;
        Some((id, self.all.get_mut(&id)?))
    }
}

impl Session {
    /// Follows topics, from now on and on every further connection.
    pub fn subscribe(&mut self, topics: Topics, now: Instant) -> TopicsId {
        let id = self.topics.insert(topics);
        self.ask_for_topics(id, now);
        id
    }

    /// Asks for all subscriptions on a new connection.
    pub(super) fn subscribe_all(&mut self, now: Instant) {
        self.topics.subs.clear();
        let all: Vec<_> = self.topics.all.keys().copied().collect();
        for id in all {
            self.ask_for_topics(id, now);
        }
    }

    /// Asks for the subscriptions that have rested long enough.
    pub(super) fn subscribe_due(&mut self, now: Instant) {
        let all = self.topics.all.iter();
        let due = all.filter(|(_, wanted)| wanted.ask_at.is_some_and(|ask_at| ask_at <= now));
        for id in due.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.ask_for_topics(id, now);
        }
    }

    fn ask_for_topics(&mut self, id: TopicsId, now: Instant) {
        let Some(wanted) = self.topics.all.get_mut(&id) else {
            return;
        };
        wanted.ask_at = None;
        let message = wanted.subscribe();
        self.request(Request::Subscribe(id), message, now);
    }

    pub(super) fn handle_subscribed(&mut self, subscribed: Subscribed) {
        let Subscribed { rid, sub, cursor } = subscribed;
        let Some(Request::Subscribe(id)) = self.take_request(rid) else {
            return;
        };
        self.topics.subs.insert(sub, id);
        let Some(wanted) = self.topics.all.get_mut(&id) else {
            return;
        };
        if wanted.topics.start != TopicsStart::Snapshot {
            wanted.cursor.get_or_insert_with(|| cursor.clone());
        }
        self.report(ClientEvent::Topics { id, told: TopicsTold::Begun { cursor } });
    }

    pub(super) fn handle_topics_refused(&mut self, id: TopicsId, error: ErrorReply, now: Instant) {
        let ErrorReply { code, message, retry_after_ms, .. } = error;
        if code.is_retryable() {
            // It is asked for again on the next connection.
            let retry_after = retry_after_ms.map(Duration::from_millis);
            return self.give_up(DisconnectReason::SubscriptionFailed { code, message }, retry_after, now);
        }
        self.topics.all.remove(&id);
        self.report(ClientEvent::TopicsRefused { id, code, message });
    }

    pub(super) fn handle_snapshot(&mut self, snapshot: Snapshot) {
        let cursor = (!snapshot.has_more).then(|| snapshot.cursor.clone());
        self.handle_told(snapshot.sub, cursor, TopicsTold::Snapshot(snapshot));
    }

    pub(super) fn handle_topic_event(&mut self, event: TopicEvent) {
        self.handle_told(event.sub, Some(event.cursor.clone()), TopicsTold::Event(Box::new(event)));
    }

    pub(super) fn handle_revoke(&mut self, sub: Sub, cursor: Cursor) {
        self.handle_told(sub, Some(cursor.clone()), TopicsTold::Revoke { cursor });
    }

    pub(super) fn handle_progress(&mut self, sub: Sub, cursor: Cursor) {
        self.handle_told(sub, Some(cursor.clone()), TopicsTold::Progress { cursor });
    }

    fn handle_told(&mut self, sub: Sub, cursor: Option<Cursor>, told: TopicsTold) {
        let Some((id, wanted)) = self.topics.of(sub) else {
            return;
        };
        wanted.was_reset = false;
        wanted.cursor = cursor.or(wanted.cursor.take());
        self.report(ClientEvent::Topics { id, told });
    }

    pub(super) fn handle_topics_reset(&mut self, reset: TopicReset, now: Instant) {
        let TopicReset { sub, reason } = reset;
        let Some(id) = self.topics.subs.remove(&sub) else {
            return;
        };
        let Some(wanted) = self.topics.all.get_mut(&id) else {
            return;
        };
        if reason != TopicResetReason::SlowConsumer {
            wanted.cursor = None;
        }
        let is_looping = std::mem::replace(&mut wanted.was_reset, true);
        wanted.ask_at = is_looping.then(|| now + RESET_PAUSE);
        self.report(ClientEvent::Topics { id, told: TopicsTold::Reset(reason) });
        if !is_looping {
            self.ask_for_topics(id, now);
        }
    }
}
