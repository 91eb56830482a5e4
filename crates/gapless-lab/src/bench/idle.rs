//! `idle`: the memory of connections on which nothing happens.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, bail};
use futures_util::SinkExt as _;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use gapless_core::History;
use gapless_proto::{ConvId, UserId};
use gapless_store::Creation;
use tokio::net::TcpSocket;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;

use super::Scale;
use super::frames::{self, Incoming};
use crate::database::{Database, Databases, StoreKind};
use crate::figure::{Figure, Target};
use crate::progress::Progress;
use crate::raw_client::{Socket, upgrade};
use crate::server;

const BENCH: &str = "idle";
const KIB_MAX: f64 = 12.0;
/// How many users a conversation has; each user is in one.
const MEMBERS: usize = 15;
/// How many connections are made at the same time.
const CONNECTS_AT_ONCE: usize = 64;
/// How many connections come from one address, so that no address runs out of ports.
const CONNECTIONS_AN_ADDRESS: usize = 5_000;
const READ_BUFFER_BYTES: usize = 4 << 10;

pub(super) async fn run(scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let connections = scale.pick(15_000, 150);
    // Long enough for the server to have asked every connection for a sign of life.
    let settling = scale.pick(Duration::from_secs(40), Duration::from_millis(200));
    let open_files_max = server::raise_open_files()?;
    if open_files_max < connections as u64 + 500 {
        bail!("{connections} connections need more open files than {open_files_max}; raise `ulimit -Hn`");
    }
    let database = Databases::ready(StoreKind::Sqlite, None).await?.fresh().await?;
    create_conversations(&database, connections).await?;
    let server = server::serve(&database.url()).await?;
    let before = server.resident_bytes()?;

    let progress = Progress::new(connections);
    progress.begin(format!("{connections} connections"));
    let mut clients = connect(server.address(), connections, &progress).await?;
    let connected = server.resident_bytes()?;
    progress.begin("a round of heartbeats");
    let ended = tokio::time::timeout(settling, clients.join_next()).await;
    if let Ok(Some(ended)) = ended {
        bail!("a connection ended: {ended:?}");
    }
    let settled = server.resident_bytes()?;

    clients.shutdown().await;
    server::stop(server).await?;
    database.discard().await?;
    let each = |bytes: u64| bytes.saturating_sub(before) as f64 / connections as f64 / 1024.0;
    let figure = |when: &str, kib| {
        Figure::new(BENCH, format!("memory a connection, {connections} connections, {when}"), "KiB", kib)
    };
    Ok(vec![
        figure("all connected", each(connected)).target(Target::OursAtMost(KIB_MAX)),
        figure("after a round of heartbeats", each(settled)).target(Target::OursAtMost(KIB_MAX)),
        Figure::new(BENCH, "memory of the server without connections", "KiB", before as f64 / 1024.0),
    ])
}

async fn create_conversations(database: &Database, users: usize) -> anyhow::Result<()> {
    let store = database.open_store().await?;
    let creations = (0..users.div_ceil(MEMBERS)).map(async |number| -> anyhow::Result<()> {
        let first = number * MEMBERS;
        let members: Result<Vec<_>, _> = (first..users.min(first + MEMBERS)).map(user).collect();
        let members = members?;
        let creation = Creation {
            conv: ConvId::new(&format!("conversation-{number}"))?,
            creator: members.first().context("a conversation has members")?.clone(),
            members,
            history: History::FromJoin,
        };
        store.create(creation).await?;
        Ok(())
    });
    stream::iter(creations).buffer_unordered(CONNECTS_AT_ONCE).try_collect::<()>().await?;
    store.close().await;
    Ok(())
}

fn user(number: usize) -> Result<UserId, gapless_proto::IdError> {
    UserId::new(&format!("user-{number}"))
}

/// Connects them all. The tasks keep them alive, and end only with an error.
async fn connect(
    server: SocketAddr,
    connections: usize,
    progress: &Progress,
) -> anyhow::Result<JoinSet<anyhow::Result<()>>> {
    let mut connecting = stream::iter((0..connections).map(async |number| {
        let socket = connect_one(server, number).await;
        progress.step();
        socket.with_context(|| format!("connection {number}"))
    }))
    .buffer_unordered(CONNECTS_AT_ONCE);
    let mut clients = JoinSet::new();
    while let Some(socket) = connecting.next().await {
        clients.spawn(stay(socket?));
    }
    Ok(clients)
}

async fn connect_one(server: SocketAddr, number: usize) -> anyhow::Result<Socket> {
    let host = u8::try_from(2 + number / CONNECTIONS_AN_ADDRESS)?;
    let source = IpAddr::V4(Ipv4Addr::new(127, 0, 0, host));
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(source, 0)).context("binding a source address")?;
    let stream = socket.connect(server).await?;
    upgrade(stream, server, &format!("user-{number}"), "idle", READ_BUFFER_BYTES).await
}

/// Answers pings, and nothing else.
async fn stay(mut socket: Socket) -> anyhow::Result<()> {
    loop {
        let frame = socket.next().await.context("the server closed it")??;
        let Message::Text(text) = frame else { bail!("unexpected: {frame:?}") };
        if frames::read(&text) == Incoming::Ping {
            socket.send(Message::text(frames::PONG)).await?;
        }
    }
}
