//! A WebSocket and nothing more: it remembers nothing, repairs nothing and hides nothing.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail};
use futures_util::{SinkExt as _, StreamExt as _};
use gapless_core::SyncRequest;
use gapless_proto::{
    Body, ClientMessage, ConvId, ErrorReply, Event, Key, Page, Rid, Sent, ServerMessage,
    decode_server_message,
};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

/// How long the server may take to say what it must say.
const PATIENCE: Duration = Duration::from_secs(30);

/// Room for a page.
const READ_BUFFER_BYTES: usize = 32 << 10;

/// The socket itself, for those who time every frame.
pub(crate) type Socket = WebSocketStream<TcpStream>;

/// Connects as a device of a user, and reads the welcome.
pub(crate) async fn connect_socket(server: SocketAddr, user: &str, device: &str) -> anyhow::Result<Socket> {
    let stream = TcpStream::connect(server).await.context("connecting to the server")?;
    upgrade(stream, server, user, device, READ_BUFFER_BYTES).await
}

/// Makes a WebSocket of a connection, and reads the welcome.
pub(crate) async fn upgrade(
    stream: TcpStream,
    server: SocketAddr,
    user: &str,
    device: &str,
    read_buffer_bytes: usize,
) -> anyhow::Result<Socket> {
    stream.set_nodelay(true)?;
    let url = format!("ws://{server}/v1/ws?user={user}&device={device}");
    let config = WebSocketConfig::default().read_buffer_size(read_buffer_bytes);
    let (mut socket, _) = tokio_tungstenite::client_async_with_config(url, stream, Some(config))
        .await
        .context("upgrading to a WebSocket")?;
    match timeout(PATIENCE, socket.next()).await.context("the server sends no welcome")? {
        Some(Ok(Message::Text(text))) if text.starts_with(r#"{"t":"welcome""#) => Ok(socket),
        other => bail!("expected a welcome, got {other:?}"),
    }
}

/// Reads what the server says next, and answers when it is only asked for a sign of life.
pub(crate) async fn read_message(socket: &mut Socket, patience: Duration) -> anyhow::Result<ServerMessage> {
    let deadline = Instant::now() + patience;
    loop {
        let frame = timeout_at(deadline, socket.next()).await.context("the server says nothing")?;
        let message = match frame {
            Some(Ok(Message::Text(text))) => decode_server_message(&text)?,
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
            other => bail!("the connection ended: {other:?}"),
        };
        if message != ServerMessage::Ping {
            return Ok(message);
        }
        write_message(socket, &ClientMessage::Pong).await?;
    }
}

/// Says something to the server.
pub(crate) async fn write_message(socket: &mut Socket, message: &ClientMessage) -> anyhow::Result<()> {
    socket.send(Message::text(message.encode())).await.context("writing to the server")
}

/// One connection of one user.
pub(crate) struct RawClient {
    socket: Socket,
    next_rid: u64,
    /// What arrived while something else was waited for, in the order of arrival.
    unread: VecDeque<ServerMessage>,
}

impl RawClient {
    /// Connects as a device of `user` that was never seen before.
    pub(crate) async fn connect(server: SocketAddr, user: &str) -> anyhow::Result<Self> {
        static DEVICES: AtomicU64 = AtomicU64::new(1);
        let device = format!("lab-{}", DEVICES.fetch_add(1, Ordering::Relaxed));
        let socket = connect_socket(server, user, &device).await?;
        Ok(Self { socket, next_rid: 1, unread: VecDeque::new() })
    }

    /// Asks for a message to be appended, without waiting for the answer.
    pub(crate) async fn start_send(&mut self, conv: &ConvId, key: Key, body: Body) -> anyhow::Result<Rid> {
        let rid = self.take_rid()?;
        self.write(&ClientMessage::Send { rid, conv: conv.clone(), key, body }).await?;
        Ok(rid)
    }

    /// Sends a message and waits until it is on disk.
    pub(crate) async fn send(&mut self, conv: &ConvId, key: Key, body: Body) -> anyhow::Result<Sent> {
        let rid = self.start_send(conv, key, body).await?;
        self.sent(rid).await
    }

    /// Waits for the answer to a send.
    pub(crate) async fn sent(&mut self, rid: Rid) -> anyhow::Result<Sent> {
        let is_sent =
            |message: &ServerMessage| matches!(message, ServerMessage::Sent(sent) if sent.rid == rid);
        let answer = self.wait_for(|message| is_sent(message) || is_refusal(message, rid)).await?;
        let ServerMessage::Sent(sent) = answer else { bail!("a send was refused: {answer:?}") };
        Ok(sent)
    }

    /// Asks for a page, without waiting for it.
    pub(crate) async fn start_sync(
        &mut self,
        conv: &ConvId,
        asked: SyncRequest,
        limit: u32,
    ) -> anyhow::Result<Rid> {
        let rid = self.take_rid()?;
        let SyncRequest { after, epoch } = asked;
        self.write(&ClientMessage::Sync { rid, conv: conv.clone(), after, limit: Some(limit), epoch })
            .await?;
        Ok(rid)
    }

    /// Asks for a page and waits for it, or for why there is none.
    pub(crate) async fn sync(
        &mut self,
        conv: &ConvId,
        asked: SyncRequest,
        limit: u32,
    ) -> anyhow::Result<Result<Page, ErrorReply>> {
        let rid = self.start_sync(conv, asked, limit).await?;
        self.page(rid).await
    }

    /// Waits for the answer to a sync.
    pub(crate) async fn page(&mut self, rid: Rid) -> anyhow::Result<Result<Page, ErrorReply>> {
        let is_page =
            |message: &ServerMessage| matches!(message, ServerMessage::Page { rid: of, .. } if *of == rid);
        let answer = self.wait_for(|message| is_page(message) || is_refusal(message, rid)).await?;
        if let ServerMessage::Page { page, .. } = answer {
            return Ok(Ok(page));
        }
        let ServerMessage::Error(error) = answer else { bail!("{answer:?} answers no sync") };
        Ok(Err(error))
    }

    /// Waits for the push of the entry `seq`. All pushes before it are lost.
    pub(crate) async fn pushed(&mut self, seq: u64) -> anyhow::Result<Event> {
        loop {
            let push = self.wait_for(|message| matches!(message, ServerMessage::Event(_))).await?;
            let ServerMessage::Event(event) = push else { bail!("{push:?} is no push") };
            if event.entry.seq.get() >= seq {
                return Ok(event);
            }
        }
    }

    /// The next message, whatever it is.
    pub(crate) async fn next(&mut self) -> anyhow::Result<ServerMessage> {
        match self.unread.pop_front() {
            Some(message) => Ok(message),
            None => self.read().await,
        }
    }

    /// Waits for the first message that fits; the others are kept for later.
    async fn wait_for(&mut self, fits: impl Fn(&ServerMessage) -> bool) -> anyhow::Result<ServerMessage> {
        if let Some(position) = self.unread.iter().position(&fits) {
            return self.unread.remove(position).context("it was just found");
        }
        loop {
            let message = self.read().await?;
            if fits(&message) {
                return Ok(message);
            }
            self.unread.push_back(message);
        }
    }

    async fn read(&mut self) -> anyhow::Result<ServerMessage> {
        read_message(&mut self.socket, PATIENCE).await
    }

    async fn write(&mut self, message: &ClientMessage) -> anyhow::Result<()> {
        write_message(&mut self.socket, message).await
    }

    fn take_rid(&mut self) -> anyhow::Result<Rid> {
        let rid = Rid::new(self.next_rid).context("too many requests")?;
        self.next_rid += 1;
        Ok(rid)
    }
}

/// Whether a message refuses a request. One that names no request may be about any.
fn is_refusal(message: &ServerMessage, rid: Rid) -> bool {
    matches!(message, ServerMessage::Error(error) if error.rid.is_none_or(|of| of == rid))
}
