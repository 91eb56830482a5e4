//! Metrics of a process that is no gateway.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};
use tracing::debug;

use crate::exposition;
use crate::http::health;

/// Answers `/metrics` in the text form of Prometheus, for a process that serves nothing else.
pub struct MetricsListener {
    listener: TcpListener,
}

/// So many connections at a time are enough for those that look; others wait.
const CONNECTIONS_MAX: usize = 16;
const HEAD_READ_MAX: Duration = Duration::from_secs(10);
const HEAD_BYTES_MAX: usize = 16 << 10;
const SUMMED_UP_EVERY: Duration = Duration::from_secs(5);
const PAUSE_WHEN_FULL: Duration = Duration::from_millis(200);

impl MetricsListener {
    /// Begins to listen, and to count; what was counted before isn't kept.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        exposition::install();
        Ok(Self { listener })
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers for as long as it is polled.
    pub async fn serve(self) -> Infallible {
        let router = Router::new().route("/metrics", get(health::metrics));
        let mut connections = JoinSet::new();
        let mut ticks = interval(SUMMED_UP_EVERY);
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                    Ok((stream, _)) => drop(connections.spawn(serve(stream, router.clone()))),
                    Err(error) => {
                        debug!(%error, "can't accept a connection");
                        sleep(PAUSE_WHEN_FULL).await;
                    }
                },
                Some(_) = connections.join_next() => {}
                _ = ticks.tick() => exposition::upkeep(),
            }
        }
    }
}

async fn serve(stream: TcpStream, router: Router) {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_READ_MAX).max_buf_size(HEAD_BYTES_MAX);
    let served = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)).await;
    if let Err(error) = served {
        debug!(error = &error as &dyn std::error::Error, "a connection ended early");
    }
}
