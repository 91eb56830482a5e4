//! Plain requests over HTTP, each on a connection of its own.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio::time::timeout;

/// Where requests come from, so that they can be told from the traffic of clients.
pub(crate) const SOURCE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 200);

/// What a server answers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The status.
    pub(crate) status: u16,
    /// The body.
    pub(crate) body: String,
}

/// Posts JSON.
pub(crate) async fn post(server: SocketAddr, path: &str, body: &str) -> anyhow::Result<Answer> {
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: {server}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    timeout(PATIENCE, exchange(server, &request)).await.context("the server doesn't answer")?
}

async fn exchange(server: SocketAddr, request: &str) -> anyhow::Result<Answer> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(IpAddr::V4(SOURCE), 0))?;
    let mut stream = socket.connect(server).await.context("connecting to the server")?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer has no end of its headers")?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok(Answer { status: status.context("the answer has no status")?, body: body.to_owned() })
}

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);
