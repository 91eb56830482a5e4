//! What the source tells to those who go on from where a copy is.

use std::collections::HashSet;

use super::Key;
use crate::replicate::{Fault, Page, Position, Question, SinkError, SourceClient, SourceFault, Values};
use crate::wire::TableDescription;

/// The keys that a copy at some position is still told of. Once asked for, pages aren't asked for again.
#[derive(Debug)]
pub(crate) struct Ahead {
    from: Position,
    /// Behind the pages that were read.
    cursor: Option<String>,
    keys: HashSet<Key>,
}

/// A copy that is further behind is better filled first.
const KEYS_MAX: usize = 200_000;
const PAGE_ROWS: u32 = 5_000;

impl Ahead {
    pub(crate) fn new(from: Position) -> Self {
        Self { cursor: from.cursor.clone(), from, keys: HashSet::new() }
    }

    pub(crate) fn is_from(&self, position: &Position) -> bool {
        // Repairs don't move it.
        self.from.cursor == position.cursor && self.from.replay == position.replay
    }

    /// Whether the copy is still told of a key. While rows are read once more, of any.
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.from.replay.is_some() || self.keys.contains(key)
    }

    /// Reads on until the source has nothing more.
    pub(crate) async fn read_on(
        &mut self,
        source: &SourceClient,
        description: &TableDescription,
    ) -> Result<(), Fault> {
        while self.from.replay.is_none() {
            let question =
                Question { cursor: self.cursor.as_deref(), since: None, limit: PAGE_ROWS, wait_ms: 0 };
            let answer = source.page(&question, Values::Text).await?;
            if answer.head.schema_version != description.schema_version {
                return Err(reshaped().into());
            }
            let page =
                Page::new(answer, description.columns.len(), Values::Text).map_err(SourceFault::from)?;
            self.keys.extend(page.records.iter().filter_map(|record| key_of(record.values(), description)));
            self.cursor = Some(page.head.next_cursor);
            if self.keys.len() > KEYS_MAX {
                let problem = format!(
                    "the copy is more than {KEYS_MAX} rows behind its source; let `gapless replicate` catch up first"
                );
                return Err(SinkError::Refused(problem).into());
            }
            if !page.head.has_more {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// The table isn't what it was when this began.
pub(crate) fn reshaped() -> SinkError {
    SinkError::Refused("the table was changed while it was compared; start again".to_owned())
}

/// The texts of the key among those of a row.
fn key_of<'a>(values: impl Iterator<Item = Option<&'a [u8]>>, description: &TableDescription) -> Option<Key> {
    let values: Vec<Option<&[u8]>> = values.collect();
    let text = |name: &String| {
        let place = description.columns.iter().position(|column| column.name == *name)?;
        Some(String::from_utf8_lossy((*values.get(place)?)?).into_owned())
    };
    description.key.iter().map(text).collect()
}
