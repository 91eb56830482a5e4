//! Reading anything but pages, each in one statement.

use gapless_proto::{ConvId, Entry, Seq, UserId};
use tokio_postgres::Row;

use super::fault::Fault;
use super::readers::Readers;
use super::rows::{self, bigint, entry_columns, head_columns, member_columns};
use crate::{FeedHead, FeedInfo, LogSlice, Membership, StoreError};

const LOG: &str = concat!(
    "SELECT ",
    head_columns!(),
    ", ",
    entry_columns!(),
    " FROM feed f LEFT JOIN LATERAL ( \
         SELECT * FROM entry e WHERE e.feed = $1 AND e.seq > $2 ORDER BY e.seq LIMIT $3 \
     ) e ON true WHERE f.feed = $1"
);

/// The latest membership in each feed: steps from feed to feed, however often the user came back to each.
const MEMBERSHIPS: &str = concat!(
    "WITH RECURSIVE joined (feed) AS ( \
         SELECT (SELECT min(m.feed) FROM member m WHERE m.user_id = $1 AND m.feed > $2) \
         UNION ALL \
         SELECT (SELECT min(m.feed) FROM member m WHERE m.user_id = $1 AND m.feed > joined.feed) \
         FROM joined WHERE joined.feed IS NOT NULL \
     ) \
     SELECT m.feed, ",
    head_columns!(),
    ", ",
    member_columns!(),
    " FROM (SELECT * FROM joined WHERE feed IS NOT NULL LIMIT $3) j \
     CROSS JOIN LATERAL (SELECT * FROM feed f WHERE f.feed = j.feed LIMIT 1) f CROSS JOIN LATERAL ( \
         SELECT * FROM member m WHERE m.user_id = $1 AND m.feed = j.feed ORDER BY m.joined_seq DESC LIMIT 1 \
     ) m"
);

const MEMBERSHIP: &str = concat!(
    "SELECT m.feed, ",
    head_columns!(),
    ", ",
    member_columns!(),
    " FROM feed f JOIN member m ON m.feed = f.feed WHERE f.feed = $1 AND m.user_id = $2 \
     ORDER BY m.joined_seq DESC LIMIT 1"
);

const MEMBERS: &str = "\
    SELECT user_id FROM member WHERE feed = $1 AND user_id > $2 AND to_seq IS NULL ORDER BY user_id LIMIT $3";

const HEADS: &str =
    concat!("SELECT f.feed, ", head_columns!(), " FROM feed f WHERE f.feed = ANY($1::text[])");

const INFO: &str =
    concat!("SELECT ", head_columns!(), ", f.min_seq, f.history FROM feed f WHERE f.feed = $1");

const FEEDS: &str = "SELECT feed FROM feed WHERE feed > $1 ORDER BY feed LIMIT $2";

/// All of them.
#[cfg(test)]
pub(super) const ALL: &[&str] = &[LOG, MEMBERSHIPS, MEMBERSHIP, MEMBERS, HEADS, INFO, FEEDS];

pub(super) async fn log(
    readers: &Readers,
    conv: &ConvId,
    after: Seq,
    limit: u32,
) -> Result<Option<LogSlice>, StoreError> {
    let (conv, after, limit) = (conv.as_str(), bigint(after.get()), i64::from(limit));
    let rows = readers.query(LOG, &[&conv, &after, &limit]).await?;
    let Some(first) = rows.first() else {
        return Ok(None);
    };
    let mut entries = Vec::with_capacity(rows.len());
    for row in &rows {
        if !rows::is_null(row, 3)? {
            entries.push(rows::entry(row, 3)?);
        }
    }
    entries.sort_unstable_by_key(|entry: &Entry| entry.seq);
    Ok(Some(LogSlice { feed: rows::feed_head(first, 0)?, entries }))
}

pub(super) async fn memberships(
    readers: &Readers,
    user: &UserId,
    after: Option<&ConvId>,
    limit: u32,
) -> Result<Vec<Membership>, StoreError> {
    // No id is empty, so the empty text stands before all of them.
    let (user, after, limit) = (user.as_str(), after.map_or("", ConvId::as_str), i64::from(limit));
    let rows = readers.query(MEMBERSHIPS, &[&user, &after, &limit]).await?;
    let mut memberships = all(&rows, membership_row)?;
    memberships.sort_unstable_by(|one, other| one.conv.cmp(&other.conv));
    Ok(memberships)
}

pub(super) async fn membership(
    readers: &Readers,
    conv: &ConvId,
    user: &UserId,
) -> Result<Option<Membership>, StoreError> {
    let row = readers.query_opt(MEMBERSHIP, &[&conv.as_str(), &user.as_str()]).await?;
    Ok(row.as_ref().map(membership_row).transpose()?)
}

pub(super) async fn members(
    readers: &Readers,
    conv: &ConvId,
    after: Option<&UserId>,
    limit: u32,
) -> Result<Vec<UserId>, StoreError> {
    let (conv, after, limit) = (conv.as_str(), after.map_or("", UserId::as_str), i64::from(limit));
    let rows = readers.query(MEMBERS, &[&conv, &after, &limit]).await?;
    all(&rows, |row| rows::user(row, 0))
}

pub(super) async fn heads(
    readers: &Readers,
    convs: &[ConvId],
) -> Result<Vec<(ConvId, FeedHead)>, StoreError> {
    let convs: Vec<&str> = convs.iter().map(ConvId::as_str).collect();
    let rows = readers.query(HEADS, &[&convs]).await?;
    all(&rows, |row| Ok((rows::conv(row, 0)?, rows::feed_head(row, 1)?)))
}

pub(super) async fn info(readers: &Readers, conv: &ConvId) -> Result<Option<FeedInfo>, StoreError> {
    let row = readers.query_opt(INFO, &[&conv.as_str()]).await?;
    Ok(row.as_ref().map(info_row).transpose()?)
}

/// Some of all feeds, in id order, beginning after `after`.
pub(super) async fn feeds(
    readers: &Readers,
    after: Option<&ConvId>,
    limit: u32,
) -> Result<Vec<ConvId>, StoreError> {
    let (after, limit) = (after.map_or("", ConvId::as_str), i64::from(limit));
    let rows = readers.query(FEEDS, &[&after, &limit]).await?;
    all(&rows, |row| rows::conv(row, 0))
}

fn all<T>(rows: &[Row], read: impl FnMut(&Row) -> Result<T, Fault>) -> Result<Vec<T>, StoreError> {
    Ok(rows.iter().map(read).collect::<Result<_, _>>()?)
}

fn membership_row(row: &Row) -> Result<Membership, Fault> {
    Ok(Membership {
        conv: rows::conv(row, 0)?,
        feed: rows::feed_head(row, 1)?,
        latest: rows::membership(row, 4)?.visible,
    })
}

fn info_row(row: &Row) -> Result<FeedInfo, Fault> {
    Ok(FeedInfo {
        feed: rows::feed_head(row, 0)?,
        min_seq: rows::seq(row, 3)?,
        history: rows::history(row, 4)?,
    })
}
