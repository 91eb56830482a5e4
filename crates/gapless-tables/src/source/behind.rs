//! What is asked behind rows: whether they are those of the table that was found, in its shape, and what was purged of the deleted keys.

use deadpool_postgres::Object;
use gapless_core::{Floor, TableCursor};
use tokio_postgres::{Client, Row, Statement};

use super::catalog::SHAPE;
use super::raw::Raw;
use super::table::SourceTable;
use super::{CursorError, Source, SourceError};

/// Which table a name means, and what its columns are.
fn named() -> String {
    format!("SELECT n.oid, ({SHAPE} = n.oid) AS shape FROM (SELECT to_regclass($1)::oid) n (oid)")
}

/// What is asked behind the rows of a page: which table the name means, in which shape, and what was purged of the deleted keys. Whoever
/// purges notes it in the same transaction, so that a page that lacks a key has that told behind it.
pub(super) fn statement(table: &SourceTable) -> String {
    let Some(purged) = &table.purged else { return named() };
    format!(
        "SELECT t.oid, t.shape, p.up_to, p.last::text, p.ended::text, p.system, p.up_to::text FROM ({}) t LEFT JOIN {purged} p ON true",
        named()
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
        self.check_shape(&row)?;
        match self.floor(&row)? {
            Some((floor, purged_up_to)) if !cursor.has_passed(&floor) => {
                Err(CursorError::Expired { purged_up_to }.into())
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Makes sure that the table's name still means the table that was found, and that it has its shape.
    pub(super) async fn is_same(&self, client: &Object) -> Result<(), SourceError> {
        let prepared = client.prepare_cached(&named()).await?;
        self.check_shape(&client.query_one(&prepared, &[&self.table.relation]).await?)
    }

    fn check_shape(&self, row: &Row) -> Result<(), SourceError> {
        self.check_oid(row.try_get(0)?)?;
        match row.try_get::<_, Option<&str>>(1)? == Some(self.table.found.shape.as_str()) {
            true => Ok(()),
            // What was read may not be what the columns were taken for.
            false => Err(SourceError::Changed("its columns are others now".to_owned())),
        }
    }

    /// What was purged, if anything was, and up to where in words.
    fn floor(&self, row: &Row) -> Result<Option<(Floor, String)>, SourceError> {
        if self.table.purged.is_none() {
            return Ok(None);
        }
        let Raw(Some(at)) = row.try_get(2)? else { return Ok(None) };
        let unreadable = || SourceError::Unavailable("what was purged can't be read".to_owned());
        let at = self.table.found.cursor_kind.number(at).ok_or_else(unreadable)?;
        let is_of_here = row.try_get::<_, i64>(5)? == self.table.found.cluster.system;
        // Transactions of another database, from where this one came by way of a dump, are in no cursor that is taken.
        let (last, ended) = match is_of_here {
            true => (row.try_get(3)?, row.try_get(4)?),
            false => ("0", "0:0:"),
        };
        let last = last.parse().map_err(|_| unreadable())?;
        let ended = ended.parse().map_err(|_| unreadable())?;
        Ok(Some((Floor { at, last, ended }, row.try_get(6)?)))
    }
}
