//! One running server: what its connections share, and how it starts and stops.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::routing::get;
use gapless_proto::{ErrorCode, SessionId, UserId};
use gapless_store::{NewsReceiver, Store};
use gapless_tables::{Served, Tables};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use crate::auth::Authenticator;
use crate::chains::{self, Chains};
use crate::config::{AuthConfig, Config};
use crate::hub::{self, HubHandle, HubReader, SessionHandle};
use crate::live_tables::LiveTables;
use crate::meters::Meters;
use crate::refusal::Refusal;
use crate::tips::ChainTips;
use crate::{exposition, http, listener, upgrade};

/// How many sessions are loaded at a time, so that a crowd that comes back at once doesn't keep the store from all others.
const LOADING_MAX: usize = 32;
/// How often measured times are summed up, so that they don't pile up when nobody reads the metrics.
const METRICS_SUMMED_UP_EVERY: Duration = Duration::from_secs(5);
/// How often tables are looked at that nobody asks for.
const TABLES_LOOKED_AT_EVERY: Duration = Duration::from_secs(30);

/// What a gateway has beside its store.
#[derive(Debug, Default)]
pub struct Beside {
    /// How the chains do that this process follows.
    pub tips: ChainTips,
    /// The tables that are read for others.
    pub tables: Tables,
}

/// What all connections and requests share.
pub(crate) struct Gateway {
    config: Config,
    store: Arc<dyn Store>,
    hub: HubHandle,
    chains: Arc<Chains>,
    tips: ChainTips,
    tables: Tables,
    live_tables: LiveTables,
    authenticator: Authenticator,
    meters: Arc<Meters>,
    /// Tells the sessions of this process from those of others in the logs.
    name: u32,
    sessions: AtomicU64,
    loading: Semaphore,
    connections: TaskTracker,
    drain: CancellationToken,
    abort: CancellationToken,
}

impl Gateway {
    fn new(config: Config, store: Arc<dyn Store>, beside: Beside) -> (Arc<Self>, HubReader) {
        let Beside { tips, tables } = beside;
        exposition::install();
        let meters = Arc::new(Meters::new());
        let (hub, reader) = HubHandle::new(config.hub, Arc::clone(&meters));
        let gateway = Self {
            authenticator: Authenticator::new(config.auth.clone()),
            chains: Arc::new(Chains::new(config.chains.confirmations, Arc::clone(&store))),
            tips,
            tables,
            live_tables: LiveTables::default(),
            config,
            store,
            hub,
            meters,
            name: rand::random(),
            sessions: AtomicU64::new(0),
            loading: Semaphore::new(LOADING_MAX),
            connections: TaskTracker::new(),
            drain: CancellationToken::new(),
            abort: CancellationToken::new(),
        };
        (Arc::new(gateway), reader)
    }

    /// How it runs.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// The source of truth.
    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Who is connected.
    pub(crate) fn hub(&self) -> &HubHandle {
        &self.hub
    }

    /// The chains that somebody follows.
    pub(crate) fn chains(&self) -> &Arc<Chains> {
        &self.chains
    }

    /// How the chains do that this process follows.
    pub(crate) fn tips(&self) -> &ChainTips {
        &self.tips
    }

    /// The tables that are read for others.
    pub(crate) fn tables(&self) -> &Tables {
        &self.tables
    }

    /// A table that is read for others.
    pub(crate) fn table(&self, name: &str) -> Result<&Arc<Served>, Refusal> {
        self.tables.get(name).ok_or_else(|| {
            let message = match self.tables.iter().next() {
                None => "this server has no tables; declare some and start it with `tables.serve`",
                Some(_) => {
                    "there is no such table here; look at the name, and at what `tables.serve` declares"
                }
            };
            Refusal::new(ErrorCode::NotFound, message)
        })
    }

    /// The tables of which somebody is told.
    pub(crate) fn live_tables(&self) -> &LiveTables {
        &self.live_tables
    }

    /// Who tells whose a token is.
    pub(crate) fn authenticator(&self) -> &Authenticator {
        &self.authenticator
    }

    /// What is counted.
    pub(crate) fn meters(&self) -> &Meters {
        &self.meters
    }

    /// Whether it is about to stop, and so not ready for more.
    pub(crate) fn is_draining(&self) -> bool {
        self.drain.is_cancelled()
    }

    /// Waits until the gateway drains.
    pub(crate) async fn drained(&self) {
        self.drain.cancelled().await;
    }

