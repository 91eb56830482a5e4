//! One group commit: what waits, for many feeds, in one transaction of two flights.
//!
//! The first flight opens the transaction, locks the feeds in id order and reads what the decisions depend on; the second
//! writes and commits. Each is sent whole before anything is awaited, so that a commit costs two round trips.
//!
//! Reading in the same flight as locking is right because the transaction is READ COMMITTED: each statement sees what was
//! committed before *it* began, and those after the first begin once the locks are held. Nobody else changes what belongs to a
//! locked feed. The locking statement itself returns the newest version of the rows that it had to wait for.

use std::collections::{BTreeMap, BTreeSet};

use gapless_core::{
    Append, AppendBatch, AppendOutcome, FeedRow, FeedState, MembershipRow, StoredContent, StoredKey,
};
use gapless_proto::{ConvId, Entry, Key, Timestamp, UserId};
use tokio_postgres::Row;

use super::columns::{EntryColumns, HeadColumns, MembershipColumns};
use super::fault::{Fault, within};
use super::link::{LOCKED_PATIENCE, Session, WRITTEN_PATIENCE};
use super::rows;
use crate::{FeedHead, News};

/// What a commit came to.
#[derive(Debug)]
pub(super) struct Committed {
    /// An outcome an append, in the order of the appends.
    pub(super) outcomes: Vec<AppendOutcome>,
    pub(super) news: Vec<News>,
}

/// Why a transaction wasn't seen to commit.
#[derive(Debug)]
pub(super) enum CommitError {
    /// It wasn't committed.
    Undone(Fault),
    /// The commit was asked for, and the answer is missing.
    InDoubt {
        fault: Fault,
        /// What it would have changed.
        convs: Vec<ConvId>,
    },
}

impl CommitError {
    /// What a failure means once the commit was asked for.
    pub(super) fn of_writing(fault: Fault, convs: impl FnOnce() -> Vec<ConvId>) -> Self {
        if fault.is_refusal() { Self::Undone(fault) } else { Self::InDoubt { fault, convs: convs() } }
    }
}

impl From<Fault> for CommitError {
    fn from(fault: Fault) -> Self {
        Self::Undone(fault)
    }
}

/// Commits appends, in their order. The news includes where the feeds `in_doubt` are, if anywhere.
pub(super) async fn commit_appends(
    session: &Session,
    appends: &[&Append],
    in_doubt: &BTreeSet<ConvId>,
    now: Timestamp,
) -> Result<Committed, CommitError> {
    let feeds = lock_and_load(session, appends, in_doubt).await?;
    let mut heads: BTreeMap<ConvId, FeedHead> =
        in_doubt.iter().filter_map(|conv| Some((conv.clone(), head_of(&feeds.get(conv)?.row)))).collect();
    let mut batch = AppendBatch::new(now, feeds);
    let outcomes = appends.iter().map(|append| batch.push(append)).collect();
    if batch.entries().is_empty() {
        roll_back(session).await?;
    } else {
        write_and_commit(session, &batch).await?;
    }
    let mut news = news_of(&batch);
    for changed in &news {
        heads.remove(&changed.conv);
    }
    news.extend(heads.into_iter().map(|(conv, feed)| News { conv, feed, entries: Vec::new() }));
    Ok(Committed { outcomes, news })
}

/// Opens a transaction, locks the feeds and reads what the appends' outcomes depend on.
async fn lock_and_load(
    session: &Session,
    appends: &[&Append],
    in_doubt: &BTreeSet<ConvId>,
) -> Result<BTreeMap<ConvId, FeedState>, Fault> {
    let statements = &session.statements;
    let feeds = feeds_of(appends, in_doubt);
    let (member_feeds, users) = members_of(appends);
    let (key_feeds, senders, keys) = keys_of(appends);

    let (feeds, members, keys) = within(LOCKED_PATIENCE, async {
        let (begun, feeds, members, keys) = tokio::join!(
            biased;
            session.command(BEGIN),
            session.query(&statements.lock_feeds, [&feeds]),
            session.query(&statements.latest_memberships, [&member_feeds, &users]),
            session.query(&statements.used_keys, [&key_feeds, &senders, &keys]),
        );
        begun?;
        Ok((feeds?, members?, keys?))
    })
    .await?;

    let mut states = BTreeMap::new();
    for row in &feeds {
        let (conv, row) = feed_row(row)?;
        states.insert(conv, FeedState { row, memberships: BTreeMap::new(), keys: BTreeMap::new() });
    }
    for row in &members {
        let (conv, user, membership) = membership_row(row)?;
        if let Some(state) = states.get_mut(&conv) {
            state.memberships.insert(user, membership);
        }
    }
    for row in &keys {
        let (conv, key, stored) = used_key(row)?;
        if let Some(state) = states.get_mut(&conv) {
            state.keys.insert(key, stored);
        }
    }
    Ok(states)
}

