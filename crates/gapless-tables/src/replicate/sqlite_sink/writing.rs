//! Makes the table, and writes pages into it.

use rusqlite::types::Value;
use rusqlite::{Connection, Transaction, TransactionBehavior, params_from_iter};

use super::file::sink_error;
use super::statements::{self, Statements};
use super::{catalog, state};
use crate::quoting::identifier;
use crate::replicate::kept::Found;
use crate::replicate::page::{Op, Page, Records};
use crate::replicate::plan::{Misfit, Step, plan};
use crate::replicate::position::Position;
use crate::replicate::sink::SinkError;
use crate::wire::TableDescription;

/// Makes or checks the table in one transaction, and tells how far its copy is.
pub(super) fn arrange(
    connection: &mut Connection,
    table: &str,
    origin: &str,
    description: &TableDescription,
) -> Result<Position, SinkError> {
    if let Some(column) = description.loose_key.first() {
        let problem = format!(
            "PostgreSQL takes keys for equal that are written differently, as 1.0 and 1.00 may be in `{column}`, and a file can't tell; copy \
             into PostgreSQL"
        );
        return Err(SinkError::Refused(problem));
    }
    let transaction = begin(connection)?;
    state::make(&transaction).map_err(sink_error)?;
    let kept = state::read(&transaction, table).map_err(sink_error)?;
    let existing = catalog::table(&transaction, table).map_err(sink_error)?;
    let has_rows = match (&kept, &existing) {
        (None, Some(_)) => catalog::has_rows(&transaction, table).map_err(sink_error)?,
        (Some(_), _) | (None, None) => false,
    };
    let found = Found {
        name: &identifier(table),
        kept: kept.as_ref(),
        existing: existing.as_ref(),
        has_rows,
        forget: &state::forget(table),
    };
    found.check(description)?;
    let wanted = statements::wanted(description);
    let copied = kept.as_ref().map(|kept| kept.columns.as_slice());
    let steps = plan(&wanted, existing.as_ref(), copied)?;
    for step in &steps {
        match (statements::step(step, table, &wanted), step) {
            (Some(sql), _) => transaction.execute_batch(&sql).map_err(sink_error)?,
            (None, Step::AllowNull(column)) => return Err(Misfit::NotNull(column.clone()).into()),
            (None, Step::Create | Step::AddColumn(_)) => {}
        }
    }
    let position = found.position_of(description);
    state::keep(&transaction, table, origin, description, &position).map_err(sink_error)?;
    transaction.commit().map_err(sink_error)?;
    Ok(position)
}

/// Writes a page, if there is one, and the position, in one transaction.
pub(super) fn write(
    connection: &mut Connection,
    statements: &Statements,
    page: Option<&Page>,
    from: &Position,
    to: &Position,
) -> Result<(), SinkError> {
    let transaction = begin(connection)?;
    let counts = page.map_or((0, 0), |page| (page.records.upserts, page.records.deletes));
    if !state::advance(&transaction, &statements.table, from, to, counts).map_err(sink_error)? {
        let kept = state::read(&transaction, &statements.table).map_err(sink_error)?;
        let is_repaired = kept.is_some_and(|kept| kept.position.differs_by_repairs(from));
        return Err(match is_repaired {
            true => SinkError::Repaired,
            false => SinkError::InUse("the target, and has moved its position".to_owned()),
        });
    }
    if let Some(page) = page {
        put(&transaction, statements, &page.records)?;
    }
    transaction.commit().map_err(sink_error)
}

/// Writes records. Each overwrites what an earlier one has done.
pub(super) fn put(
    connection: &Connection,
    statements: &Statements,
    records: &Records,
) -> Result<(), SinkError> {
    let mut upsert = connection.prepare_cached(&statements.upsert).map_err(sink_error)?;
    let mut delete = connection.prepare_cached(&statements.delete).map_err(sink_error)?;
    for record in records.iter() {
        let fields: Vec<Option<&[u8]>> = record.values().collect();
        let value = |index: usize| -> Result<Value, SinkError> {
            let (name, storage) = &statements.columns[index];
            let value = storage.value(fields.get(index).copied().flatten());
            value.ok_or_else(|| SinkError::Failed(format!("a value of the column `{name}` can't be read")))
        };
        let written = match record.op {
            Op::Upsert => {
                let values = (0..statements.columns.len()).map(value).collect::<Result<Vec<_>, _>>()?;
                upsert.execute(params_from_iter(values))
            }
            Op::Delete => {
                let values = statements.key.iter().copied().map(value).collect::<Result<Vec<_>, _>>()?;
                delete.execute(params_from_iter(values))
            }
        };
        written.map_err(sink_error)?;
    }
    Ok(())
}

/// Takes away all rows and the position.
pub(super) fn clear(connection: &mut Connection, statements: &Statements) -> Result<(), SinkError> {
    let transaction = begin(connection)?;
    state::clear(&transaction, &statements.table).map_err(sink_error)?;
    let sql = format!("DELETE FROM {}", identifier(&statements.table));
    transaction.execute_batch(&sql).map_err(sink_error)?;
    transaction.commit().map_err(sink_error)
}

/// Begins a transaction that has the right to write from its start.
fn begin(connection: &mut Connection) -> Result<Transaction<'_>, SinkError> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(sink_error)
}
