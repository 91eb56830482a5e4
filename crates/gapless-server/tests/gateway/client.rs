//! A bare WebSocket that a test speaks the protocol on, without any of the real client's wisdom.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use gapless_proto::{
    Body, ClientMessage, CloseCode, ConvId, Entry, Epoch, ErrorCode, ErrorReply, Event, Key, Page, Rid, Sent,
    Seq, ServerMessage, Welcome, decode_server_message,
};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

/// One connection.
pub(crate) struct Client {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    rids: u64,
}

/// How long anything may take that has to happen. Generous: it is waited for only when a test fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits for something that has to happen.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it did not happen in time")
}

impl Client {
    /// Connects with a token; doesn't wait for the welcome.
    pub(crate) async fn connect(address: SocketAddr, token: &str) -> Result<Self, Error> {
        let mut request = format!("ws://{address}/v1/ws").into_client_request()?;
        request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        let (socket, _) = within(tokio_tungstenite::connect_async(request)).await?;
        Ok(Self { socket, rids: 0 })
    }

    /// Connects as a browser does, which can't set headers.
    pub(crate) async fn connect_as_browser(address: SocketAddr, token: &str) -> Result<Self, Error> {
        let mut request = format!("ws://{address}/v1/ws").into_client_request()?;
        let protocols = format!("gapless.v1, bearer.{token}").parse().unwrap();
        request.headers_mut().insert("sec-websocket-protocol", protocols);
        let (socket, response) = within(tokio_tungstenite::connect_async(request)).await?;
        assert_eq!(response.headers()["sec-websocket-protocol"], "gapless.v1");
        Ok(Self { socket, rids: 0 })
    }

    /// Sends a message and returns its request id, without waiting for the answer.
    pub(crate) async fn begin_send(&mut self, conv: &ConvId, key: &str, body: &str) -> Rid {
        let rid = self.next_rid();
        let body = Body::from_value(&body).unwrap();
        self.tell(&ClientMessage::Send { rid, conv: conv.clone(), key: Key::new(key).unwrap(), body }).await;
        rid
    }

    /// The same over a connection that the server may have ended.
    pub(crate) async fn try_begin_send(&mut self, conv: &ConvId, key: &str) -> Result<Rid, Error> {
        let rid = self.next_rid();
        let (conv, body) = (conv.clone(), Body::from_value(&key).unwrap());
        let message = ClientMessage::Send { rid, conv, key: Key::new(key).unwrap(), body };
        within(self.socket.send(Message::text(message.encode()))).await?;
        Ok(rid)
    }

    /// Sends a message that must be taken; what else arrives meanwhile is passed over.
    pub(crate) async fn send(&mut self, conv: &ConvId, key: &str) -> Sent {
        self.send_text(conv, key, key).await
    }

    pub(crate) async fn send_text(&mut self, conv: &ConvId, key: &str, text: &str) -> Sent {
        let rid = self.begin_send(conv, key, text).await;
        self.expect_sent(rid).await
    }

    /// Asks for a page and returns its request id, without waiting for the answer.
    pub(crate) async fn begin_sync(
        &mut self,
        conv: &ConvId,
        after: u64,
        limit: Option<u32>,
        epoch: Option<Epoch>,
    ) -> Rid {
        let rid = self.next_rid();
        let after = Seq::new(after).unwrap();
        self.tell(&ClientMessage::Sync { rid, conv: conv.clone(), after, limit, epoch }).await;
        rid
    }

    /// Asks for a page that must be given; what else arrives meanwhile is passed over.
    pub(crate) async fn sync(&mut self, conv: &ConvId, after: u64) -> Page {
        let rid = self.begin_sync(conv, after, None, None).await;
        self.expect_page(rid).await
    }

    /// Pages from a cursor to the head.
    pub(crate) async fn read_all(&mut self, conv: &ConvId, after: u64, limit: u32) -> Vec<Entry> {
        let mut entries = Vec::new();
        let mut after = after;
        loop {
            let rid = self.begin_sync(conv, after, Some(limit), None).await;
            let page = self.expect_page(rid).await;
            assert!(page.events.len() <= limit as usize);
            entries.extend(page.events);
            after = page.next_after.get();
            if !page.has_more {
                return entries;
            }
        }
    }

    pub(crate) async fn ack(&mut self, conv: &ConvId, cursor: u64) {
        let cursor = Seq::new(cursor).unwrap();
        self.tell(&ClientMessage::Ack { conv: conv.clone(), cursor, epoch: None }).await;
    }

    pub(crate) async fn tell(&mut self, message: &ClientMessage) {
        self.tell_text(message.encode()).await;
    }

    pub(crate) async fn tell_text(&mut self, text: impl Into<String>) {
        self.tell_raw(Message::text(text.into())).await;
    }

    pub(crate) async fn tell_raw(&mut self, message: Message) {
        within(self.socket.send(message)).await.unwrap();
    }

    pub(crate) fn next_rid(&mut self) -> Rid {
        self.rids += 1;
        Rid::new(self.rids).unwrap()
    }

    /// The next frame.
    pub(crate) async fn next(&mut self) -> ServerMessage {
        match self.next_raw().await {
            Message::Text(text) => decode_server_message(&text).unwrap(),
            other => panic!("expected a frame, got {other:?}"),
        }
    }

