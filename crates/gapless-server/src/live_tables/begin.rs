//! How following a table begins.

use std::sync::Arc;
use std::time::Duration;

use gapless_core::TableFollower;
use gapless_proto::Cursor;
use gapless_tables::SourceError;
use tokio::time::timeout;

use super::follow::{Follow, lost};
use super::live_table::{Attached, PassEnd, Tail, own_cursor};
use crate::gateway::Gateway;
use crate::refusal::Refusal;
use crate::told::ReaderPosition;

/// How long to wait for the poller's first look.
const FIRST_LOOK_PATIENCE: Duration = Duration::from_secs(5);

/// What a reader wants to follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Begin {
    /// The name of the table.
    pub(crate) table: String,
    /// The position that is held.
    pub(crate) cursor: Option<Cursor>,
    /// Without one: whether to begin with all rows, and not with what comes next.
    pub(crate) snapshot: bool,
}

impl Begin {
    /// Finds where the reader goes on; beside the stream, where that is. A position that can't be served is one reset, and then the stream's
    /// end.
    pub(crate) async fn begin(self, gateway: &Arc<Gateway>) -> Result<(Follow, Cursor), Refusal> {
        let served = gateway.table(&self.table)?;
        // Whatever is wrong with the table is said now.
        let source = served.source().await?;
        let attached = gateway.live_tables().get(served).attach(gateway);
        let (follower, cursor, reset) = match (self.cursor, self.snapshot) {
            (Some(cursor), _) => {
                let reset = match source.check_cursor(cursor.as_str()) {
                    Ok(()) => None,
                    Err(error) => Some(lost(&error).ok_or(SourceError::Cursor(error))?),
                };
                (resumed(&attached.table().tail(), &cursor), cursor, reset)
            }
            (None, true) => (TableFollower::behind(), own_cursor(&source.beginning()), None),
            (None, false) => {
                let (index, cursor) = newest(&attached).await?;
                (TableFollower::at(index), cursor, None)
            }
        };
        let mut follow = Follow::new(attached, follower, cursor.clone());
        if let Some(reason) = reset {
            follow.reset(reason);
        }
        Ok((follow, cursor))
    }
}

/// Goes on where a reader was.
fn resumed(tail: &Tail, cursor: &Cursor) -> TableFollower<PassEnd> {
    let position = tail.position(
        |told| matches!(told.position(), ReaderPosition::At(at) if at == cursor),
        |end| end.cursor == *cursor,
    );
    position.map_or_else(TableFollower::behind, TableFollower::at)
}

/// Where the last pass of the poller has ended, which may have to take its first look.
async fn newest(attached: &Attached) -> Result<(u64, Cursor), Refusal> {
    let mut passed = attached.table().passed();
    let first = async {
        loop {
            passed.mark_unchanged();
            if let Some(end) = attached.table().tail().newest() {
                return Some((end.index, end.of.cursor.clone()));
            }
            passed.changed().await.ok()?;
        }
    };
    let found = timeout(FIRST_LOOK_PATIENCE, first).await.ok().flatten();
    Ok(found.ok_or_else(|| SourceError::Unavailable("the first look takes too long".to_owned()))?)
}
