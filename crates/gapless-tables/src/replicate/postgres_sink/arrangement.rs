//! Makes a target what it has to be.

use tokio_postgres::{Client, Transaction};

use super::state::{self, Kept};
use super::{catalog, ddl, errors};
use crate::quoting::{identifier, qualified};
use crate::replicate::plan::{Existing, Step, plan};
use crate::replicate::position::Position;
use crate::replicate::sink::SinkError;
use crate::source::STAMP;
use crate::wire::{SourceName, TableDescription};

/// Makes or checks the target in one transaction, and tells how far its copy is.
pub(super) async fn arrange(
    client: &mut Client,
    name: &SourceName,
    origin: &str,
    description: &TableDescription,
) -> Result<Position, SinkError> {
    let transaction = client.transaction().await.map_err(errors::sink_error)?;
    make_schema(&transaction, &name.schema).await?;
    state::make(&transaction, &name.schema).await.map_err(errors::sink_error)?;
    let kept = state::read(&transaction, name).await.map_err(errors::sink_error)?;
    let existing = catalog::table(&transaction, name).await.map_err(errors::sink_error)?;
    check(&transaction, name, description, kept.as_ref(), existing.as_ref()).await?;
    make_types(&transaction, description).await?;
    let copied = kept.as_ref().map(|kept| kept.columns.as_slice());
    let steps = plan(&ddl::wanted(description), existing.as_ref(), copied)?;
    for step in &steps {
        let sql = ddl::step(step, name, description);
        transaction.batch_execute(&sql).await.map_err(errors::sink_error)?;
    }
    let is_wider = steps.iter().any(|step| matches!(step, Step::AddColumn(_)));
    let position = match kept {
        Some(kept) if is_wider => kept.position.widened(),
        Some(kept) => kept.position,
        None if existing.is_none() => Position::of_a_new_table(),
        None => Position::default(),
    };
    state::keep(&transaction, name, origin, description, &position).await.map_err(errors::sink_error)?;
    transaction.commit().await.map_err(errors::sink_error)?;
    Ok(position)
}

/// Makes sure that the table is a copy of this source, or may become one.
async fn check(
    transaction: &Transaction<'_>,
    name: &SourceName,
    description: &TableDescription,
    kept: Option<&Kept>,
    existing: Option<&Existing>,
) -> Result<(), SinkError> {
    let relation = qualified(&name.schema, &name.table);
    if let Some(kept) = kept
        && kept.source_table != description.table
    {
        return Err(SinkError::Refused(format!(
            "{relation} is a copy of `{}`; copy `{}` into another table",
            kept.source_table, description.table
        )));
    }
    if kept.is_some() && existing.is_none() {
        return Err(SinkError::Refused(format!(
            "{relation} was dropped, and its position is still kept; to copy it anew, \
             `DELETE FROM {} WHERE target = '{}'`",
            qualified(&name.schema, "gapless_replica"),
            name.table.replace('\'', "''")
        )));
    }
    let Some(existing) = existing else { return Ok(()) };
    if existing.columns.iter().any(|column| column.name == STAMP) {
        return Err(SinkError::Refused(format!(
            "{relation} is itself read as a source; copy into another table"
        )));
    }
    if kept.is_none() && catalog::has_rows(transaction, name).await.map_err(errors::sink_error)? {
        return Err(SinkError::Refused(format!(
            "{relation} has rows that no replicator has put there; empty it, or copy into another table"
        )));
    }
    Ok(())
}

async fn make_schema(transaction: &Transaction<'_>, schema: &str) -> Result<(), SinkError> {
    // `IF NOT EXISTS` would ask for the right to make one even where it is there.
    if !catalog::has_schema(transaction, schema).await.map_err(errors::sink_error)? {
        let sql = format!("CREATE SCHEMA {}", identifier(schema));
        transaction.batch_execute(&sql).await.map_err(errors::sink_error)?;
    }
    Ok(())
}

async fn make_types(transaction: &Transaction<'_>, description: &TableDescription) -> Result<(), SinkError> {
    let existing = catalog::types(transaction, &description.types).await.map_err(errors::sink_error)?;
    let statements = ddl::types(&description.types, &existing)?;
    if statements.is_empty() {
        return Ok(());
    }
    for schema in description.types.iter().filter_map(|wanted| ddl::schema_of(wanted.name())) {
        make_schema(transaction, &schema).await?;
    }
    for sql in statements {
        transaction.batch_execute(&sql).await.map_err(errors::sink_error)?;
    }
    Ok(())
}
