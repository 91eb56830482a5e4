//! The client over real sockets, against a server that each test plays by hand.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use gapless_proto::{
    ClientMessage, CloseCode, DeviceId, Entry, Epoch, Event, Kind, Page, Rid, Sent, SessionId, Timestamp,
    UserId, Welcome, decode_client_message,
};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::accept_hdr_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server;
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use super::*;
use crate::{
    Change, Client, ClientConfig, DisconnectReason, Events, HandleFirst, Handled, MemoryState, Snapshot,
    TicketError, TokenSource,
};

#[tokio::test]
async fn a_message_is_sent_and_its_answer_comes_through_the_ticket() {
    let server = Server::bind().await;
    let (client, _events) = start(server.config()).await;
    let mut peer = server.accept_welcomed().await;

    let ticket = client.send(&conv(), body("hello")).await.unwrap();
    let (rid, key) = peer.expect_send().await;
    assert_eq!(key, ticket.key);
    peer.answer_send(rid, 7).await;
    assert_eq!(ticket.await.unwrap().seq, seq(7));
    assert_eq!(client.close().await, StopReason::Requested);
}

// Behaviour 12
#[tokio::test]
async fn over_a_new_connection_lost_messages_go_first_and_in_order() {
    let server = Server::bind().await;
    let (client, _events) = start(server.config()).await;
    let mut peer = server.accept_welcomed().await;
    let mut keys = Vec::new();
    for text in ["a", "b"] {
        keys.push(client.send(&conv(), body(text)).await.unwrap().key);
        peer.expect_send().await;
    }
    drop(peer);
    keys.push(client.send(&conv(), body("c")).await.unwrap().key);

    let mut peer = server.accept_welcomed().await;
    for key in keys {
        assert_eq!(peer.expect_send().await.1, key);
    }
}

#[tokio::test]
async fn entries_are_told_in_order_and_acknowledged() {
    let server = Server::bind().await;
    let (client, mut events) = start(server.config()).await;
    client.watch(&conv()).await.unwrap();
    let mut peer = server.accept_welcomed().await;

    let (rid, after) = peer.expect_sync().await;
    assert_eq!(after, Seq::ZERO);
    peer.send(page(rid, 1, 3)).await;
    assert_eq!(events.expect_entries(3).await, [1, 2, 3]);
    assert_eq!(peer.expect_ack().await, seq(3));
}

#[tokio::test]
async fn open_mode_names_user_and_device_in_the_query() {
    let server = Server::bind().await;
    let (_client, _events) = start(server.config()).await;

    let peer = server.accept().await;
    assert_eq!(peer.query.as_deref(), Some("user=alice&device=phone"));
}

#[tokio::test]
async fn a_token_goes_into_the_header_and_not_into_the_url() {
    let server = Server::bind().await;
    let config = ClientConfig::new(server.url(), Credentials::Token(TokenSource::fixed("t-1\n")));
    let (_client, _events) = start(config).await;

    let peer = server.accept().await;
    assert_eq!(peer.query, None);
    assert_eq!(peer.authorization.as_deref(), Some("Bearer t-1"));
}

// Behaviour 20
#[tokio::test]
async fn a_refused_token_is_fetched_anew() {
    let server = Server::bind().await;
    let count = Arc::new(Mutex::new(0));
    let source = TokenSource::from_fn(move || {
        let count = count.clone();
        async move {
            let mut count = count.lock().unwrap();
            *count += 1;
            Ok(format!("t-{count}"))
        }
    });
    let (_client, _events) = start(ClientConfig::new(server.url(), Credentials::Token(source))).await;

    let mut peer = server.accept().await;
    assert_eq!(peer.authorization.as_deref(), Some("Bearer t-1"));
    peer.close(CloseCode::Unauthenticated).await;
    let peer = server.accept().await;
    assert_eq!(peer.authorization.as_deref(), Some("Bearer t-2"));
}

// Behaviour 20
#[tokio::test]
async fn a_refused_fixed_token_stops_the_client() {
    let server = Server::bind().await;
    let config = ClientConfig::new(server.url(), Credentials::Token(TokenSource::fixed("t-1")));
    let (client, mut events) = start(config).await;

    server.refuse(StatusCode::UNAUTHORIZED).await;
    let stopped = events.expect_stopped().await;
    assert!(matches!(stopped, StopReason::Unauthenticated { .. }), "{stopped:?}");
    assert!(matches!(client.close().await, StopReason::Unauthenticated { .. }));
}

