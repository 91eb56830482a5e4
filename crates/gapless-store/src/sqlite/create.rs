//! Creates a conversation.

use std::collections::BTreeMap;

use gapless_core::{Append, AppendBatch, Authority, FeedState, Operation};
use gapless_proto::{Epoch, Timestamp, UserId};
use rusqlite::{Connection, params};

use super::batch;
use super::columns::integer;
use crate::{Creation, News};

/// Creates a conversation with its first members, in the caller's transaction; `None` when there is one of that name.
pub(super) fn create(
    connection: &Connection,
    creation: &Creation,
    now: Timestamp,
) -> rusqlite::Result<Option<News>> {
    let epoch = Epoch::of_creation(now);
    if !insert_feed(connection, creation, epoch, now)? {
        return Ok(None);
    }
    let feed = FeedState::created(epoch, creation.history, creation.creator.clone());
    let mut batch = AppendBatch::new(now, BTreeMap::from([(creation.conv.clone(), feed)]));
    for member in std::iter::once(&creation.creator).chain(&creation.members) {
        // A backend may add anyone, and whoever is in already stays so: nothing here can be refused.
        let _ = batch.push(&joining(creation, member));
    }
    batch::write(connection, &batch)?;
    Ok(News::of_batch(&batch).pop())
}

fn insert_feed(
    connection: &Connection,
    creation: &Creation,
    epoch: Epoch,
    now: Timestamp,
) -> rusqlite::Result<bool> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO feed (feed, kind, epoch, head, min_seq, history, creator, members, created_at)
         VALUES (?1, 'conversation', ?2, 0, 1, ?3, ?4, 0, ?5)
         ON CONFLICT DO NOTHING",
    )?;
    let inserted = statement.execute(params![
        creation.conv.as_str(),
        integer(epoch.get()),
        creation.history.as_str(),
        creation.creator.as_str(),
        integer(now.get()),
    ])?;
    Ok(inserted == 1)
}

fn joining(creation: &Creation, member: &UserId) -> Append {
    Append {
        conv: creation.conv.clone(),
        authority: Authority::Service,
        operation: Operation::Join { user: member.clone(), by: creation.creator.clone() },
    }
}
