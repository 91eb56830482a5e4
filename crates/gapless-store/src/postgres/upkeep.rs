//! Trimming, and raising epochs: one transaction a step.

use gapless_proto::{ConvId, Seq, Timestamp};
use tokio_postgres::Row;

use super::commit::{BEGIN, COMMIT, CommitError, roll_back};
use super::fault::{Fault, within};
use super::link::{LOCKED_PATIENCE, Session, WRITTEN_PATIENCE};
use super::rows::{self, bigint};
use crate::{FeedHead, News};

/// How many entries one transaction trims at most, so that senders don't wait for long.
const TRIM_STEP_ENTRIES: u64 = 1_000;
/// How many epochs one transaction raises at most.
pub(super) const EPOCH_STEP_FEEDS: u32 = 500;

/// What one step of a trim came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TrimStep {
    /// The oldest seq that is kept now.
    pub(super) min_seq: Seq,
    /// How many entries were deleted.
    pub(super) deleted: u64,
    /// Whether all is deleted that was asked for.
    pub(super) is_last: bool,
}

/// Deletes the oldest entries below `below`, up to a bound; `None` when there is no such conversation.
pub(super) async fn trim_step(
    session: &Session,
    conv: &ConvId,
    below: Seq,
) -> Result<Option<TrimStep>, CommitError> {
    let locked = lock(session, &[conv]).await?;
    let Some(feed) = locked.first() else {
        roll_back(session).await?;
        return Ok(None);
    };
    let from = feed.min_seq.get();
    let end = below.get().min(feed.head.head.get() + 1);
    let to = end.min(from + TRIM_STEP_ENTRIES);
    if to <= from {
        roll_back(session).await?;
        return Ok(Some(TrimStep { min_seq: feed.min_seq, deleted: 0, is_last: true }));
    }
    delete_and_commit(session, conv, from, to).await?;
    Ok(Some(TrimStep {
        min_seq: Seq::new(to).map_err(|error| Fault::unreadable("seq", error))?,
        deleted: to - from,
        is_last: to == end,
    }))
}

async fn delete_and_commit(session: &Session, conv: &ConvId, from: u64, to: u64) -> Result<(), CommitError> {
    let statements = &session.statements;
    let (conv, from, to) = (conv.as_str(), bigint(from), bigint(to));
    let written = within(WRITTEN_PATIENCE, async {
        let (trimmed, raised, committed) = tokio::join!(
            biased;
            session.execute(&statements.trim_entries, [&conv, &from, &to]),
            session.execute(&statements.raise_min_seq, [&conv, &to]),
            session.command(COMMIT),
        );
        trimmed?;
        raised?;
        committed
    });
    // Nobody waits for news of it, so that it is in doubt matters to nobody.
    Ok(written.await?)
}

/// Raises the epochs of some feeds, and tells where they are now.
pub(super) async fn raise_epochs(
    session: &Session,
    convs: &[ConvId],
    now: Timestamp,
) -> Result<Vec<News>, CommitError> {
    let convs: Vec<&ConvId> = convs.iter().collect();
    let locked = lock(session, &convs).await?;
    let news: Vec<News> = locked.into_iter().map(|feed| raised(feed, now)).collect();
    let feeds: Vec<&str> = news.iter().map(|news| news.conv.as_str()).collect();
    let epochs: Vec<i64> = news.iter().map(|news| bigint(news.feed.epoch.get())).collect();

    let statements = &session.statements;
    let written = within(WRITTEN_PATIENCE, async {
        let (raised, committed) = tokio::join!(
            biased;
            session.execute(&statements.raise_epochs, [&feeds, &epochs]),
            session.command(COMMIT),
        );
        raised?;
        committed
    });
    let changed = || news.iter().map(|news| news.conv.clone()).collect();
    written.await.map_err(|fault| CommitError::of_writing(fault, changed))?;
    Ok(news)
}

fn raised(feed: Locked, now: Timestamp) -> News {
    News {
        conv: feed.conv,
        feed: FeedHead { epoch: feed.head.epoch.raised(now), ..feed.head },
        entries: Vec::new(),
    }
}

/// A locked feed, as far as upkeep needs it.
struct Locked {
    conv: ConvId,
    head: FeedHead,
    min_seq: Seq,
}

/// Opens a transaction and locks those of the feeds that exist.
async fn lock(session: &Session, convs: &[&ConvId]) -> Result<Vec<Locked>, Fault> {
    let statements = &session.statements;
    let feeds: Vec<&str> = convs.iter().map(|conv| conv.as_str()).collect();
    let rows = within(LOCKED_PATIENCE, async {
        let (begun, rows) = tokio::join!(
            biased;
            session.command(BEGIN),
            session.query(&statements.lock_feeds, [&feeds]),
        );
        begun?;
        rows
    })
    .await?;
    rows.iter().map(locked).collect()
}

fn locked(row: &Row) -> Result<Locked, Fault> {
    Ok(Locked { conv: rows::conv(row, 0)?, head: rows::feed_head(row, 1)?, min_seq: rows::seq(row, 6)? })
}
