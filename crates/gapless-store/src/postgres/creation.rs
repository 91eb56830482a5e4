//! The creation of a conversation.

use std::collections::BTreeMap;

use gapless_core::{Append, AppendBatch, Authority, FeedState, Operation};
use gapless_proto::{Epoch, Position, Timestamp, UserId};

use super::commit::{BEGIN, CommitError, roll_back, write_and_commit};
use super::fault::{Fault, within};
use super::link::{LOCKED_PATIENCE, Session};
use super::rows::bigint;
use crate::{Creation, News};

/// Creates a conversation in one transaction; `None` when there is one of that name.
pub(super) async fn create(
    session: &Session,
    creation: &Creation,
    now: Timestamp,
) -> Result<Option<(Position, Vec<News>)>, CommitError> {
    let epoch = Epoch::of_creation(now);
    if !insert_feed(session, creation, epoch, now).await? {
        roll_back(session).await?;
        return Ok(None);
    }
    let batch = first_entries(creation, epoch, now);
    write_and_commit(session, &batch).await?;
    let news = News::of_batch(&batch);
    let seq = news.first().map(|news| news.feed.head).unwrap_or_default();
    Ok(Some((Position { epoch, seq }, news)))
}

/// Opens a transaction and inserts the feed's row; says whether there was none.
async fn insert_feed(
    session: &Session,
    creation: &Creation,
    epoch: Epoch,
    now: Timestamp,
) -> Result<bool, Fault> {
    let (conv, creator) = (creation.conv.as_str(), creation.creator.as_str());
    let (history, epoch, now) = (creation.history.as_str(), bigint(epoch.get()), bigint(now.get()));
    let inserted = within(LOCKED_PATIENCE, async {
        let (begun, inserted) = tokio::join!(
            biased;
            session.command(BEGIN),
            session.execute(
                &session.statements.create_feed,
                [&conv, &epoch, &history, &creator, &now],
            ),
        );
        begun?;
        inserted
    })
    .await?;
    Ok(inserted == 1)
}

/// The members' joins, the creator's first; all of them are added by the creator.
fn first_entries(creation: &Creation, epoch: Epoch, now: Timestamp) -> AppendBatch {
    let feed = FeedState::created(epoch, creation.history, creation.creator.clone());
    let mut batch = AppendBatch::new(now, BTreeMap::from([(creation.conv.clone(), feed)]));
    let members = std::iter::once(&creation.creator).chain(&creation.members);
    for member in members {
        // Whom the creation names twice is a member already; nothing else can be refused.
        let _ = batch.push(&join(creation, member));
    }
    batch
}

fn join(creation: &Creation, member: &UserId) -> Append {
    Append {
        conv: creation.conv.clone(),
        authority: Authority::Service,
        operation: Operation::Join { user: member.clone(), by: creation.creator.clone() },
    }
}
