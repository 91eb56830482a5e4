//! The schema and its versions.

use std::error::Error;

use tokio_postgres::error::SqlState;

use super::connection::Connector;
use crate::{Migrated, OpenError};

mod embedded {
    refinery::embed_migrations!("migrations/postgres");
}

/// What gateways that start at the same time take turns by; the number is as good as any other.
const TURN: &str = "SELECT pg_advisory_lock(7136245571)";

/// Brings the schema up to date.
///
/// Several may do so at once: they take turns, and all but the first find nothing to do.
pub(super) async fn migrate(connector: &Connector) -> Result<Migrated, OpenError> {
    // The end of the connection gives the turn back.
    let (mut client, _driver) =
        connector.connect_plainly().await.map_err(|error| not_connected(connector, error))?;
    check_server(&client).await?;
    client.batch_execute(TURN).await.map_err(unreachable)?;
    let runner = embedded::migrations::runner();
    let known = Migrated::newest(&runner);
    let report = match runner.run_async(&mut client).await {
        Ok(report) => report,
        Err(error) if is_forbidden(&error) => {
            return Err(may_not_create(&client).await.unwrap_or(OpenError::of_migration(error, known)));
        }
        Err(error) => return Err(OpenError::of_migration(error, known)),
    };
    let migrated = Migrated::of(&report, known);
    if !migrated.applied.is_empty() {
        tracing::info!(version = known, "brought the schema up to date");
    }
    Ok(migrated)
}

fn not_connected(connector: &Connector, error: tokio_postgres::Error) -> OpenError {
    match error.code() {
        Some(&SqlState::INVALID_CATALOG_NAME) => OpenError::NoDatabase { database: connector.database() },
        Some(_) | None => unreachable(error),
    }
}

fn is_forbidden(error: &refinery::Error) -> bool {
    let causes = std::iter::successors(Some(error as &(dyn Error + 'static)), |&error| error.source());
    let mut codes = causes.filter_map(|cause| cause.downcast_ref::<tokio_postgres::Error>()?.code());
    codes.any(|code| *code == SqlState::INSUFFICIENT_PRIVILEGE)
}

/// That the role may make no tables where its tables go, if that is so.
async fn may_not_create(client: &tokio_postgres::Client) -> Option<OpenError> {
    let question = "SELECT current_user::text, current_schema()::text \
                    WHERE NOT has_schema_privilege(current_schema(), 'CREATE')";
    let row = client.query_opt(question, &[]).await.ok()??;
    Some(OpenError::MayNotCreate { role: row.get(0), schema: row.get(1) })
}

fn unreachable(error: tokio_postgres::Error) -> OpenError {
    OpenError::Unreachable(Box::new(error))
}

/// Refuses a database that would fail at the first text it can't keep.
async fn check_server(client: &tokio_postgres::Client) -> Result<(), OpenError> {
    let row = client
        .query_one(
            "SELECT current_setting('server_version_num')::int, current_setting('server_encoding'), \
             current_setting('fsync')",
            &[],
        )
        .await
        .map_err(unreachable)?;
    let (version, encoding, fsync): (i32, &str, &str) = (row.get(0), row.get(1), row.get(2));
    if version < OLDEST_VERSION {
        return Err(OpenError::Unsuitable("it is older than PostgreSQL 13"));
    }
    if encoding != "UTF8" {
        return Err(OpenError::Unsuitable("its encoding isn't UTF8"));
    }
    if fsync != "on" {
        tracing::warn!("PostgreSQL runs with fsync off: a power cut may take acknowledged messages away");
    }
    Ok(())
}

/// The first with incremental sorting, which keeps a page over many memberships short.
const OLDEST_VERSION: i32 = 130_000;
