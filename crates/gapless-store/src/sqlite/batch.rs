//! One transaction's worth of appends: what a [`AppendBatch`] needs to know, and what it has decided.

use std::collections::BTreeMap;

use gapless_core::{Append, AppendBatch, FeedRow, FeedState, MembershipRow, StoredContent, StoredKey};
use gapless_proto::{ConvId, Entry, Key, Seq, UserId};
use rusqlite::{Connection, OptionalExtension, params};

use super::columns::{Columns, integer};

/// Reads what the appends' feeds look like, as far as the appends need it.
pub(super) fn load<'batch>(
    connection: &Connection,
    appends: impl Iterator<Item = &'batch Append>,
) -> rusqlite::Result<BTreeMap<ConvId, FeedState>> {
    let mut feeds = BTreeMap::new();
    for append in appends {
        if !feeds.contains_key(&append.conv) {
            feeds.insert(append.conv.clone(), Feed::load(connection, &append.conv)?);
        }
        if let Some(Some(feed)) = feeds.get_mut(&append.conv) {
            feed.load_for(connection, append)?;
        }
    }
    Ok(feeds.into_iter().filter_map(|(conv, feed)| Some((conv, feed?.state))).collect())
}

/// A feed while it is being loaded.
struct Feed {
    state: FeedState,
    /// Whether keys may be found among those of trimmed entries.
    is_trimmed: bool,
}

impl Feed {
    fn load(connection: &Connection, conv: &ConvId) -> rusqlite::Result<Option<Self>> {
        let mut statement = connection.prepare_cached(
            "SELECT epoch, head, history, creator, members, min_seq FROM feed WHERE feed = ?1",
        )?;
        let feed = statement.query_row(params![conv.as_str()], |row| {
            let mut columns = Columns::of(row);
            let row = FeedRow {
                epoch: columns.epoch()?,
                head: columns.seq()?,
                history: columns.history()?,
                creator: columns.user()?,
                members: columns.count()?,
            };
            Ok(Self {
                state: FeedState { row, memberships: BTreeMap::new(), keys: BTreeMap::new() },
                is_trimmed: columns.seq()? > Seq::FIRST,
            })
        });
        feed.optional()
    }

    fn load_for(&mut self, connection: &Connection, append: &Append) -> rusqlite::Result<()> {
        for user in append.users() {
            if self.state.memberships.contains_key(user) {
                continue;
            }
            if let Some(latest) = latest_membership(connection, &append.conv, user)? {
                self.state.memberships.insert(user.clone(), latest);
            }
        }
        if let Some((sender, key)) = append.key()
            && let Some(stored) = self.stored_key(connection, &append.conv, sender, key)?
        {
            self.state.keys.insert((sender.clone(), key.clone()), stored);
        }
        Ok(())
    }

    fn stored_key(
        &self,
        connection: &Connection,
        conv: &ConvId,
        sender: &UserId,
        key: &Key,
    ) -> rusqlite::Result<Option<StoredKey>> {
        match kept_key(connection, conv, sender, key)? {
            None if self.is_trimmed => trimmed_key(connection, conv, sender, key),
            found => Ok(found),
        }
    }
}

fn latest_membership(
    connection: &Connection,
    conv: &ConvId,
    user: &UserId,
) -> rusqlite::Result<Option<MembershipRow>> {
    let mut statement = connection.prepare_cached(
        "SELECT from_seq, to_seq, joined_seq, left_by_themselves FROM member
          WHERE feed = ?1 AND user_id = ?2
          ORDER BY joined_seq DESC LIMIT 1",
    )?;
    statement.query_row(params![conv.as_str(), user.as_str()], |row| Columns::of(row).membership()).optional()
}

fn kept_key(
    connection: &Connection,
    conv: &ConvId,
    sender: &UserId,
    key: &Key,
) -> rusqlite::Result<Option<StoredKey>> {
    let mut statement = connection
        .prepare_cached("SELECT seq, ts, body FROM entry WHERE feed = ?1 AND sender = ?2 AND key = ?3")?;
    statement
        .query_row(params![conv.as_str(), sender.as_str(), key.as_str()], |row| {
            let mut columns = Columns::of(row);
            Ok(StoredKey {
                seq: columns.seq()?,
                ts: columns.timestamp()?,
                content: StoredContent::Body(columns.body()?),
            })
        })
        .optional()
}

fn trimmed_key(
    connection: &Connection,
    conv: &ConvId,
    sender: &UserId,
    key: &Key,
) -> rusqlite::Result<Option<StoredKey>> {
    let mut statement = connection.prepare_cached(
        "SELECT seq, ts, digest FROM trimmed_key WHERE feed = ?1 AND sender = ?2 AND key = ?3",
    )?;
    statement
        .query_row(params![conv.as_str(), sender.as_str(), key.as_str()], |row| {
            let mut columns = Columns::of(row);
            Ok(StoredKey {
                seq: columns.seq()?,
                ts: columns.timestamp()?,
                content: StoredContent::Digest(columns.digest()?),
            })
        })
        .optional()
}

/// Writes what a batch has decided.
pub(super) fn write(connection: &Connection, batch: &AppendBatch) -> rusqlite::Result<()> {
    write_entries(connection, batch.entries())?;
    write_memberships(connection, batch)?;
    let mut statement =
        connection.prepare_cached("UPDATE feed SET head = ?2, members = ?3 WHERE feed = ?1")?;
    for (conv, row) in batch.changed_feeds() {
        statement.execute(params![conv.as_str(), integer(row.head.get()), integer(row.members)])?;
    }
    Ok(())
}

fn write_entries(connection: &Connection, entries: &[(ConvId, Entry)]) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO entry (feed, seq, kind, sender, key, ts, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    for (conv, entry) in entries {
        statement.execute(params![
            conv.as_str(),
            integer(entry.seq.get()),
            entry.kind.as_str(),
            entry.sender.as_str(),
            entry.key.as_ref().map(Key::as_str),
            integer(entry.ts.get()),
            entry.body.as_str(),
        ])?;
    }
    Ok(())
}

fn write_memberships(connection: &Connection, batch: &AppendBatch) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO member (feed, user_id, joined_seq, from_seq, to_seq, left_by_themselves)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (feed, user_id, joined_seq)
         DO UPDATE SET to_seq = excluded.to_seq, left_by_themselves = excluded.left_by_themselves",
    )?;
    for (conv, user, row) in batch.memberships() {
        statement.execute(params![
            conv.as_str(),
            user.as_str(),
            integer(row.joined.get()),
            integer(row.visible.from.get()),
            row.visible.to.map(|to| integer(to.get())),
            row.left_by_themselves,
        ])?;
    }
    Ok(())
}
