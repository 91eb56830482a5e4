//! The connections to a source: few, and none of them works for long, so that no reader hurts it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime, TimeoutType,
};
use gapless_postgres::{Bell, CONNECT_PATIENCE, Connector, Parts, UrlError};

use super::catalog::{self, Cluster};
use crate::digest::TEXTS;

/// How long a page waits for a connection.
const TURN_PATIENCE: Duration = Duration::from_secs(2);

/// What each connection is set to, beside the form of texts: nothing is written; plans go by
/// the indexes, however small the table was when they were made.
const SESSION: &str = "
    SET default_transaction_read_only = on;
    SET statement_timeout = '30s';
    SET lock_timeout = '5s';
    SET idle_in_transaction_session_timeout = '10s';
    SET standard_conforming_strings = on;
    SET search_path = '';
    SET plan_cache_mode = force_generic_plan;
    SET enable_seqscan = off;
    SET enable_bitmapscan = off;
    SET jit = off;
    SET max_parallel_workers_per_gather = 0;
";

/// A bounded pool of connections to a source.
#[derive(Clone)]
pub(crate) struct SourcePool {
    pool: Pool,
    connector: Connector,
    cluster: KnownCluster,
}

/// The life of the cluster that the newest connection leads to.
type KnownCluster = Arc<Mutex<Option<Cluster>>>;

#[derive(Clone)]
struct Connects(Connector);

impl SourcePool {
    pub(crate) fn new(url: &str, connections: usize) -> Result<Self, UrlError> {
        let cluster = KnownCluster::default();
        let connector = Connector::new(url)?;
        let pool = pool(Connects(connector.clone()), connections, Arc::clone(&cluster));
        Ok(Self { pool, connector, cluster })
    }

    pub(crate) async fn get(&self) -> Result<Object, PoolError> {
        self.pool.get().await
    }

    /// A connection beside the pool, that hears what is announced.
    pub(crate) async fn listen(&self, channel: &str) -> Result<Bell, tokio_postgres::Error> {
        self.connector.listen(channel).await
    }

    /// The life of the cluster that the newest connection leads to. Whoever has a connection compares it with the one that they know.
    pub(crate) fn cluster(&self) -> Option<Cluster> {
        *self.cluster.lock().expect("nobody panics while it is held")
    }
}

fn pool(connects: Connects, connections: usize, known: KnownCluster) -> Pool {
    let config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_connect(tokio_postgres::Config::new(), connects, config);
    Pool::builder(manager)
        .max_size(connections.max(1))
        .post_create(Hook::async_fn(move |client, _| {
            let known = Arc::clone(&known);
            Box::pin(async move {
                let (cluster, _) = catalog::cluster(client).await.map_err(HookError::Backend)?;
                *known.lock().expect("nobody panics while it is held") = Some(cluster);
                Ok(())
            })
        }))
        .wait_timeout(Some(TURN_PATIENCE))
        .create_timeout(Some(CONNECT_PATIENCE))
        .runtime(Runtime::Tokio1)
        .build()
        .expect("a runtime is set")
}

/// Whether all connections are in use, rather than none to be had.
pub(crate) fn is_crowded(error: &PoolError) -> bool {
    matches!(error, PoolError::Timeout(TimeoutType::Wait))
}

impl deadpool_postgres::Connect for Connects {
    fn connect(&self, _: &tokio_postgres::Config) -> Connecting<'_> {
        Box::pin(async move {
            let (client, driver) = self.0.connect().await?;
            client.batch_execute(TEXTS).await?;
            client.batch_execute(SESSION).await?;
            Ok((client, driver))
        })
    }
}

type Connecting<'a> = Pin<Box<dyn Future<Output = Result<Parts, tokio_postgres::Error>> + Send + 'a>>;
