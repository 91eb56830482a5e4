//! Plain requests over HTTP.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpSocket, TcpStream};
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

/// Posts JSON on a connection of its own.
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

/// A connection that asks one thing after the other.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    server: SocketAddr,
}

impl Connection {
    pub(crate) async fn open(server: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(server).await.context("connecting to the server")?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream), server })
    }

    /// Posts JSON; whatever isn't answered with 200 is an error.
    pub(crate) async fn post(&mut self, path: &str, body: &str) -> anyhow::Result<String> {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.server,
            body.len()
        );
        timeout(PATIENCE, self.exchange(&request)).await.context("the server doesn't answer")?
    }

    async fn exchange(&mut self, request: &str) -> anyhow::Result<String> {
        self.stream.write_all(request.as_bytes()).await?;
        let (mut status, mut length) = (String::new(), 0);
        ensure!(self.stream.read_line(&mut status).await? > 0, "the server has closed the connection");
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).await?;
            match line.trim_end().split_once(": ") {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.parse()?
                }
                Some(_) => {}
                None => break,
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await?;
        let body = String::from_utf8(body)?;
        ensure!(status.split(' ').nth(1) == Some("200"), "{status}{body}");
        Ok(body)
    }
}
