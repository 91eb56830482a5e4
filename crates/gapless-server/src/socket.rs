//! One WebSocket: frames in, frames out, and how far the peer takes what it is given.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::{Sink, SinkExt as _, Stream};
use gapless_proto::CloseCode;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode as WebSocketCode, Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::frame::{CloseFrame, FrameHeader};
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

/// The text of a frame. A clone is one reference count.
pub(crate) type Frame = Utf8Bytes;

/// What each connection keeps for reading. One that has sent a larger frame keeps room for that.
const READ_BUFFER_BYTES: usize = 4 << 10;
/// How much is handed to the kernel in one go.
const BATCH_BYTES_MAX: usize = 32 << 10;
const BATCH_FRAMES_MAX: usize = 64;
/// How long a peer may take to read its last frames and the reason why it is closed.
const CLOSE_PATIENCE: Duration = Duration::from_secs(2);

/// A WebSocket after its handshake.
///
/// Frames are written from here and not through tungstenite, which would copy each of them into a buffer that it keeps for as
/// long as the connection lasts. Its own control frames (a pong, a close) go out whole before anything of ours: reading,
/// which is what makes it write them, happens only while nothing of ours is half written.
pub(crate) struct Socket {
    stream: WebSocketStream<TcpStream>,
    batch: VecDeque<Outgoing>,
    batch_bytes: usize,
    /// How much of the batch's first frame is written.
    written: usize,
    /// How many bytes the kernel has taken since the beginning.
    taken: u64,
}

struct Outgoing {
    header: [u8; HEADER_BYTES_MAX],
    header_bytes: usize,
    frame: Frame,
}

/// Of a frame that a server sends: it has no mask.
const HEADER_BYTES_MAX: usize = 10;

/// What came from the peer.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// A frame.
    Text(Utf8Bytes),
    /// A ping or pong of the WebSocket layer, which answers them itself.
    SignOfLife,
    /// Something that ends the connection.
    Refused(CloseCode),
    /// The peer is gone.
    HangUp,
}

impl Socket {
    /// Takes over a connection whose handshake is done; `read_already` is what came after the handshake.
    pub(crate) async fn new(stream: TcpStream, read_already: Vec<u8>, frame_bytes_max: usize) -> Self {
        let mut config = WebSocketConfig::default();
        config.read_buffer_size = READ_BUFFER_BYTES;
        config.write_buffer_size = 0;
        config.max_write_buffer_size = 1 << 10;
        config.max_message_size = Some(frame_bytes_max);
        config.max_frame_size = Some(frame_bytes_max);
        Self {
            stream: WebSocketStream::from_partially_read(stream, read_already, Role::Server, Some(config))
                .await,
            batch: VecDeque::new(),
            batch_bytes: 0,
            written: 0,
            taken: 0,
        }
    }

    /// Adds a frame to what is written next. Call it while there is room.
    pub(crate) fn push(&mut self, frame: Frame) {
        let outgoing = Outgoing::new(frame);
        self.batch_bytes += outgoing.len();
        self.batch.push_back(outgoing);
    }

    /// Whether the batch takes another frame.
    pub(crate) fn has_room(&self) -> bool {
        self.batch.len() < BATCH_FRAMES_MAX && self.batch_bytes < BATCH_BYTES_MAX
    }

