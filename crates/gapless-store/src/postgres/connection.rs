//! Connections to the database, set up the way the statements here need them.

use std::future::Future;
use std::pin::Pin;

pub(super) use gapless_postgres::CONNECT_PATIENCE;
use gapless_postgres::Parts;
use tokio_postgres::Config;

use crate::OpenError;

/// What each connection is set to.
///
/// - A transaction that this gateway can't finish, since it was stopped or its network died, gives its locks back
///   before another gateway that waits for them gives up: 3 s against 5 s.
/// - Every statement here goes by an index, in its order, at any size of any table. The planner must not choose otherwise
///   when a table is still small or its statistics are old, for the plan is kept as long as the connection. With one
///   plan for all parameters no statement is planned twice.
/// - An acknowledged commit is on disk, even where the server's setting says otherwise.
const SESSION: &str = "
    SET statement_timeout = '8s';
    SET lock_timeout = '5s';
    SET idle_in_transaction_session_timeout = '3s';
    SET plan_cache_mode = force_generic_plan;
    SET enable_seqscan = off;
    SET enable_bitmapscan = off;
    SET enable_hashjoin = off;
    SET enable_mergejoin = off;
    SET enable_sort = off;
    SET jit = off;
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';
";

/// Makes connections.
#[derive(Clone)]
pub(super) struct Connector(gapless_postgres::Connector);

impl Connector {
    /// Reads a URL of PostgreSQL.
    pub(super) fn new(url: &str) -> Result<Self, OpenError> {
        let connector = gapless_postgres::Connector::new(url);
        Ok(Self(connector.map_err(|error| OpenError::Unreachable(Box::new(error)))?.writing()))
    }

    /// The name of the database.
    pub(super) fn database(&self) -> String {
        self.0.database()
    }

    /// Connects, and sets the connection to what the statements here need.
    pub(super) async fn connect(&self) -> Result<Parts, tokio_postgres::Error> {
        let (client, driver) = self.connect_plainly().await?;
        client.batch_execute(SESSION).await?;
        Ok((client, driver))
    }

    /// Connects, and leaves the connection as it is.
    pub(super) async fn connect_plainly(&self) -> Result<Parts, tokio_postgres::Error> {
        self.0.connect().await
    }
}

impl deadpool_postgres::Connect for Connector {
    fn connect(&self, _config: &Config) -> Connecting<'_> {
        Box::pin(self.connect())
    }
}

type Connecting<'a> = Pin<Box<dyn Future<Output = Result<Parts, tokio_postgres::Error>> + Send + 'a>>;
