//! One WebSocket.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::{Sink, SinkExt, Stream};
use gapless_proto::{ClientMessage, ServerMessage, decode_server_message};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, frame::coding::CloseCode};
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::Closed;

pub(super) type TcpWebSocket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// A WebSocket that is written and read at the same time, so that two full buffers never wait for each other.
pub(super) struct Socket {
    stream: TcpWebSocket,
    unwritten: VecDeque<String>,
}

/// While more frames than this wait to be written, none is read: each may cause another.
const UNWRITTEN_MAX: usize = 128;

/// How long a polite end may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

impl Socket {
    pub(super) fn new(stream: TcpWebSocket) -> Self {
        Self { stream, unwritten: VecDeque::new() }
    }

    /// Queues a frame; [`Self::next`] and [`Self::write`] bring it out.
    pub(super) fn push(&mut self, message: &ClientMessage) {
        self.unwritten.push_back(message.encode());
    }

    /// Writes what is queued and waits for the next message. Nothing is lost if it is dropped before it is done.
    pub(super) async fn next(&mut self) -> Result<ServerMessage, Closed> {
        poll_fn(|cx| {
            let written = self.poll_write(cx);
            if self.unwritten.len() > UNWRITTEN_MAX && written.is_pending() {
                return Poll::Pending;
            }
            // A close frame that arrived says more than the write that fails because of it.
            match (self.poll_message(cx), written) {
                (Poll::Ready(read), _) => Poll::Ready(read),
                (Poll::Pending, Poll::Ready(Err(error))) => Poll::Ready(Err(network(&error))),
                (Poll::Pending, Poll::Ready(Ok(())) | Poll::Pending) => Poll::Pending,
            }
        })
        .await
    }

    /// Writes what is queued without reading, then waits for ever; ends only if the socket does.
    pub(super) async fn write(&mut self) -> Closed {
        poll_fn(|cx| match self.poll_write(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(network(&error)),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
        })
        .await
    }

    /// Writes what is queued and a close frame, if the network takes them soon.
    pub(super) async fn close(mut self) {
        let frame = CloseFrame { code: CloseCode::Normal, reason: "".into() };
        let goodbye = async {
            poll_fn(|cx| self.poll_write(cx)).await?;
            self.stream.send(Message::Close(Some(frame))).await
        };
        match timeout(CLOSE_TIMEOUT, goodbye).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "the socket was closed without a goodbye"),
            Err(_) => tracing::debug!("the socket took no goodbye"),
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), tungstenite::Error>> {
        let mut stream = std::pin::Pin::new(&mut self.stream);
        while !self.unwritten.is_empty() {
            ready!(stream.as_mut().poll_ready(cx))?;
            if let Some(frame) = self.unwritten.pop_front() {
                stream.as_mut().start_send(Message::text(frame))?;
            }
        }
        stream.poll_flush(cx)
    }

    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Result<ServerMessage, Closed>> {
        loop {
            let frame = ready!(std::pin::Pin::new(&mut self.stream).poll_next(cx));
            let message = match frame {
                Some(Ok(Message::Text(text))) => text,
                Some(Ok(Message::Close(frame))) => return Poll::Ready(Err(closed(frame))),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                Some(Ok(Message::Binary(_) | Message::Frame(_))) => {
                    return Poll::Ready(Err(unreadable("it sent a binary frame")));
                }
                Some(Err(error)) => return Poll::Ready(Err(network(&error))),
                None => return Poll::Ready(Err(closed(None))),
            };
            return Poll::Ready(
                decode_server_message(&message).map_err(|error| unreadable(&error.to_string())),
            );
        }
    }
}

fn closed(frame: Option<CloseFrame>) -> Closed {
    match frame {
        Some(frame) => Closed::ByServer { code: frame.code.into(), reason: frame.reason.to_string() },
        None => Closed::Network { message: "the server ended the connection without a reason".to_owned() },
    }
}

fn unreadable(how: &str) -> Closed {
    Closed::Network { message: format!("the server doesn't speak this protocol: {how}") }
}

/// A failure of the network, in the system's words if it has some.
pub(super) fn network(error: &tungstenite::Error) -> Closed {
    let message = match error {
        tungstenite::Error::Io(error) => error.to_string(),
        tungstenite::Error::ConnectionClosed
        | tungstenite::Error::AlreadyClosed
        | tungstenite::Error::Tls(_)
        | tungstenite::Error::Capacity(_)
        | tungstenite::Error::Protocol(_)
        | tungstenite::Error::WriteBufferFull(_)
        | tungstenite::Error::Utf8(_)
        | tungstenite::Error::AttackAttempt
        | tungstenite::Error::Url(_)
        | tungstenite::Error::Http(_)
        | tungstenite::Error::HttpFormat(_) => error.to_string(),
    };
    Closed::Network { message }
}
