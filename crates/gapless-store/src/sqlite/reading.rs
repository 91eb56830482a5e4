//! The reads. Each is one statement, so all that it returns belongs to one moment.

use gapless_core::Seen;
use gapless_proto::{ConvId, Page, Seq, UserId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::columns::{Columns, integer};
use crate::{
    FeedHead, FeedInfo, LogSlice, Membership, PAGE_ENTRIES_MAX, PageError, PageRequest, Reader, StoreError,
};

#[cfg(test)]
mod tests;

/// Reads begin at ?3, the cursor, or where the log begins; whichever is later. Of the memberships that a user had (?2), those
/// that end later are walked in order, each with its entries, until the page is full (?4): the latest that begins at or
/// before that place, and all that follow. The first interval that reaches beyond the cursor tells whether anything
/// that the user may see is trimmed. Without entries to show, there still is one row.
const PAGE_OF_USER: &str = "
SELECT f.epoch, f.head, f.min_seq,
       EXISTS (SELECT 1 FROM member WHERE feed = ?1 AND user_id = ?2),
       (SELECT from_seq FROM member
         WHERE feed = ?1 AND user_id = ?2 AND (to_seq IS NULL OR to_seq > ?3)
           AND joined_seq >= coalesce(
               (SELECT max(joined_seq) FROM member WHERE feed = ?1 AND user_id = ?2 AND joined_seq <= ?3), 0)
         ORDER BY joined_seq LIMIT 1),
       CASE WHEN f.history = 'all' THEN
           (SELECT to_seq FROM member WHERE feed = ?1 AND user_id = ?2 ORDER BY joined_seq DESC LIMIT 1)
       END,
       e.seq, e.kind, e.sender, e.key, e.ts, e.body
  FROM feed f
  LEFT JOIN member m
    ON m.feed = ?1 AND m.user_id = ?2
   AND m.joined_seq >= coalesce(
       (SELECT max(joined_seq) FROM member
         WHERE feed = ?1 AND user_id = ?2 AND joined_seq <= max(?3, f.min_seq - 1)), 0)
   AND (m.to_seq IS NULL OR m.to_seq > max(?3, f.min_seq - 1))
  LEFT JOIN entry e
    ON e.feed = ?1
   AND e.seq > max(?3, f.min_seq - 1, m.from_seq - 1)
   AND e.seq <= coalesce(m.to_seq, f.head)
 WHERE f.feed = ?1
 ORDER BY m.joined_seq, e.seq
 LIMIT ?4";

const PAGE_OF_SERVICE: &str = "
SELECT f.epoch, f.head, f.min_seq, 1, 1, NULL,
       e.seq, e.kind, e.sender, e.key, e.ts, e.body
  FROM feed f
  LEFT JOIN entry e ON e.feed = ?1 AND e.seq > ?2
 WHERE f.feed = ?1
 ORDER BY e.seq
 LIMIT ?3";

const LOG: &str = "
SELECT f.epoch, f.head, f.members,
       e.seq, e.kind, e.sender, e.key, e.ts, e.body
  FROM feed f
  LEFT JOIN entry e ON e.feed = ?1 AND e.seq > ?2
 WHERE f.feed = ?1
 ORDER BY e.seq
 LIMIT ?3";

/// Steps from conversation to conversation, however often the user came back to each.
const MEMBERSHIPS: &str = "
WITH RECURSIVE joined (feed) AS (
    SELECT (SELECT min(feed) FROM member WHERE user_id = ?1 AND feed > ?2)
    UNION ALL
    SELECT (SELECT min(feed) FROM member WHERE user_id = ?1 AND feed > joined.feed)
      FROM joined WHERE joined.feed IS NOT NULL
    LIMIT ?3
)
SELECT f.feed, f.epoch, f.head, f.members, m.from_seq, m.to_seq
  FROM joined
  CROSS JOIN feed f ON f.feed = joined.feed
  CROSS JOIN member m
    ON m.feed = f.feed AND m.user_id = ?1
   AND m.joined_seq = (SELECT max(joined_seq) FROM member WHERE feed = f.feed AND user_id = ?1)";

const MEMBERSHIP: &str = "
SELECT f.feed, f.epoch, f.head, f.members, m.from_seq, m.to_seq
  FROM feed f
  CROSS JOIN member m ON m.feed = ?1 AND m.user_id = ?2
 WHERE f.feed = ?1
 ORDER BY m.joined_seq DESC
 LIMIT 1";

const MEMBERS: &str = "
SELECT user_id FROM member
 WHERE feed = ?1 AND to_seq IS NULL AND user_id > ?2
 ORDER BY user_id
 LIMIT ?3";

const HEADS: &str = "
SELECT f.feed, f.epoch, f.head, f.members
  FROM json_each(?1) asked
  CROSS JOIN feed f ON f.feed = asked.value";

const INFO: &str = "SELECT epoch, head, members, min_seq, history FROM feed WHERE feed = ?1";

pub(super) fn page(connection: &Connection, request: &PageRequest) -> Result<Page, PageError> {
    let limit = request.limit.clamp(1, PAGE_ENTRIES_MAX);
    let seen = page_rows(connection, request, limit).map_err(StoreError::from)?;
    let seen = seen.ok_or(PageError::NotFound)?;
    Ok(seen.into_page(request.after, request.epoch, limit as usize)?)
}

fn page_rows(connection: &Connection, request: &PageRequest, limit: u32) -> rusqlite::Result<Option<Seen>> {
    let (conv, after) = (request.conv.as_str(), integer(request.after.get()));
    match &request.reader {
        Reader::User(user) => {
            let mut statement = connection.prepare_cached(PAGE_OF_USER)?;
            collect_page(statement.query(params![conv, user.as_str(), after, limit + 1])?)
        }
        Reader::Service => {
            let mut statement = connection.prepare_cached(PAGE_OF_SERVICE)?;
            collect_page(statement.query(params![conv, after, limit + 1])?)
        }
    }
}

/// `None` when there is no such conversation, or the reader may not know of it.
fn collect_page(mut rows: rusqlite::Rows<'_>) -> rusqlite::Result<Option<Seen>> {
    let mut page: Option<Seen> = None;
    while let Some(row) = rows.next()? {
        let mut columns = Columns::of(row);
        let (epoch, head, min_seq) = (columns.epoch()?, columns.seq()?, columns.seq()?);
        if !columns.flag()? {
            return Ok(None);
        }
        let (visible_from, held_at) = (columns.seq_or_null()?, columns.seq_or_null()?);
        let page =
            page.get_or_insert(Seen { epoch, head, min_seq, visible_from, held_at, entries: Vec::new() });
        if !columns.is_null()? {
            page.entries.push(columns.entry()?);
        }
    }
    Ok(page)
}

pub(super) fn log(
    connection: &Connection,
    conv: &ConvId,
    after: Seq,
    limit: u32,
) -> Result<Option<LogSlice>, StoreError> {
    let mut statement = connection.prepare_cached(LOG)?;
    let mut rows = statement.query(params![conv.as_str(), integer(after.get()), limit])?;
    let mut slice: Option<LogSlice> = None;
    while let Some(row) = rows.next()? {
        let mut columns = Columns::of(row);
        let feed = columns.feed_head()?;
        let slice = slice.get_or_insert(LogSlice { feed, entries: Vec::new() });
        if !columns.is_null()? {
            slice.entries.push(columns.entry()?);
        }
    }
    Ok(slice)
}

pub(super) fn memberships(
    connection: &Connection,
    user: &UserId,
    after: Option<&ConvId>,
    limit: u32,
) -> Result<Vec<Membership>, StoreError> {
    let mut statement = connection.prepare_cached(MEMBERSHIPS)?;
    let after = after.map_or("", ConvId::as_str);
    let rows = statement.query_map(params![user.as_str(), after, limit], standing)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn membership(
    connection: &Connection,
    conv: &ConvId,
    user: &UserId,
) -> Result<Option<Membership>, StoreError> {
    let mut statement = connection.prepare_cached(MEMBERSHIP)?;
    Ok(statement.query_row(params![conv.as_str(), user.as_str()], standing).optional()?)
}

pub(super) fn members(
    connection: &Connection,
    conv: &ConvId,
    after: Option<&UserId>,
    limit: u32,
) -> Result<Vec<UserId>, StoreError> {
    let mut statement = connection.prepare_cached(MEMBERS)?;
    let after = after.map_or("", UserId::as_str);
    let rows = statement.query_map(params![conv.as_str(), after, limit], |row| Columns::of(row).user())?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn heads(
    connection: &Connection,
    convs: &[ConvId],
) -> Result<Vec<(ConvId, FeedHead)>, StoreError> {
    let asked = convs.iter().map(ConvId::as_str).collect::<serde_json::Value>().to_string();
    let mut statement = connection.prepare_cached(HEADS)?;
    let rows = statement.query_map(params![asked], |row| {
        let mut columns = Columns::of(row);
        Ok((columns.conv()?, columns.feed_head()?))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn info(connection: &Connection, conv: &ConvId) -> Result<Option<FeedInfo>, StoreError> {
    let mut statement = connection.prepare_cached(INFO)?;
    let info = statement.query_row(params![conv.as_str()], |row| {
        let mut columns = Columns::of(row);
        Ok(FeedInfo { feed: columns.feed_head()?, min_seq: columns.seq()?, history: columns.history()? })
    });
    Ok(info.optional()?)
}

pub(super) fn check(connection: &Connection) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached("SELECT EXISTS (SELECT 1 FROM feed)")?;
    statement.query_row((), |_| Ok(()))?;
    Ok(())
}

/// `feed, epoch, head, members, from_seq, to_seq`.
fn standing(row: &Row<'_>) -> rusqlite::Result<Membership> {
    let mut columns = Columns::of(row);
    Ok(Membership { conv: columns.conv()?, feed: columns.feed_head()?, latest: columns.interval()? })
}