#[tokio::test]
async fn a_server_that_is_no_gapless_stops_the_client_and_one_that_is_broken_does_not() {
    let server = Server::bind().await;
    let (_client, mut events) = start(server.config()).await;
    server.refuse(StatusCode::BAD_GATEWAY).await;
    server.refuse(StatusCode::NOT_FOUND).await;

    let stopped = events.expect_stopped().await;
    let StopReason::WrongAddress { url, found } = &stopped else { panic!("{stopped:?}") };
    assert!(url.starts_with("ws://127.0.0.1:") && url.ends_with("/v1/ws"), "{url}");
    assert_eq!(found, "the answer is 404 Not Found");
}

#[tokio::test]
async fn a_scheme_that_the_server_does_not_speak_stops_the_client_with_the_one_it_may() {
    // An alert of TLS to who speaks HTTP, and an answer of HTTP to who speaks TLS.
    for (scheme, answer, other) in [
        ("http", &b"\x15\x03\x03\x00\x02\x02\x32"[..], "begins with https://"),
        ("https", b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n", "begins with http://"),
    ] {
        let server = Server::bind().await;
        let url = server.url().to_string().replace("http://", &format!("{scheme}://"));
        let config = ClientConfig { url: url.parse().unwrap(), ..server.config() };
        let (_client, mut events) = start(config).await;
        let (mut stream, _) = timeout(PATIENCE, server.listener.accept()).await.unwrap().unwrap();
        stream.write_all(answer).await.unwrap();

        let stopped = events.expect_stopped().await.to_string();
        assert!(stopped.contains(other), "{stopped}");
    }
}

// Behaviour 16
#[tokio::test]
async fn a_server_that_falls_silent_is_left_for_another_connection() {
    let server = Server::bind().await;
    let mut config = server.config();
    config.session.heartbeat.ping_after = Duration::from_millis(100);
    config.session.heartbeat.give_up_after = Duration::from_millis(50);
    let (_client, mut events) = start(config).await;

    let _silent = server.accept_welcomed().await;
    assert_eq!(events.expect_disconnected().await, DisconnectReason::HeartbeatTimeout);
    server.accept_welcomed().await;
}

#[tokio::test]
async fn a_server_that_accepts_but_never_answers_is_given_up() {
    let server = Server::bind().await;
    let mut config = server.config();
    config.session.connect_timeout = Duration::from_millis(50);
    let (_client, mut events) = start(config).await;

    let _mute = server.listener.accept().await.unwrap();
    assert_eq!(events.expect_disconnected().await, DisconnectReason::ConnectTimeout);
}

#[tokio::test]
async fn frames_that_make_no_sense_cost_the_connection_and_nothing_else() {
    for nonsense in
        [Message::text("{"), Message::text(r#"{"t":"page","rid":-1}"#), Message::binary(vec![0, 159])]
    {
        let server = Server::bind().await;
        let (client, mut events) = start(server.config()).await;
        let mut peer = server.accept_welcomed().await;
        peer.socket.send(nonsense).await.unwrap();

        let reason = events.expect_disconnected().await;
        assert!(reason.to_string().contains("doesn't speak this protocol"), "{reason}");
        server.accept_welcomed().await;
        client.close().await;
    }
}

#[tokio::test]
async fn an_application_that_takes_no_events_slows_the_server_down_and_misses_nothing() {
    let server = Server::bind().await;
    let mut config = server.config();
    config.events_max = 4;
    let (_client, mut events) = start(config).await;
    let mut peer = server.accept_welcomed().await;
    peer.send(event(1)).await;
    let (rid, _) = peer.expect_sync().await;
    peer.send(page(rid, 1, 1)).await;

    let mut pushed = 1;
    let large = "x".repeat(50_000);
    while timeout(Duration::from_millis(300), peer.send(event_with(pushed + 1, &large))).await.is_ok() {
        pushed += 1;
        assert!(pushed < 10_000, "the client reads on although nobody takes its events");
    }
    let expected: Vec<_> = (1..=pushed).collect();
    assert_eq!(events.expect_entries(expected.len()).await, expected);
}

// G3
#[tokio::test]
async fn a_state_that_can_not_be_written_stops_the_client_without_an_ack() {
    let server = Server::bind().await;
    let (client, mut events) = Client::start(server.config(), FullDisk).await.unwrap();
    client.watch(&conv()).await.unwrap();
    let mut peer = server.accept_welcomed().await;
    let (rid, _) = peer.expect_sync().await;

    peer.send(page(rid, 1, 3)).await;
    let stopped = events.expect_stopped().await;
    assert_eq!(stopped.to_string(), "the local state failed: no space left: the disk is full");
    assert_eq!(peer.next().await, None);
}

#[tokio::test]
async fn entries_are_handled_before_their_position_is_acknowledged_and_a_failing_handler_stops_it() {
    let server = Server::bind().await;
    let handled = Arc::new(Mutex::new(Vec::new()));
    let seen = handled.clone();
    let state = HandleFirst::new(MemoryState::new(), move |what: Handled<'_>| {
        let Handled::Entries(_, advance) = what else { return Ok(()) };
        seen.lock().unwrap().extend(advance.entries.iter().map(|entry| entry.seq.get()));
        if advance.position.seq >= seq(4) { Err(DiskFull) } else { Ok(()) }
    });
    let (client, mut events) = Client::start(server.config(), state).await.unwrap();
    client.watch(&conv()).await.unwrap();
    let mut peer = server.accept_welcomed().await;
    let (rid, _) = peer.expect_sync().await;

    peer.send(page(rid, 1, 3)).await;
    assert_eq!(peer.expect_ack().await, seq(3));
    assert_eq!(*handled.lock().unwrap(), [1, 2, 3]);
    peer.send(event(4)).await;
    assert!(matches!(events.expect_stopped().await, StopReason::State { .. }));
    assert_eq!(peer.next().await, None);
}

#[tokio::test]
async fn closing_waits_for_nobody_who_does_not_take_events() {
    let server = Server::bind().await;
    let mut config = server.config();
    config.events_max = 1;
    let (client, _events) = start(config).await;
    client.watch(&conv()).await.unwrap();
    let mut peer = server.accept_welcomed().await;
    let (rid, _) = peer.expect_sync().await;
    peer.send(page(rid, 1, 3)).await;
    peer.expect_ack().await;

    assert_eq!(client.close().await, StopReason::Requested);
    assert_eq!(peer.next_frame().await, Some(Message::Close(Some(normal_close()))));
}

#[tokio::test]
async fn a_dropped_handle_ends_the_client() {
    let server = Server::bind().await;
    let (client, mut events) = start(server.config()).await;
    drop(client);
    assert_eq!(events.expect_stopped().await, StopReason::Requested);
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn an_unanswered_ticket_says_that_the_message_is_still_there() {
    let server = Server::bind().await;
    let (client, _events) = start(server.config()).await;
    let ticket = client.send(&conv(), body("a")).await.unwrap();
    let key = ticket.key.clone();
    client.close().await;
    assert_eq!(ticket.await, Err(TicketError::Stopped { key }));
}

/// A server for one client, played by a test.
struct Server {
    listener: TcpListener,
}

/// The server's end of one connection.
struct Peer {
    socket: WebSocketStream<TcpStream>,
    query: Option<String>,
    authorization: Option<String>,
}

/// Nothing here takes longer than this unless it hangs.
const PATIENCE: Duration = Duration::from_secs(10);

impl Server {
    async fn bind() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    fn url(&self) -> ServerUrl {
        format!("http://{}", self.listener.local_addr().unwrap()).parse().unwrap()
    }

    fn config(&self) -> ClientConfig {
        let user = UserId::new("alice").unwrap();
        let device = DeviceId::new("phone").unwrap();
        let mut config = ClientConfig::new(self.url(), Credentials::Open { user, device });
        config.session.reconnect.base = Duration::from_millis(1);
        config.session.ack_delay = Duration::from_millis(1);
        config
    }

    // The handshake's error type is tungstenite's.
    #[expect(clippy::result_large_err)]
    async fn accept(&self) -> Peer {
        let (stream, _) = timeout(PATIENCE, self.listener.accept()).await.unwrap().unwrap();
        let (mut query, mut authorization) = (None, None);
        let look = |request: &server::Request, response: server::Response| {
            assert_eq!(request.uri().path(), "/v1/ws");
            query = request.uri().query().map(str::to_owned);
            let header = request.headers().get("authorization");
            authorization = header.map(|header| header.to_str().unwrap().to_owned());
            Ok(response)
        };
        let socket = accept_hdr_async(stream, look).await.unwrap();
        Peer { socket, query, authorization }
    }

    async fn accept_welcomed(&self) -> Peer {
        let mut peer = self.accept().await;
        peer.send(ServerMessage::Welcome(Welcome {
            user: UserId::new("alice").unwrap(),
            device: DeviceId::new("phone").unwrap(),
            session: SessionId::new("s-1").unwrap(),
            heartbeat_ms: 25_000,
            body_bytes_max: 65_536,
            expires_at: None,
        }))
        .await;
        peer
    }

    #[expect(clippy::result_large_err)]
    async fn refuse(&self, status: StatusCode) {
        let (stream, _) = timeout(PATIENCE, self.listener.accept()).await.unwrap().unwrap();
        let refuse = |_: &server::Request, _: server::Response| {
            let mut response = server::ErrorResponse::new(Some("no".to_owned()));
            *response.status_mut() = status;
            Err(response)
        };
        assert!(accept_hdr_async(stream, refuse).await.is_err());
    }
}

impl Peer {
    async fn send(&mut self, message: ServerMessage) {
        self.socket.send(Message::text(message.encode())).await.unwrap();
    }

    async fn close(&mut self, code: CloseCode) {
        let frame = CloseFrame { code: code.number().into(), reason: code.reason().into() };
        self.socket.send(Message::Close(Some(frame))).await.unwrap();
    }

    async fn next_frame(&mut self) -> Option<Message> {
        timeout(PATIENCE, self.socket.next()).await.unwrap()?.ok()
    }

    async fn next(&mut self) -> Option<ClientMessage> {
        match self.next_frame().await? {
            Message::Text(text) => Some(decode_client_message(&text).unwrap()),
            Message::Binary(_)
            | Message::Ping(_)
            | Message::Pong(_)
            | Message::Close(_)
            | Message::Frame(_) => None,
        }
    }

    async fn expect_send(&mut self) -> (Rid, Key) {
        match self.next().await {
            Some(ClientMessage::Send { rid, key, .. }) => (rid, key),
            other => panic!("a send was due instead of {other:?}"),
        }
    }

    async fn expect_sync(&mut self) -> (Rid, Seq) {
        match self.next().await {
            Some(ClientMessage::Sync { rid, after, .. }) => (rid, after),
            other => panic!("a sync was due instead of {other:?}"),
        }
    }

    async fn expect_ack(&mut self) -> Seq {
        match self.next().await {
            Some(ClientMessage::Ack { cursor, .. }) => cursor,
            other => panic!("an ack was due instead of {other:?}"),
        }
    }

    async fn answer_send(&mut self, rid: Rid, number: u64) {
        self.send(ServerMessage::Sent(Sent {
            rid,
            conv: conv(),
            seq: seq(number),
            epoch: epoch(),
            ts: Timestamp::default(),
            duplicate: false,
        }))
        .await;
    }
}

impl Events {
    async fn expect_next(&mut self) -> ClientEvent {
        timeout(PATIENCE, self.next()).await.unwrap().unwrap()
    }

    async fn expect_entries(&mut self, count: usize) -> Vec<u64> {
        let mut seqs = Vec::new();
        while seqs.len() < count {
            if let ClientEvent::Entries { advance, .. } = self.expect_next().await {
                seqs.extend(advance.entries.iter().map(|entry| entry.seq.get()));
            }
        }
        seqs
    }

    async fn expect_disconnected(&mut self) -> DisconnectReason {
        loop {
            if let ClientEvent::Disconnected { reason, .. } = self.expect_next().await {
                return reason;
            }
        }
    }

    async fn expect_stopped(&mut self) -> StopReason {
        loop {
            if let ClientEvent::Stopped(reason) = self.expect_next().await {
                return reason;
            }
        }
    }
}

/// A state that takes nothing.
struct FullDisk;

#[derive(Debug, thiserror::Error)]
#[error("no space left")]
struct NoSpace(#[source] DiskFull);

#[derive(Debug, thiserror::Error)]
#[error("the disk is full")]
struct DiskFull;

impl LocalState for FullDisk {
    type Error = NoSpace;

    async fn load(&mut self) -> Result<Snapshot, NoSpace> {
        Ok(Snapshot { user: UserId::new("alice").ok(), ..Snapshot::default() })
    }

    async fn apply(&mut self, _: &[Change]) -> Result<(), NoSpace> {
        Err(NoSpace(DiskFull))
    }
}

async fn start(config: ClientConfig) -> (Client, Events) {
    let started: Result<_, Infallible> = Client::start(config, MemoryState::new()).await;
    started.unwrap()
}

fn normal_close() -> CloseFrame {
    CloseFrame { code: 1000.into(), reason: "".into() }
}

fn page(rid: Rid, first: u64, last: u64) -> ServerMessage {
    let page = Page {
        epoch: epoch(),
        min_seq: Seq::FIRST,
        head: seq(last),
        next_after: seq(last),
        has_more: false,
        trimmed: false,
        events: (first..=last).map(|number| entry(number, "hello")).collect(),
    };
    ServerMessage::Page { rid, conv: conv(), page }
}

fn event(number: u64) -> ServerMessage {
    event_with(number, "hello")
}

fn event_with(number: u64, text: &str) -> ServerMessage {
    ServerMessage::Event(Event { conv: conv(), epoch: epoch(), entry: entry(number, text) })
}

fn entry(number: u64, text: &str) -> Entry {
    Entry {
        seq: seq(number),
        kind: Kind::Message,
        sender: UserId::new("bob").unwrap(),
        key: None,
        ts: Timestamp::default(),
        body: body(text),
    }
}

fn conv() -> ConvId {
    ConvId::new("demo").unwrap()
}

fn body(text: &str) -> Body {
    Body::from_value(&text).unwrap()
}

fn epoch() -> Epoch {
    Epoch::new(5).unwrap()
}

fn seq(number: u64) -> Seq {
    Seq::new(number).unwrap()
}
