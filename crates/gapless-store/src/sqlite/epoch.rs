//! Raises epochs, some feeds a transaction.

use gapless_proto::{ConvId, Timestamp};
use rusqlite::{Connection, params};

use super::columns::{Columns, integer};
use crate::{FeedHead, News};

/// How many feeds one transaction raises the epoch of.
const STEP_FEEDS_MAX: u32 = 1_000;

/// Which feeds a transaction is about.
#[derive(Debug)]
pub(super) enum Feeds {
    /// This one.
    One(ConvId),
    /// A stretch of all, in id order, after this id.
    After(String),
}

impl Feeds {
    /// The first stretch of all feeds.
    pub(super) fn first() -> Self {
        Self::After(String::new())
    }

    /// What comes next, given what came of these.
    pub(super) fn after(&self, news: &[News]) -> Option<Self> {
        match (self, news.last()) {
            (Self::One(_), _) | (Self::After(_), None) => None,
            (Self::After(_), Some(last)) => Some(Self::After(last.conv.as_str().to_owned())),
        }
    }

    fn heads(&self, connection: &Connection) -> rusqlite::Result<Vec<(ConvId, FeedHead)>> {
        let (condition, id, limit) = match self {
            Self::One(conv) => ("=", conv.as_str(), 1),
            Self::After(id) => (">", id.as_str(), STEP_FEEDS_MAX),
        };
        let mut statement = connection.prepare_cached(&format!(
            "SELECT feed, epoch, head, members FROM feed WHERE feed {condition} ?1 ORDER BY feed LIMIT ?2"
        ))?;
        let rows = statement.query_map(params![id, limit], |row| {
            let mut columns = Columns::of(row);
            Ok((columns.conv()?, columns.feed_head()?))
        })?;
        rows.collect()
    }
}

/// Raises the epochs of these feeds, in the caller's transaction.
pub(super) fn raise(connection: &Connection, feeds: &Feeds, now: Timestamp) -> rusqlite::Result<Vec<News>> {
    let mut statement = connection.prepare_cached("UPDATE feed SET epoch = ?2 WHERE feed = ?1")?;
    let mut news = Vec::new();
    for (conv, mut feed) in feeds.heads(connection)? {
        feed.epoch = feed.epoch.raised(now);
        statement.execute(params![conv.as_str(), integer(feed.epoch.get())])?;
        news.push(News { conv, feed, entries: Vec::new() });
    }
    Ok(news)
}
