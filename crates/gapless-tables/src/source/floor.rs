//! What a page can't know any more, because it was purged.

use gapless_core::{Floor, TableCursor};
use tokio_postgres::{Client, Row, Statement};

use super::page::NAMED_TABLE;
use super::raw::Raw;
use super::table::SourceTable;
use super::{CursorError, Source, SourceError};

/// What is asked behind the rows of a page: which table the name means, and what was purged of the deleted keys. Whoever purges notes it
/// in the same transaction, so that a page that lacks a key has that told behind it.
pub(super) fn statement(table: &SourceTable) -> String {
    let Some(purged) = &table.purged else { return NAMED_TABLE.to_owned() };
    format!(
        "SELECT n.oid, p.up_to, p.last::text, p.ended::text, p.system, p.up_to::text FROM ({NAMED_TABLE}) n (oid) LEFT JOIN {purged} p ON true"
    )
}

impl Source {
    /// Makes sure that the rows of a step come from the table that was found, and that what was purged took nothing from them. The cursor
    /// is that which the step was read with.
    pub(super) async fn check_behind(
        &self,
        client: &Client,
        prepared: &Statement,
        cursor: &TableCursor,
    ) -> Result<(), SourceError> {
        let row = client.query_one(prepared, &[&self.table.relation]).await;
        let row = row.map_err(|error| self.refused(error))?;
        self.check_oid(row.try_get(0)?)?;
        match self.floor(&row)? {
            Some((floor, purged_up_to)) if !cursor.has_passed(&floor) => {
                Err(CursorError::Expired { purged_up_to }.into())
            }
            Some(_) | None => Ok(()),
        }
    }

    /// What was purged, if anything was, and up to where in words.
    fn floor(&self, row: &Row) -> Result<Option<(Floor, String)>, SourceError> {
        if self.table.purged.is_none() {
            return Ok(None);
        }
        let Raw(Some(at)) = row.try_get(1)? else { return Ok(None) };
        let unreadable = || SourceError::Unavailable("what was purged can't be read".to_owned());
        let at = self.table.found.cursor_kind.number(at).ok_or_else(unreadable)?;
        let is_of_here = row.try_get::<_, i64>(4)? == self.table.found.cluster.system;
        // Transactions of another database, from where this one came by way of a dump, are in no cursor that is taken.
        let (last, ended) = match is_of_here {
            true => (row.try_get(2)?, row.try_get(3)?),
            false => ("0", "0:0:"),
        };
        let last = last.parse().map_err(|_| unreadable())?;
        let ended = ended.parse().map_err(|_| unreadable())?;
        Ok(Some((Floor { at, last, ended }, row.try_get(5)?)))
    }
}
