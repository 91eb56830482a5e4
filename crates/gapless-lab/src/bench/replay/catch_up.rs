//! Clients that come back with a cursor and take what they missed.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use futures_util::SinkExt as _;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

use super::{Plan, log};
use crate::bench::frames::{self, Incoming};
use crate::raw_client::{Socket, connect_socket};

const PATIENCE: Duration = Duration::from_secs(120);
/// How many connections are made at the same time.
const CONNECTS_AT_ONCE: usize = 64;

/// How many events a second one client gets that has seen none.
pub(super) async fn events_a_second(server: SocketAddr, events: u64) -> anyhow::Result<f64> {
    let mut socket = connect_socket(server, "ann", "replay").await?;
    let start = Instant::now();
    catch_up(&mut socket, &log::cursor(events, events)?, events).await?;
    Ok(events as f64 / start.elapsed().as_secs_f64())
}

/// How many events a second all of many clients get together that come back with the same cursor.
pub(super) async fn all_at_once(server: SocketAddr, plan: Plan) -> anyhow::Result<f64> {
    let connecting = (0..plan.clients)
        .map(|number| async move { connect_socket(server, &format!("user-{number}"), "replay").await });
    let sockets: Vec<Socket> =
        stream::iter(connecting).buffer_unordered(CONNECTS_AT_ONCE).try_collect().await?;
    let cursor = log::cursor(plan.events, plan.missed)?;
    let start = Instant::now();
    let clients = sockets.into_iter().map(|mut socket| {
        let cursor = cursor.clone();
        tokio::spawn(async move { catch_up(&mut socket, &cursor, plan.missed).await })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await??;
    }
    Ok(plan.clients as f64 * plan.missed as f64 / start.elapsed().as_secs_f64())
}

/// Subscribes, and reads until so many events have come.
async fn catch_up(socket: &mut Socket, cursor: &str, events: u64) -> anyhow::Result<()> {
    socket.send(Message::text(frames::subscribe(log::TOPIC, Some(cursor)))).await?;
    let reading = async {
        let mut left = events;
        while left > 0 {
            let frame = socket.next().await.context("the connection ended")??;
            let Message::Text(text) = frame else { bail!("unexpected: {frame:?}") };
            match frames::read(&text) {
                Incoming::Event { .. } => left -= 1,
                Incoming::Ping => socket.send(Message::text(frames::PONG)).await?,
                Incoming::Subscribed => {}
                Incoming::Sent { .. } | Incoming::Page | Incoming::Revoke | Incoming::Other { .. } => {
                    bail!("unexpected: {text}")
                }
            }
        }
        Ok(())
    };
    timeout(PATIENCE, reading).await.with_context(|| format!("{events} events don't come"))?
}
