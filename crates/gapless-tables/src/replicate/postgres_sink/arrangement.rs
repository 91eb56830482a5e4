//! Makes a target what it has to be.

use tokio_postgres::{Client, Transaction};

use super::{catalog, ddl, errors, state};
use crate::quoting::{identifier, qualified};
use crate::replicate::kept::Found;
use crate::replicate::plan::plan;
use crate::replicate::position::Position;
use crate::replicate::sink::SinkError;
use crate::source::STAMP;
use crate::wire::{SourceName, TableDescription};

/// Copies in one database share a table, schemas and types, and only one may make those.
const ALONE: &str = "SELECT pg_advisory_xact_lock(hashtextextended('gapless replicas', 0))";

/// Makes or checks the target in one transaction, and tells how far its copy is.
pub(super) async fn arrange(
    client: &mut Client,
    name: &SourceName,
    origin: &str,
    description: &TableDescription,
) -> Result<Position, SinkError> {
    let transaction = client.transaction().await.map_err(errors::sink_error)?;
    transaction.batch_execute(ALONE).await.map_err(errors::sink_error)?;
    make_schema(&transaction, &name.schema).await?;
    state::make(&transaction, &name.schema).await.map_err(errors::sink_error)?;
    let kept = state::lock(&transaction, name).await.map_err(errors::sink_error)?;
    let existing = catalog::table(&transaction, name).await.map_err(errors::sink_error)?;
    let relation = qualified(&name.schema, &name.table);
    if existing.as_ref().is_some_and(|existing| existing.columns.iter().any(|column| column.name == STAMP)) {
        return Err(SinkError::Refused(format!(
            "{relation} is itself read as a source; copy into another table"
        )));
    }
    let has_rows = match (&kept, &existing) {
        (None, Some(_)) => catalog::has_rows(&transaction, name).await.map_err(errors::sink_error)?,
        (Some(_), _) | (None, None) => false,
    };
    let found = Found {
        name: &relation,
        kept: kept.as_ref(),
        existing: existing.as_ref(),
        has_rows,
        forget: &state::forget(name),
    };
    found.check(description)?;
    make_types(&transaction, description).await?;
    let copied = kept.as_ref().map(|kept| kept.columns.as_slice());
    let steps = plan(&ddl::wanted(description), existing.as_ref(), copied)?;
    for step in &steps {
        let sql = ddl::step(step, name, description);
        transaction.batch_execute(&sql).await.map_err(errors::sink_error)?;
    }
    let position = found.position_of(description);
    state::keep(&transaction, name, origin, description, &position).await.map_err(errors::sink_error)?;
    transaction.commit().await.map_err(errors::sink_error)?;
    Ok(position)
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
