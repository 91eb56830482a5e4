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

/// A connection that asks one thing after the other.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    server: SocketAddr,
}

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Posts JSON on a connection of its own, from [`SOURCE`].
pub(crate) async fn post(server: SocketAddr, path: &str, body: &str) -> anyhow::Result<Answer> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(IpAddr::V4(SOURCE), 0))?;
    let asking = async {
        let stream = socket.connect(server).await.context("connecting to the server")?;
        Connection { stream: BufReader::new(stream), server }.ask(path, body).await
    };
    timeout(PATIENCE, asking).await.context("the server doesn't answer")?
}

impl Connection {
    pub(crate) async fn open(server: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(server).await.context("connecting to the server")?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream), server })
    }

    /// Posts JSON; whatever isn't answered with 200 is an error.
    pub(crate) async fn post(&mut self, path: &str, body: &str) -> anyhow::Result<String> {
        let asking = self.ask(path, body);
        let Answer { status, body } =
            timeout(PATIENCE, asking).await.context("the server doesn't answer")??;
        ensure!(status == 200, "{status}: {body}");
        Ok(body)
    }

    async fn ask(&mut self, path: &str, body: &str) -> anyhow::Result<Answer> {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.server,
            body.len()
        );
        self.stream.write_all(request.as_bytes()).await?;
        let (mut status, mut length) = (String::new(), 0);
        ensure!(self.stream.read_line(&mut status).await? > 0, "the server has closed the connection");
        loop {
            let mut line = String::new();
            ensure!(self.stream.read_line(&mut line).await? > 0, "the answer has no end of its headers");
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
        let status = status.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.context("the answer has no status")?;
        Ok(Answer { status, body: String::from_utf8(body)? })
    }
}
