//! Deletes the old end of a log, a step a transaction, so that appends needn't wait for all of it.

use gapless_core::StoredContent;
use gapless_proto::{ConvId, Seq};
use rusqlite::{Connection, OptionalExtension, params};
use tokio::sync::oneshot;

use super::columns::{Columns, integer};
use crate::{StoreError, TrimmedTo};

/// How many entries a step deletes at most.
const STEP_ENTRIES_MAX: u64 = 1_000;
/// How many bytes of bodies a step deletes at most, give or take one entry.
const STEP_BYTES_MAX: usize = 4 << 20;

/// A trim that is under way.
#[derive(Debug)]
pub(super) struct Trim {
    conv: ConvId,
    below: Seq,
    deleted: u64,
    reply: oneshot::Sender<Result<Option<TrimmedTo>, StoreError>>,
}

/// Where a trim stands after a step.
pub(super) enum Step {
    /// There is no such conversation.
    NotFound,
    /// There is more to delete.
    Unfinished,
    /// All is deleted that was to be; the oldest seq kept is this.
    Finished(Seq),
}

impl Trim {
    pub(super) fn new(
        conv: ConvId,
        below: Seq,
        reply: oneshot::Sender<Result<Option<TrimmedTo>, StoreError>>,
    ) -> Self {
        Self { conv, below, deleted: 0, reply }
    }

    /// Takes the next step, in the caller's transaction: raises `min_seq`, deletes what is below, keeps the keys.
    pub(super) fn step(&mut self, connection: &Connection) -> rusqlite::Result<Step> {
        let Some((min_seq, head)) = bounds(connection, &self.conv)? else {
            return Ok(Step::NotFound);
        };
        let goal = self.below.min(head.next());
        if goal <= min_seq {
            return Ok(Step::Finished(min_seq));
        }
        let end = keep_keys(connection, &self.conv, goal)?;
        raise_min_seq(connection, &self.conv, end)?;
        self.deleted += delete_below(connection, &self.conv, end)?;
        Ok(if end == goal { Step::Finished(end) } else { Step::Unfinished })
    }

    pub(super) fn answer(self, min_seq: Option<Seq>) {
        let trimmed = min_seq.map(|min_seq| TrimmedTo { min_seq, deleted: self.deleted });
        let _ = self.reply.send(Ok(trimmed));
    }

    pub(super) fn fail(self, error: StoreError) {
        let _ = self.reply.send(Err(error));
    }
}

fn bounds(connection: &Connection, conv: &ConvId) -> rusqlite::Result<Option<(Seq, Seq)>> {
    let mut statement = connection.prepare_cached("SELECT min_seq, head FROM feed WHERE feed = ?1")?;
    statement
        .query_row(params![conv.as_str()], |row| {
            let mut columns = Columns::of(row);
            Ok((columns.seq()?, columns.seq()?))
        })
        .optional()
}

/// Keeps the keys of the step's entries apart, and returns the seq that the step ends before.
fn keep_keys(connection: &Connection, conv: &ConvId, goal: Seq) -> rusqlite::Result<Seq> {
    let mut old = connection.prepare_cached(
        "SELECT seq, kind, sender, key, ts, body FROM entry
          WHERE feed = ?1 AND seq < ?2 ORDER BY seq LIMIT ?3",
    )?;
    let mut keep = connection.prepare_cached(
        "INSERT INTO trimmed_key (feed, sender, key, seq, ts, digest) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    let (mut entries, mut bytes) = (0, 0);
    let mut rows = old.query(params![conv.as_str(), integer(goal.get()), integer(STEP_ENTRIES_MAX)])?;
    while let Some(row) = rows.next()? {
        let entry = Columns::of(row).entry()?;
        if let Some(key) = &entry.key {
            keep.execute(params![
                conv.as_str(),
                entry.sender.as_str(),
                key.as_str(),
                integer(entry.seq.get()),
                integer(entry.ts.get()),
                StoredContent::digest(&entry.body),
            ])?;
        }
        entries += 1;
        bytes += entry.body.as_str().len();
        if entries == STEP_ENTRIES_MAX || bytes >= STEP_BYTES_MAX {
            return Ok(entry.seq.next());
        }
    }
    Ok(goal)
}

fn raise_min_seq(connection: &Connection, conv: &ConvId, min_seq: Seq) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached("UPDATE feed SET min_seq = ?2 WHERE feed = ?1")?;
    statement.execute(params![conv.as_str(), integer(min_seq.get())])?;
    Ok(())
}

fn delete_below(connection: &Connection, conv: &ConvId, end: Seq) -> rusqlite::Result<u64> {
    let mut statement = connection.prepare_cached("DELETE FROM entry WHERE feed = ?1 AND seq < ?2")?;
    let deleted = statement.execute(params![conv.as_str(), integer(end.get())])?;
    Ok(deleted as u64)
}