    /// The next frame; `None` when the connection has ended.
    pub(crate) async fn try_next(&mut self) -> Option<ServerMessage> {
        match within(self.socket.next()).await {
            Some(Ok(Message::Text(text))) => Some(decode_server_message(&text).unwrap()),
            _ => None,
        }
    }

    /// The next frame of which `pick` makes something; what else arrives meanwhile is passed over.
    pub(crate) async fn expect<T>(&mut self, mut pick: impl FnMut(ServerMessage) -> Option<T>) -> T {
        loop {
            if let Some(picked) = pick(self.next().await) {
                return picked;
            }
        }
    }

    pub(crate) async fn expect_welcome(&mut self) -> Welcome {
        match self.next().await {
            ServerMessage::Welcome(welcome) => welcome,
            other => panic!("expected a welcome first, got {other:?}"),
        }
    }

    pub(crate) async fn expect_sent(&mut self, rid: Rid) -> Sent {
        self.expect(|message| match message {
            ServerMessage::Sent(sent) if sent.rid == rid => Some(sent),
            ServerMessage::Error(error) if error.rid == Some(rid) => {
                panic!("the send was refused: {error:?}")
            }
            _ => None,
        })
        .await
    }

    /// The answers to sends that must all be taken, in any order.
    pub(crate) async fn expect_all_sent(&mut self, mut rids: Vec<Rid>) {
        while !rids.is_empty() {
            match self.next().await {
                ServerMessage::Sent(sent) => rids.retain(|rid| *rid != sent.rid),
                ServerMessage::Error(error) => panic!("a send was refused: {error:?}"),
                _ => {}
            }
        }
    }

    pub(crate) async fn expect_page(&mut self, rid: Rid) -> Page {
        self.expect(|message| match message {
            ServerMessage::Page { rid: answered, page, .. } if answered == rid => Some(page),
            ServerMessage::Error(error) if error.rid == Some(rid) => {
                panic!("the sync was refused: {error:?}")
            }
            _ => None,
        })
        .await
    }

    /// The refusal of a request that must not succeed.
    pub(crate) async fn expect_error(&mut self, rid: Rid) -> ErrorReply {
        self.expect(|message| match message {
            ServerMessage::Error(error) if error.rid == Some(rid) => Some(error),
            ServerMessage::Sent(sent) if sent.rid == rid => panic!("the send was taken: {sent:?}"),
            ServerMessage::Page { rid: answered, .. } if answered == rid => panic!("a page was given"),
            _ => None,
        })
        .await
    }

    pub(crate) async fn expect_error_code(&mut self, rid: Rid) -> ErrorCode {
        self.expect_error(rid).await.code
    }

    /// The next entry that is pushed.
    pub(crate) async fn expect_event(&mut self) -> Event {
        self.expect(|message| match message {
            ServerMessage::Event(event) => Some(event),
            _ => None,
        })
        .await
    }

    /// The seq of the next hint.
    pub(crate) async fn expect_hint(&mut self, of: &ConvId) -> Seq {
        self.expect(|message| match message {
            ServerMessage::Hint { conv, head, .. } if conv == *of => Some(head),
            _ => None,
        })
        .await
    }

    /// Whatever was sent to this client until an entry of `marker` is pushed to it.
    ///
    /// Pushes come in the order of the commits: what was to be pushed before that entry is among it.
    pub(crate) async fn until_event_of(&mut self, marker: &ConvId) -> Vec<ServerMessage> {
        let mut frames = Vec::new();
        loop {
            match self.next().await {
                ServerMessage::Event(event) if event.conv == *marker => return frames,
                frame => frames.push(frame),
            }
        }
    }

    /// Waits until whatever was to be told to this client by now was told; it is passed over.
    ///
    /// An answer overtakes pushes that wait, but not those that waited when the answer before it was given.
    pub(crate) async fn settle(&mut self) {
        for _ in 0..2 {
            self.tell(&ClientMessage::Ping).await;
            self.expect(|message| (message == ServerMessage::Pong).then_some(())).await;
        }
    }

    /// The WebSocket itself.
    pub(crate) fn socket(&mut self) -> &mut WebSocketStream<MaybeTlsStream<TcpStream>> {
        &mut self.socket
    }

    /// The code with which the server closes; what it sends before that is passed over.
    pub(crate) async fn expect_close(&mut self) -> u16 {
        loop {
            match within(self.socket.next()).await {
                Some(Ok(Message::Close(Some(frame)))) => return frame.code.into(),
                Some(Ok(Message::Text(_) | Message::Ping(_) | Message::Pong(_))) => {}
                other => panic!("expected a close with a code, got {other:?}"),
            }
        }
    }

    pub(crate) async fn expect_close_with(&mut self, code: CloseCode) {
        assert_eq!(self.expect_close().await, code.number(), "expected {code}");
    }

    /// The next frame of the WebSocket layer.
    pub(crate) async fn next_raw(&mut self) -> Message {
        match within(self.socket.next()).await {
            Some(Ok(message)) => message,
            other => panic!("expected a frame, got {other:?}"),
        }
    }
}
