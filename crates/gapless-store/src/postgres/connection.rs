//! Connections to the database, set up the way the statements here need them.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres::tls::TlsStream;
use tokio_postgres::{Client, Config, Connection, NoTls};
use tracing::debug;

use super::tls::Rustls;
use crate::OpenError;

/// How long connecting may take, the handshakes included.
pub(super) const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

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

/// A connection's handle, and the task that runs it; the handle's end is the task's.
type Parts = (Client, JoinHandle<()>);

/// Makes connections.
#[derive(Clone)]
pub(super) struct Connector {
    config: Config,
    tls: Option<Rustls>,
}

impl Connector {
    /// Reads a URL of PostgreSQL. With `sslmode=require` connections are encrypted and the server's certificate is checked; else
    /// they are plain.
    pub(super) fn new(url: &str) -> Result<Self, OpenError> {
        let mut config: Config = url.parse().map_err(|error| OpenError::Unreachable(Box::new(error)))?;
        let tls = if config.get_ssl_mode() == SslMode::Require {
            Some(Rustls::new().map_err(|error| OpenError::Unreachable(Box::new(error)))?)
        } else {
            None
        };
        if config.get_application_name().is_none() {
            config.application_name("gapless");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_PATIENCE);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(Duration::from_secs(15));
        }
        if config.get_keepalives_interval().is_none() {
            config.keepalives_idle(Duration::from_secs(10));
            config.keepalives_interval(Duration::from_secs(5)).keepalives_retries(3);
        }
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        Ok(Self { config, tls })
    }

    /// The name of the database; PostgreSQL takes the user's when none is given.
    pub(super) fn database(&self) -> String {
        self.config.get_dbname().or(self.config.get_user()).unwrap_or_default().to_owned()
    }

    /// Connects, and sets the connection to what the statements here need.
    pub(super) async fn connect(&self) -> Result<Parts, tokio_postgres::Error> {
        let (client, driver) = self.connect_plainly().await?;
        client.batch_execute(SESSION).await?;
        Ok((client, driver))
    }

    /// Connects, and leaves the connection as it is.
    pub(super) async fn connect_plainly(&self) -> Result<Parts, tokio_postgres::Error> {
        match &self.tls {
            Some(tls) => {
                let (client, connection) = self.config.connect(tls.clone()).await?;
                Ok((client, drive(connection)))
            }
            None => {
                let (client, connection) = self.config.connect(NoTls).await?;
                Ok((client, drive(connection)))
            }
        }
    }
}

impl deadpool_postgres::Connect for Connector {
    fn connect(&self, _config: &Config) -> Connecting<'_> {
        Box::pin(self.connect())
    }
}

type Connecting<'a> = Pin<Box<dyn Future<Output = Result<Parts, tokio_postgres::Error>> + Send + 'a>>;

/// Runs a connection until its client is dropped or it breaks.
fn drive<S, T>(connection: Connection<S, T>) -> JoinHandle<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: TlsStream + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            debug!(error = &error as &dyn std::error::Error, "connection to PostgreSQL broke");
        }
    })
}
