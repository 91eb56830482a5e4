//! The connections to a source: few, and none of them works for long, so that no reader hurts it.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime, TimeoutType,
};
use gapless_postgres::{Bell, CONNECT_PATIENCE, Connector, Parts, UrlError};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use super::catalog::{self, Cluster};
use crate::digest::TEXTS;
use crate::quoting::identifier;

/// How long a page waits for a connection.
const TURN_PATIENCE: Duration = Duration::from_secs(2);

/// How long a question that may take long waits for its turn.
const HEAVY_PATIENCE: Duration = Duration::from_secs(10);

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

/// A bounded pool of connections to a source, and one more for each way in which extensions compare keys.
#[derive(Clone)]
pub(crate) struct SourcePool {
    pool: Pool,
    connector: Connector,
    connections: usize,
    cluster: KnownCluster,
    heavy: Arc<Semaphore>,
    comparing: Arc<Mutex<BTreeMap<Vec<String>, Pool>>>,
}

/// The life of the cluster that the newest connection leads to.
type KnownCluster = Arc<Mutex<Option<Cluster>>>;

/// Makes connections that find operators in some schemas beside PostgreSQL's own.
#[derive(Clone)]
struct Connects {
    connector: Connector,
    operator_schemas: Vec<String>,
}

impl SourcePool {
    pub(crate) fn new(url: &str, connections: usize) -> Result<Self, UrlError> {
        let cluster = KnownCluster::default();
        let connector = Connector::new(url)?;
        let connects = Connects { connector: connector.clone(), operator_schemas: Vec::new() };
        let pool = pool(connects, connections, Arc::clone(&cluster));
        let heavy = Arc::new(Semaphore::new((connections / 2).max(1)));
        Ok(Self { pool, connector, connections, cluster, heavy, comparing: Arc::default() })
    }

    /// The pool whose connections find operators in some schemas. No other connection does, so that what stands in the filter of one table
    /// doesn't depend on the keys of another.
    pub(crate) fn comparing(&self, operator_schemas: &[String]) -> Self {
        if operator_schemas.is_empty() {
            return self.clone();
        }
        let mut comparing = self.comparing.lock().expect("nobody panics while it is held");
        let pool = comparing.entry(operator_schemas.to_vec()).or_insert_with(|| {
            let (connector, operator_schemas) = (self.connector.clone(), operator_schemas.to_vec());
            pool(Connects { connector, operator_schemas }, self.connections, Arc::clone(&self.cluster))
        });
        Self { pool: pool.clone(), ..self.clone() }
    }

    /// A turn for a question that may take long, until it is dropped: of the connections, only half work on such. `None` when all turns are
    /// taken for long.
    pub(crate) async fn heavy_turn(&self) -> Option<SemaphorePermit<'_>> {
        timeout(HEAVY_PATIENCE, self.heavy.acquire()).await.ok()?.ok()
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
            let (client, driver) = self.connector.connect().await?;
            client.batch_execute(TEXTS).await?;
            client.batch_execute(SESSION).await?;
            if !self.operator_schemas.is_empty() {
                let schemas: Vec<String> =
                    self.operator_schemas.iter().map(|schema| identifier(schema)).collect();
                let path = format!("SET search_path = pg_catalog, {}", schemas.join(", "));
                client.batch_execute(&path).await?;
            }
            Ok((client, driver))
        })
    }
}

type Connecting<'a> = Pin<Box<dyn Future<Output = Result<Parts, tokio_postgres::Error>> + Send + 'a>>;