/// Writes what a batch says, and commits.
pub(super) async fn write_and_commit(session: &Session, batch: &AppendBatch) -> Result<(), CommitError> {
    let statements = &session.statements;
    let entries = EntryColumns::of(batch.entries());
    let memberships = MembershipColumns::of(batch);
    let heads = HeadColumns::of(batch);

    // A statement that fails makes the COMMIT behind it a rollback, so each answer counts. What isn't needed isn't sent.
    let written = within(WRITTEN_PATIENCE, async {
        let (entries, memberships, heads, committed) = tokio::join!(
            biased;
            session.execute(&statements.insert_entries, entries.params()),
            async {
                if memberships.is_empty() {
                    return Ok(0);
                }
                session.execute(&statements.write_memberships, memberships.params()).await
            },
            session.execute(&statements.move_heads, heads.params()),
            session.command(COMMIT),
        );
        entries?;
        memberships?;
        heads?;
        committed
    });
    let changed = || batch.changed_feeds().map(|(conv, _)| conv.clone()).collect();
    written.await.map_err(|fault| CommitError::of_writing(fault, changed))
}

/// Ends a transaction that wrote nothing.
pub(super) async fn roll_back(session: &Session) -> Result<(), Fault> {
    within(LOCKED_PATIENCE, session.command("ROLLBACK")).await
}

/// What a batch did to each feed that it changed.
pub(super) fn news_of(batch: &AppendBatch) -> Vec<News> {
    let mut entries: BTreeMap<&ConvId, Vec<Entry>> = BTreeMap::new();
    for (conv, entry) in batch.entries() {
        entries.entry(conv).or_default().push(entry.clone());
    }
    batch
        .changed_feeds()
        .map(|(conv, row)| News {
            conv: conv.clone(),
            feed: head_of(row),
            entries: entries.remove(conv).unwrap_or_default(),
        })
        .collect()
}

pub(super) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
pub(super) const COMMIT: &str = "COMMIT";

/// The feeds to lock, in id order.
fn feeds_of<'a>(appends: &[&'a Append], in_doubt: &'a BTreeSet<ConvId>) -> Vec<&'a str> {
    let wanted = appends.iter().map(|append| &append.conv).chain(in_doubt);
    let feeds: BTreeSet<&str> = wanted.map(ConvId::as_str).collect();
    feeds.into_iter().collect()
}

fn members_of<'a>(appends: &[&'a Append]) -> (Vec<&'a str>, Vec<&'a str>) {
    let wanted = appends.iter().flat_map(|append| {
        let conv = append.conv.as_str();
        append.users().map(move |user| (conv, user.as_str()))
    });
    wanted.collect::<BTreeSet<_>>().into_iter().unzip()
}

fn keys_of<'a>(appends: &[&'a Append]) -> (Vec<&'a str>, Vec<&'a str>, Vec<&'a str>) {
    let wanted = appends.iter().filter_map(|append| {
        let (sender, key) = append.key()?;
        Some((append.conv.as_str(), sender.as_str(), key.as_str()))
    });
    wanted.collect::<BTreeSet<_>>().into_iter().collect()
}

fn feed_row(row: &Row) -> Result<(ConvId, FeedRow), Fault> {
    let head = rows::feed_head(row, 1)?;
    let feed = FeedRow {
        epoch: head.epoch,
        head: head.head,
        members: head.members,
        history: rows::history(row, 4)?,
        creator: rows::user(row, 5)?,
    };
    Ok((rows::conv(row, 0)?, feed))
}

fn membership_row(row: &Row) -> Result<(ConvId, UserId, MembershipRow), Fault> {
    Ok((rows::conv(row, 0)?, rows::user(row, 1)?, rows::membership(row, 2)?))
}

fn used_key(row: &Row) -> Result<(ConvId, (UserId, Key), StoredKey), Fault> {
    let digest: Option<&[u8]> = row.try_get(6)?;
    let content = match digest {
        None => StoredContent::Body(rows::body(row, 5)?),
        Some(digest) => {
            StoredContent::Digest(digest.try_into().map_err(|error| Fault::unreadable("digest", error))?)
        }
    };
    let stored = StoredKey { seq: rows::seq(row, 3)?, ts: rows::timestamp(row, 4)?, content };
    Ok((rows::conv(row, 0)?, (rows::user(row, 1)?, rows::key(row, 2)?), stored))
}

pub(super) fn head_of(row: &FeedRow) -> FeedHead {
    FeedHead { epoch: row.epoch, head: row.head, members: row.members }
}
