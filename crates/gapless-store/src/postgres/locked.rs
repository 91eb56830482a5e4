//! What a transaction knows of the feeds that it has locked.

use std::collections::{BTreeMap, BTreeSet};

use gapless_core::{Append, FeedRow, FeedState, MembershipRow, StoredContent, StoredKey};
use gapless_proto::{ConvId, Key, Seq, UserId};
use tokio_postgres::Row;

use super::commit::{BEGIN, Keys};
use super::fault::{Fault, within};
use super::link::{LOCKED_PATIENCE, Session};
use super::rows;

/// The feeds that a transaction has locked, and what it has read of them.
///
/// Reading in the same flight as locking is right because the transaction is READ COMMITTED: each statement sees what was
/// committed before *it* began, and those after the first begin once the locks are held. Nobody else changes what belongs to a
/// locked feed. The locking statement itself returns the newest version of the rows that it had to wait for.
pub(super) struct Locked {
    feeds: Vec<Row>,
    members: Vec<Row>,
    keys: Vec<Row>,
}

impl Locked {
    /// Opens a transaction, locks the feeds of appends and those in doubt, and reads what the appends' outcomes depend on.
    pub(super) async fn open(
        session: &Session,
        appends: &[&Append],
        in_doubt: &BTreeSet<ConvId>,
        keys: Keys,
    ) -> Result<Self, Fault> {
        let statements = &session.statements;
        let feeds = feeds_of(appends, in_doubt);
        let (member_feeds, users) = members_of(appends);
        within(LOCKED_PATIENCE, async {
            let (begun, feeds, members, keys) = tokio::join!(
                biased;
                session.command(BEGIN),
                session.query(&statements.lock_feeds, [&feeds]),
                session.query(&statements.latest_memberships, [&member_feeds, &users]),
                async {
                    match keys {
                        Keys::TakenForNew => Ok(Vec::new()),
                        Keys::LookedUp => used_keys(session, appends).await,
                    }
                },
            );
            begun?;
            Ok(Self { feeds: feeds?, members: members?, keys: keys? })
        })
        .await
    }

    /// Reads which keys of appends were used before.
    pub(super) async fn look_up_keys(&mut self, session: &Session, appends: &[&Append]) -> Result<(), Fault> {
        self.keys = within(LOCKED_PATIENCE, used_keys(session, appends)).await?;
        Ok(())
    }

    /// Those of the feeds that have lost entries to a trim.
    pub(super) fn trimmed(&self) -> Result<BTreeSet<ConvId>, Fault> {
        let mut trimmed = BTreeSet::new();
        for row in &self.feeds {
            if rows::seq(row, MIN_SEQ)? > Seq::FIRST {
                trimmed.insert(rows::conv(row, 0)?);
            }
        }
        Ok(trimmed)
    }

    /// What the decisions are made from.
    pub(super) fn states(&self) -> Result<BTreeMap<ConvId, FeedState>, Fault> {
        let mut states = BTreeMap::new();
        for row in &self.feeds {
            let state =
                FeedState { row: feed_row(row)?, memberships: BTreeMap::new(), keys: BTreeMap::new() };
            states.insert(rows::conv(row, 0)?, state);
        }
        for row in &self.members {
            let (conv, user, membership) = membership_row(row)?;
            if let Some(state) = states.get_mut(&conv) {
                state.memberships.insert(user, membership);
            }
        }
        for row in &self.keys {
            let (conv, key, stored) = used_key(row)?;
            if let Some(state) = states.get_mut(&conv) {
                state.keys.insert(key, stored);
            }
        }
        Ok(states)
    }
}

async fn used_keys(session: &Session, appends: &[&Append]) -> Result<Vec<Row>, tokio_postgres::Error> {
    let nothing = BTreeSet::new();
    let feeds = feeds_of(appends, &nothing);
    let (key_feeds, senders, keys) = keys_of(appends);
    session.query(&session.statements.used_keys, [&key_feeds, &senders, &keys, &feeds]).await
}

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

/// Where `min_seq` stands in a locked feed's row.
const MIN_SEQ: usize = 6;

fn feed_row(row: &Row) -> Result<FeedRow, Fault> {
    let head = rows::feed_head(row, 1)?;
    Ok(FeedRow {
        epoch: head.epoch,
        head: head.head,
        members: head.members,
        history: rows::history(row, 4)?,
        creator: rows::user(row, 5)?,
    })
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
