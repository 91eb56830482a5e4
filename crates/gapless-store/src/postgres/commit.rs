//! One group commit: what waits, for many feeds, in one transaction of two flights.
//!
//! The first flight opens the transaction, locks the feeds in id order and reads what the decisions depend on; the second
//! writes and commits. Each is sent whole before anything is awaited, so that a commit costs two round trips.
//!
//! Nearly all keys are new, and looking each of them up takes a quarter of the time of a commit. So they are taken for new
//! at first ([`Keys::TakenForNew`]): the unique index proves it when the entries are inserted. Where that can't prove it, since an
//! append is refused anyway or entries of the feed are trimmed, and when the index disproves it, the keys are looked up.

use std::collections::BTreeSet;

use gapless_core::{Append, AppendBatch, AppendOutcome};
use gapless_proto::{ConvId, Timestamp};

use super::columns::{EntryColumns, HeadColumns, MembershipColumns};
use super::fault::{Fault, within};
use super::link::{LOCKED_PATIENCE, Session, WRITTEN_PATIENCE};
use super::locked::Locked;
use crate::News;

/// Opens a transaction.
pub(super) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
/// Ends it, for good.
pub(super) const COMMIT: &str = "COMMIT";

/// How it is found out which keys were used before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keys {
    /// They weren't, until the unique index says otherwise.
    TakenForNew,
    /// Each is looked up.
    LookedUp,
}

/// What a commit came to.
#[derive(Debug)]
pub(super) struct Committed {
    /// An outcome an append, in the order of the appends.
    pub(super) outcomes: Vec<AppendOutcome>,
    pub(super) news: Vec<News>,
    /// How it was found out, in the end.
    pub(super) keys: Keys,
}

/// Why a transaction wasn't seen to commit.
#[derive(Debug)]
pub(super) enum CommitError {
    /// It failed before anything was written.
    NotWritten(Fault),
    /// The database has refused to write, and rolled it back.
    Refused(Fault),
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
        if fault.is_refusal() { Self::Refused(fault) } else { Self::InDoubt { fault, convs: convs() } }
    }
}

impl From<Fault> for CommitError {
    fn from(fault: Fault) -> Self {
        Self::NotWritten(fault)
    }
}

/// Commits appends, in their order. The news includes where the feeds `in_doubt` are, if anywhere.
pub(super) async fn commit_appends(
    session: &Session,
    appends: &[&Append],
    in_doubt: &BTreeSet<ConvId>,
    keys: Keys,
    now: Timestamp,
) -> Result<Committed, CommitError> {
    match try_commit(session, appends, in_doubt, keys, now).await {
        Err(CommitError::Refused(_)) if keys == Keys::TakenForNew => {
            try_commit(session, appends, in_doubt, Keys::LookedUp, now).await
        }
        outcome => outcome,
    }
}

async fn try_commit(
    session: &Session,
    appends: &[&Append],
    in_doubt: &BTreeSet<ConvId>,
    mut keys: Keys,
    now: Timestamp,
) -> Result<Committed, CommitError> {
    let mut locked = Locked::open(session, appends, in_doubt, keys).await?;
    let mut decided = Decided::by(&locked, appends, now)?;
    if keys == Keys::TakenForNew && decided.depends_on_keys(&locked, appends)? {
        keys = Keys::LookedUp;
        locked.look_up_keys(session, appends).await?;
        decided = Decided::by(&locked, appends, now)?;
    }
    let Decided { batch, outcomes } = decided;
    if batch.entries().is_empty() {
        roll_back(session).await?;
    } else {
        write_and_commit(session, &batch).await?;
    }
    let mut news = News::of_batch(&batch);
    news.extend(news_of_doubt(&locked, in_doubt, &news)?);
    Ok(Committed { outcomes, news, keys })
}

/// What is decided of some appends.
struct Decided {
    batch: AppendBatch,
    outcomes: Vec<AppendOutcome>,
}

impl Decided {
    fn by(locked: &Locked, appends: &[&Append], now: Timestamp) -> Result<Self, Fault> {
        let mut batch = AppendBatch::new(now, locked.states()?);
        let outcomes = appends.iter().map(|append| batch.push(append)).collect();
        Ok(Self { batch, outcomes })
    }

    /// Whether it would be decided otherwise if a key had been used, and no insert would tell.
    fn depends_on_keys(&self, locked: &Locked, appends: &[&Append]) -> Result<bool, Fault> {
        let trimmed = locked.trimmed()?;
        let mut messages = appends.iter().zip(&self.outcomes).filter(|(append, _)| append.key().is_some());
        Ok(messages.any(|(append, outcome)| outcome.is_err() || trimmed.contains(&append.conv)))
    }
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

/// Where the feeds are whose last commit was in doubt, of which there is no other news.
fn news_of_doubt(locked: &Locked, in_doubt: &BTreeSet<ConvId>, news: &[News]) -> Result<Vec<News>, Fault> {
    if in_doubt.is_empty() {
        return Ok(Vec::new());
    }
    let mut states = locked.states()?;
    states.retain(|conv, _| in_doubt.contains(conv) && news.iter().all(|news| news.conv != *conv));
    let news = states.into_iter();
    Ok(news.map(|(conv, state)| News { conv, feed: (&state.row).into(), entries: Vec::new() }).collect())
}
