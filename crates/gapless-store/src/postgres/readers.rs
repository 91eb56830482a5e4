//! The connections that read.

use std::fmt;
use std::time::Duration;

use deadpool_postgres::{
    Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime, TimeoutType,
};
use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::connection::{CONNECT_PATIENCE, Connector};
use super::fault::{Fault, within};
use crate::{OpenError, StoreError};

/// How many connections read at most.
const READERS_MAX: usize = 16;
/// How long a read waits for a connection; then it is refused as [`StoreError::Busy`].
const TURN_PATIENCE: Duration = Duration::from_secs(2);
/// How long a read may take, all attempts together.
const READ_PATIENCE: Duration = Duration::from_secs(10);

/// A bounded pool of connections, all reads being single statements.
pub(super) struct Readers {
    pool: Pool,
}

impl Readers {
    pub(super) fn new(connector: Connector) -> Result<Self, OpenError> {
        let config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_connect(tokio_postgres::Config::new(), connector, config);
        let pool = Pool::builder(manager)
            .max_size(READERS_MAX)
            .wait_timeout(Some(TURN_PATIENCE))
            .create_timeout(Some(CONNECT_PATIENCE))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| OpenError::Unreachable(Box::new(error)))?;
        Ok(Self { pool })
    }

    /// Runs a statement.
    ///
    /// When the connection turns out to be dead, as all of them do when the database was restarted, another is taken.
    pub(super) async fn query(
        &self,
        statement: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let deadline = Instant::now() + READ_PATIENCE;
        let mut attempts_left = READERS_MAX + 1;
        loop {
            attempts_left -= 1;
            let connection = self.pool.get().await.map_err(no_connection)?;
            let patience = deadline.saturating_duration_since(Instant::now());
            let fault = match within(patience, query(&connection, statement, params)).await {
                Ok(rows) => return Ok(rows),
                Err(fault) => fault,
            };
            // What failed isn't lent again.
            drop(Object::take(connection));
            if !fault.is_of_connection() || attempts_left == 0 {
                return Err(fault.into());
            }
        }
    }

    /// Like [`Self::query`], for at most one row.
    pub(super) async fn query_opt(
        &self,
        statement: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, StoreError> {
        Ok(self.query(statement, params).await?.into_iter().next())
    }

    /// Ends the connections; later reads are refused as [`StoreError::Closed`].
    pub(super) fn close(&self) {
        self.pool.close();
    }
}

impl fmt::Debug for Readers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readers").field("status", &self.pool.status()).finish()
    }
}

async fn query(
    connection: &Object,
    statement: &str,
    params: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let prepared = connection.prepare_cached(statement).await?;
    connection.query(&prepared, params).await
}

fn no_connection(error: PoolError) -> StoreError {
    match error {
        PoolError::Timeout(TimeoutType::Wait) => StoreError::Busy,
        PoolError::Timeout(TimeoutType::Create | TimeoutType::Recycle) => {
            Fault::Silent(CONNECT_PATIENCE).into()
        }
        PoolError::Backend(error) => Fault::Connecting(error).into(),
        PoolError::Closed => StoreError::Closed,
        PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(_) => StoreError::Broken(Box::new(error)),
    }
}