    /// How many bytes the kernel has taken since the beginning.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Writes the batch; ready once the kernel has taken all of it.
    pub(crate) fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        while !self.batch.is_empty() {
            let taken = ready!(self.poll_write_some(context))?;
            if taken == 0 {
                return Poll::Ready(Err(io::Error::from(io::ErrorKind::WriteZero).into()));
            }
            self.advance(taken);
        }
        // An idle connection keeps no memory of its last burst.
        self.batch = VecDeque::new();
        Poll::Ready(Ok(()))
    }

    /// Waits for the next thing from the peer. Call it only after [`Self::poll_write`] was ready.
    pub(crate) fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<Incoming> {
        let polled = Pin::new(&mut self.stream).poll_next(context);
        let incoming = match ready!(polled) {
            Some(Ok(Message::Text(text))) => Incoming::Text(text),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => Incoming::SignOfLife,
            Some(Ok(Message::Binary(_) | Message::Frame(_))) => Incoming::Refused(CloseCode::ProtocolError),
            Some(Ok(Message::Close(_))) | None => Incoming::HangUp,
            Some(Err(error)) => refused(&error),
        };
        Poll::Ready(incoming)
    }

    /// Says why, and closes; gives the peer 2 s to take what is written already, the reason, and to close its side.
    ///
    /// What it sends meanwhile is read and dropped: closing a connection on which something is unread resets it, and the peer
    /// would never see the reason.
    pub(crate) async fn close(mut self, code: CloseCode) {
        let closed = timeout(CLOSE_PATIENCE, self.close_in_peace(code)).await;
        if !matches!(closed, Ok(Ok(()))) {
            // Otherwise the kernel would keep what the peer doesn't take, for minutes. That it is gone already is all right.
            let _ = self.stream.get_ref().set_zero_linger();
        }
    }

    /// Lets the peer's own close frame be answered.
    pub(crate) async fn finish(mut self) {
        let _ = timeout(CLOSE_PATIENCE, self.stream.flush()).await;
    }

    async fn close_in_peace(&mut self, code: CloseCode) -> Result<(), Error> {
        std::future::poll_fn(|context| self.poll_write(context)).await?;
        let reason = Utf8Bytes::from_static(code.reason());
        self.stream.close(Some(CloseFrame { code: WebSocketCode::from(code.number()), reason })).await?;
        let stream = self.stream.get_mut();
        stream.shutdown().await?;
        let mut unread = vec![0; READ_BUFFER_BYTES];
        loop {
            let mut buffer = ReadBuf::new(&mut unread);
            std::future::poll_fn(|context| Pin::new(&mut *stream).poll_read(context, &mut buffer)).await?;
            if buffer.filled().is_empty() {
                return Ok(());
            }
        }
    }

    fn poll_write_some(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut slices = [IoSlice::new(&[]); 2 * BATCH_FRAMES_MAX];
        let mut passed = self.written;
        for (outgoing, pair) in self.batch.iter().zip(slices.chunks_exact_mut(2)) {
            let [header, text] = outgoing.rest(passed);
            pair[0] = IoSlice::new(header);
            pair[1] = IoSlice::new(text);
            passed = 0;
        }
        let filled = 2 * self.batch.len().min(BATCH_FRAMES_MAX);
        Pin::new(self.stream.get_mut()).poll_write_vectored(context, &slices[..filled])
    }

    fn advance(&mut self, taken: usize) {
        self.taken += taken as u64;
        self.written += taken;
        while let Some(first) = self.batch.front()
            && self.written >= first.len()
        {
            self.written -= first.len();
            self.batch_bytes -= first.len();
            self.batch.pop_front();
        }
    }
}

impl Outgoing {
    fn new(frame: Frame) -> Self {
        let described = FrameHeader { opcode: OpCode::Data(Data::Text), ..FrameHeader::default() };
        let mut header = [0; HEADER_BYTES_MAX];
        let mut unused = &mut header[..];
        described
            .format(frame.len() as u64, &mut unused)
            .expect("a header without mask has at most 10 bytes");
        let header_bytes = HEADER_BYTES_MAX - unused.len();
        Self { header, header_bytes, frame }
    }

    fn len(&self) -> usize {
        self.header_bytes + self.frame.len()
    }

    /// Header and text without their first `passed` bytes.
    fn rest(&self, passed: usize) -> [&[u8]; 2] {
        let header = &self.header[..self.header_bytes];
        let of_header = passed.min(header.len());
        [&header[of_header..], &self.frame.as_bytes()[passed - of_header..]]
    }
}

/// What an error of the WebSocket layer means.
fn refused(error: &Error) -> Incoming {
    match error {
        Error::Capacity(_) => Incoming::Refused(CloseCode::TooLarge),
        Error::Utf8(_) => Incoming::Refused(CloseCode::ProtocolError),
        Error::Protocol(
            tokio_tungstenite::tungstenite::error::ProtocolError::ResetWithoutClosingHandshake,
        ) => Incoming::HangUp,
        Error::Protocol(_) | Error::AttackAttempt => Incoming::Refused(CloseCode::ProtocolError),
        Error::ConnectionClosed
        | Error::AlreadyClosed
        | Error::Io(_)
        | Error::Tls(_)
        | Error::WriteBufferFull(_)
        | Error::Url(_)
        | Error::Http(_)
        | Error::HttpFormat(_) => Incoming::HangUp,
    }
}
