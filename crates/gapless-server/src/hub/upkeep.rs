//! What keeps the hub in step with the store: news, a look at the heads in case news was lost, and the sweep.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use gapless_core::FeedNews;
use gapless_proto::{Position, Seq};
use gapless_store::{CommitNews, News, NewsReceiver, Store, StoreError};
use tokio::time::{Interval, MissedTickBehavior, interval};
use tracing::{debug, info};

use super::reader::feed_news;
use super::{HubHandle, read_standings};
use crate::chains::Chains;
use crate::socket::Frame;
use crate::store_trouble;

/// How many feeds one look at the heads asks for.
const HEADS_MAX: usize = 1_000;
/// In how many pauses every session's standings are read anew, as long as there are not too many sessions.
const PAUSES_A_ROUND: usize = 10;
/// How many sessions' standings are read anew after one pause.
const RELOADED_AT_ONCE_MAX: usize = 200;
/// How many entries are told in one go, so that a large commit doesn't keep others from the hub for long.
const ENTRIES_TOLD_AT_ONCE: usize = 64;

/// Tells the hub and those who follow chains what the store commits. Returns when the store is closed.
pub(crate) async fn follow_news(hub: HubHandle, chains: Arc<Chains>, mut news: NewsReceiver) {
    while let Some(commit) = news.recv().await {
        let news = match commit {
            CommitNews::Conversations(news) => news,
            CommitNews::Chain(news) => {
                chains.handle_news(news);
                continue;
            }
        };
        for News { conv, feed, entries } in news {
            for part in in_parts(feed_news(conv, feed, entries)) {
                hub.handle_news(part);
            }
        }
    }
}

/// Compares again and again where the hub's feeds are with what the hub knows.
///
/// So the hub learns of lost news, of what other gateways wrote, and of raised epochs, within `pause`.
pub(crate) async fn follow_heads(hub: HubHandle, store: Arc<dyn Store>, pause: Duration) {
    let mut ticks = ticks(pause);
    let mut failing = false;
    loop {
        ticks.tick().await;
        let told = tell_heads(&hub, &*store).await;
        match &told {
            Ok(()) if failing => info!("the store's heads can be read again"),
            Ok(()) => {}
            Err(error) => store_trouble::tell(error, "read the heads of logs"),
        }
        failing = told.is_err();
    }
}

async fn tell_heads(hub: &HubHandle, store: &dyn Store) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        let feeds = hub.feeds_after(after.as_ref(), HEADS_MAX);
        if feeds.is_empty() {
            return Ok(());
        }
        for (conv, feed) in store.heads(&feeds).await? {
            hub.handle_news(feed_news(conv, feed, Vec::new()));
        }
        after = feeds.into_iter().next_back();
    }
}

/// Reads every session's standings anew, a share of them after each `pause`.
///
/// A join that the hub never heard of (its news was lost, or another gateway wrote it) concerns a feed that nobody here may
/// read yet, so the heads don't show it.
pub(crate) async fn follow_memberships(hub: HubHandle, store: Arc<dyn Store>, pause: Duration) {
    let mut ticks = ticks(pause);
    let mut after = None;
    loop {
        ticks.tick().await;
        let share = hub.session_count().div_ceil(PAUSES_A_ROUND).min(RELOADED_AT_ONCE_MAX);
        let sessions = hub.sessions_after(after.as_ref(), share);
        after = sessions.last().cloned();
        for session in sessions {
            if !hub.handle_reloading(&session) {
                continue;
            }
            let read = read_standings(&hub, &*store, &session).await;
            hub.handle_loaded(&session);
            if let Err(error) = read {
                debug!(error = &error as &dyn Error, "can't read a session's conversations anew");
                break;
            }
        }
    }
}

/// Has the hub hint readers that lag, again and again.
pub(crate) async fn sweep(hub: HubHandle, pause: Duration) {
    let mut ticks = ticks(pause);
    loop {
        ticks.tick().await;
        hub.handle_sweep();
    }
}

fn ticks(pause: Duration) -> Interval {
    let mut ticks = interval(pause);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Cuts news into parts of at most [`ENTRIES_TOLD_AT_ONCE`] entries, each of which follows on the one before.
fn in_parts(news: FeedNews<Frame>) -> Vec<FeedNews<Frame>> {
    let FeedNews { conv, position, members, mut entries } = news;
    let mut parts = Vec::new();
    while entries.len() > ENTRIES_TOLD_AT_ONCE {
        let rest = entries.split_off(ENTRIES_TOLD_AT_ONCE);
        let head = entries.last().map_or(Seq::ZERO, |fresh| fresh.entry.seq);
        let position = Position { seq: head, ..position };
        parts.push(FeedNews { conv: conv.clone(), position, members, entries });
        entries = rest;
    }
    parts.push(FeedNews { conv, position, members, entries });
    parts
}
