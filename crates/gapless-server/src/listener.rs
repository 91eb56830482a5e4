//! Accepting connections.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use tracing::{debug, warn};

use crate::gateway::Gateway;
use crate::write_limit::WriteLimited;

/// How long to leave the listener alone when the system has no room for another connection.
const PAUSE_WHEN_FULL: Duration = Duration::from_millis(200);
/// How much of a request's head is read at most.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Accepts connections for as long as it is polled.
///
/// What goes wrong with one connection is its own; when the system has no room for more, the others go on and it is tried
/// again.
pub(crate) async fn accept(listener: TcpListener, gateway: Arc<Gateway>, router: Router) -> Infallible {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let served = serve(stream, Arc::clone(&gateway), router.clone());
                gateway.spawn(served);
            }
            Err(error) if concerns_one_connection(&error) => debug!(%error, "lost a connection"),
            Err(error) => {
                warn!(%error, "can't accept a connection; see the limit of open files");
                sleep(PAUSE_WHEN_FULL).await;
            }
        }
    }
}

fn concerns_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

/// Serves HTTP on one connection until it is upgraded or closed, or the gateway drains.
async fn serve(stream: TcpStream, gateway: Arc<Gateway>, router: Router) {
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "lost a connection");
        return;
    }
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(gateway.config().session.handshake_max)
        .max_buf_size(HEAD_BYTES_MAX);
    let service = TowerToHyperService::new(router);
    let stream = WriteLimited::new(stream, gateway.config().session.write_stall_max);
    let connection = builder.serve_connection(TokioIo::new(stream), service).with_upgrades();
    let mut connection = Box::pin(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = gateway.drained() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        debug!(error = &error as &dyn std::error::Error, "a connection ended early");
    }
}