    /// Waits for a turn to read the conversations of a session from the store; it lasts until it is dropped.
    pub(crate) async fn loading_turn(&self) -> SemaphorePermit<'_> {
        self.loading.acquire().await.expect("the semaphore is never closed")
    }

    /// Names a session of a user.
    pub(crate) fn new_session(&self, user: UserId) -> SessionHandle {
        let number = self.sessions.fetch_add(1, Ordering::Relaxed);
        let id =
            SessionId::new(&format!("{:08x}-{number}", self.name)).expect("digits and a dash make an id");
        SessionHandle::new(number, id, user, self.config.session.delivery)
    }

    /// Runs the task of a connection. The gateway waits for it before it stops, and drops it if that takes too long.
    pub(crate) fn spawn(&self, connection: impl Future<Output = ()> + Send + 'static) {
        let abort = self.abort.clone();
        self.connections.spawn(async move {
            abort.run_until_cancelled_owned(connection).await;
        });
    }

    /// Ends all connections: tells the sessions, lets what is under way be answered, and drops what has not ended by the
    /// deadline.
    async fn drain(&self) {
        let drain = &self.config.drain;
        info!(sessions = self.hub.session_count(), "draining");
        self.drain.cancel();
        self.hub.drain(drain.reconnect_spread);
        self.connections.close();
        if timeout(drain.deadline, self.connections.wait()).await.is_err() {
            warn!(connections = self.connections.len(), "dropping connections that did not end in time");
            self.abort.cancel();
            self.connections.wait().await;
        }
        info!("drained");
    }
}

/// Why a gateway ended before it was told to.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Everyone would be let in from everywhere.
    #[error("an open gateway must listen on a loopback address; listen on 127.0.0.1, or take tokens")]
    OpenToTheWorld,
    /// The store tells no more news.
    #[error("the store was closed while the gateway was running; close it after the gateway has returned")]
    StoreClosed,
    /// A task that all sessions depend on has failed.
    #[error("a part of the gateway failed; this is a fault in it, please report it")]
    Task(#[source] JoinError),
}

/// Serves until `shutdown` completes, then drains: tells every session to come back elsewhere, answers what is under way,
/// and returns once all sessions and tasks have ended. Drains in the same way before it returns an error.
///
/// `tips` is told of the chains that this process follows, if it follows any.
///
/// The store stays open; closing it afterwards is the caller's.
pub async fn run(
    listener: TcpListener,
    config: Config,
    store: Arc<dyn Store>,
    news: NewsReceiver,
    beside: Beside,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), RunError> {
    let is_local = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
    if config.auth == AuthConfig::Open && !is_local {
        return Err(RunError::OpenToTheWorld);
    }
    let (gateway, reader) = Gateway::new(config, store, beside);
    let router = http::service(&gateway, get(upgrade::upgrade));
    let mut upkeep = upkeep(&gateway, reader, news);
    let ended = tokio::select! {
        () = shutdown => Ok(()),
        failure = failure(&mut upkeep) => Err(failure),
        never = listener::accept(listener, Arc::clone(&gateway), router) => match never {},
    };
    gateway.drain().await;
    upkeep.shutdown().await;
    ended
}

/// Starts what keeps the hub in step with the store.
fn upkeep(gateway: &Gateway, reader: HubReader, news: NewsReceiver) -> JoinSet<()> {
    let hub = || gateway.hub.clone();
    let times = &gateway.config.upkeep;
    let mut tasks = JoinSet::new();
    tasks.spawn(reader.run(hub(), Arc::clone(&gateway.store)));
    let chains = || Arc::clone(&gateway.chains);
    tasks.spawn(hub::follow_news(hub(), chains(), news));
    tasks.spawn(chains().keep_up(times.heads_interval));
    tasks.spawn(chains::trim_chains(Arc::clone(&gateway.store), gateway.config.chains.clone()));
    tasks.spawn(hub::follow_heads(hub(), Arc::clone(&gateway.store), times.heads_interval));
    tasks.spawn(hub::follow_memberships(hub(), Arc::clone(&gateway.store), times.heads_interval));
    tasks.spawn(hub::sweep(hub(), times.sweep_interval));
    tasks.spawn(sum_up_metrics());
    tasks.spawn(look_at_tables(gateway.tables.clone()));
    tasks
}

/// Looks at all tables now and then, so that the log and `/ready` tell of those that can't be read, though nobody asks for them.
async fn look_at_tables(tables: Tables) {
    let mut ticks = interval(TABLES_LOOKED_AT_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        for table in tables.iter() {
            // What is wrong is logged there.
            table.source().await.ok();
        }
    }
}

async fn sum_up_metrics() {
    let mut ticks = interval(METRICS_SUMMED_UP_EVERY);
    loop {
        ticks.tick().await;
        exposition::upkeep();
    }
}

/// Waits for one of the gateway's own tasks to end; none should.
async fn failure(tasks: &mut JoinSet<()>) -> RunError {
    match tasks.join_next().await {
        Some(Err(error)) => RunError::Task(error),
        // Only news ends without failing: when its sender, the store, does.
        Some(Ok(())) | None => RunError::StoreClosed,
    }
}
