//! A bare, blocking WebSocket that speaks the protocol to a server process.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use gapless_proto::{Entry, ServerMessage, decode_server_message};
use gapless_testkit::poll_until;
use tokio_tungstenite::tungstenite::client::{IntoClientRequest as _, client};
use tokio_tungstenite::tungstenite::{Error, Message, WebSocket};

/// One connection to a server that lets everyone in.
pub(crate) struct Client(WebSocket<TcpStream>);

/// How long anything may take that has to happen.
const PATIENCE: Duration = Duration::from_secs(60);

impl Client {
    /// Connects, and waits for the welcome.
    pub(crate) fn connect(server: SocketAddr, user: &str) -> Option<Self> {
        let request = format!("ws://{server}/v1/ws?user={user}").into_client_request().unwrap();
        let stream = TcpStream::connect(server).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut connected = Self(client(request, stream).ok()?.0);
        match connected.next()? {
            ServerMessage::Welcome(_) => Some(connected),
            other => panic!("expected a welcome first, got {other:?}"),
        }
    }

    /// Connects as soon as the server lets us in.
    pub(crate) fn connect_at_last(server: SocketAddr, user: &str) -> Self {
        let connected = poll_until(PATIENCE, || Ok(Self::connect(server, user))).unwrap();
        connected.expect("the server lets nobody in")
    }

    /// Sends a message without waiting for the answer; its rid is `number`.
    pub(crate) fn send(&mut self, conv: &str, key: &str, number: usize, text: &str) -> Result<(), Error> {
        let frame = format!(r#"{{"t":"send","rid":{number},"conv":"{conv}","key":"{key}","body":"{text}"}}"#);
        self.tell(Message::text(frame))
    }

    pub(crate) fn tell(&mut self, message: Message) -> Result<(), Error> {
        self.0.send(message)
    }

    /// The next frame; `None` once the connection has ended.
    pub(crate) fn next(&mut self) -> Option<ServerMessage> {
        loop {
            match self.0.read().ok()? {
                Message::Text(text) => return Some(decode_server_message(&text).unwrap()),
                Message::Close(_) => return None,
                _ => {}
            }
        }
    }

    /// Everything that the user may see of a conversation.
    pub(crate) fn read_all(&mut self, conv: &str) -> Vec<Entry> {
        let mut entries = Vec::new();
        let mut after = 0;
        loop {
            let frame = format!(r#"{{"t":"sync","rid":1,"conv":"{conv}","after":{after},"limit":200}}"#);
            self.tell(Message::text(frame)).unwrap();
            let page = loop {
                match self.next().expect("the connection lasts") {
                    ServerMessage::Page { page, .. } => break page,
                    ServerMessage::Error(error) => panic!("no page: {error:?}"),
                    _ => {}
                }
            };
            entries.extend(page.events);
            after = page.next_after.get();
            if !page.has_more {
                return entries;
            }
        }
    }

    /// The connection below.
    pub(crate) fn stream(&self) -> &TcpStream {
        self.0.get_ref()
    }
}
