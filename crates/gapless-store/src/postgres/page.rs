//! A page: one statement, so one moment.

use gapless_core::Seen;
use gapless_proto::Page;
use tokio_postgres::Row;

use super::fault::Fault;
use super::readers::Readers;
use super::rows::{self, bigint, entry_columns};
use crate::{PAGE_ENTRIES_MAX, PageError, PageRequest, Reader, StoreError};

/// The latest membership that begins at or before a place; no earlier one reaches beyond it.
macro_rules! latest_joined_by {
    ($place:literal) => {
        concat!(
            "coalesce((SELECT s.joined_seq FROM member s \
                 WHERE s.feed = $1 AND s.user_id = $2 AND s.joined_seq <= ",
            $place,
            " ORDER BY s.joined_seq DESC LIMIT 1), 0)"
        )
    };
}

/// The page of a user, one entry more than asked for.
///
/// It begins at the cursor or where the log begins, whichever is later. Of the memberships those count that reach beyond that
/// place, and no more of them than entries are wanted, since each has one. Each is a range of the primary key, read
/// from its beginning for as many entries as are wanted. Memberships of a user never overlap; so in their order the
/// entries are sorted, and a later one isn't begun while the earlier ones give enough. The first membership that reaches
/// beyond the cursor tells whether anything that the user may see is trimmed.
pub(super) const USER_PAGE: &str = concat!(
    "SELECT f.epoch, f.head, f.min_seq, f.visible_from, f.held_at, ",
    entry_columns!(),
    " FROM ( \
         SELECT f.epoch, f.head, f.min_seq, CASE WHEN f.history = 'all' THEN ( \
             SELECT m.to_seq FROM member m WHERE m.feed = $1 AND m.user_id = $2 ORDER BY m.joined_seq DESC LIMIT 1 \
         ) END AS held_at, ( \
             SELECT m.from_seq FROM member m \
             WHERE m.feed = $1 AND m.user_id = $2 AND m.joined_seq >= ",
    latest_joined_by!("$3"),
    " AND coalesce(m.to_seq, f.head) > $3 ORDER BY m.joined_seq LIMIT 1 \
         ) AS visible_from FROM feed f \
         WHERE f.feed = $1 AND EXISTS (SELECT FROM member m WHERE m.feed = $1 AND m.user_id = $2) LIMIT 1 \
     ) f LEFT JOIN LATERAL ( \
         SELECT e.* FROM ( \
             SELECT m.joined_seq, m.from_seq, coalesce(m.to_seq, f.head) AS to_seq FROM member m \
             WHERE m.feed = $1 AND m.user_id = $2 AND m.joined_seq >= ",
    latest_joined_by!("greatest($3, f.min_seq - 1)"),
    " AND coalesce(m.to_seq, f.head) > greatest($3, f.min_seq - 1) AND f.epoch = coalesce($5, f.epoch) \
             ORDER BY m.joined_seq LIMIT $4 \
         ) m CROSS JOIN LATERAL ( \
             SELECT * FROM entry e WHERE e.feed = $1 AND e.seq > $3 AND e.seq >= m.from_seq AND e.seq <= m.to_seq \
             ORDER BY e.seq LIMIT $4 \
         ) e ORDER BY m.joined_seq, e.seq LIMIT $4 \
     ) e ON true"
);

/// The page of one who sees everything.
pub(super) const SERVICE_PAGE: &str = concat!(
    "SELECT f.epoch, f.head, f.min_seq, 1::bigint, NULL::bigint, ",
    entry_columns!(),
    " FROM feed f LEFT JOIN LATERAL ( \
         SELECT * FROM entry e WHERE e.feed = $1 AND e.seq > $2 AND f.epoch = coalesce($4, f.epoch) \
         ORDER BY e.seq LIMIT $3 \
     ) e ON true WHERE f.feed = $1"
);

/// What a reader may see after a cursor.
pub(super) async fn page(readers: &Readers, request: &PageRequest) -> Result<Page, PageError> {
    let limit = request.limit.clamp(1, PAGE_ENTRIES_MAX);
    let (conv, after) = (request.conv.as_str(), bigint(request.after.get()));
    let (rows_max, epoch) = (i64::from(limit) + 1, request.epoch.map(|epoch| bigint(epoch.get())));
    let rows = match &request.reader {
        Reader::User(user) => {
            let user = user.as_str();
            readers.query(USER_PAGE, &[&conv, &user, &after, &rows_max, &epoch]).await?
        }
        Reader::Service => readers.query(SERVICE_PAGE, &[&conv, &after, &rows_max, &epoch]).await?,
    };
    let seen = seen(&rows).map_err(StoreError::from)?.ok_or(PageError::NotFound)?;
    Ok(seen.into_page(request.after, request.epoch, limit as usize)?)
}

fn seen(rows: &[Row]) -> Result<Option<Seen>, Fault> {
    let Some(first) = rows.first() else {
        return Ok(None);
    };
    let mut entries = Vec::with_capacity(rows.len());
    for row in rows {
        if !rows::is_null(row, 5)? {
            entries.push(rows::entry(row, 5)?);
        }
    }
    // They are sorted already, but SQL promises an order only for the whole statement; telling that they are costs nothing.
    entries.sort_unstable_by_key(|entry| entry.seq);
    Ok(Some(Seen {
        epoch: rows::epoch(first, 0)?,
        head: rows::seq(first, 1)?,
        min_seq: rows::seq(first, 2)?,
        visible_from: rows::seq_or_null(first, 3)?,
        held_at: rows::seq_or_null(first, 4)?,
        entries,
    }))
}

#[cfg(test)]
mod tests;
