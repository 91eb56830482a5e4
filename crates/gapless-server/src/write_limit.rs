//! A connection that must take what it is given.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

/// A TCP connection whose writes fail once the peer has taken no byte for a while.
///
/// Without it, a peer that asks and doesn't read would hold its connection, and the answer, for ever.
pub(crate) struct WriteLimited {
    stream: TcpStream,
    stall_max: Duration,
    /// Runs while the peer takes nothing.
    stall: Option<Pin<Box<Sleep>>>,
}

impl WriteLimited {
    pub(crate) fn new(stream: TcpStream, stall_max: Duration) -> Self {
        Self { stream, stall_max, stall: None }
    }

    pub(crate) fn into_inner(self) -> TcpStream {
        self.stream
    }

    /// Passes on what a write came to, or fails it when the peer has taken nothing for too long.
    fn judge(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.stall = None;
            return written;
        }
        let stall_max = self.stall_max;
        let stall = self.stall.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + stall_max)));
        ready!(stall.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer took no byte for too long")))
    }
}

impl AsyncRead for WriteLimited {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for WriteLimited {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.judge(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    const STALL_MAX: Duration = Duration::from_secs(30);
    const MORE_THAN_THE_KERNEL_HOLDS: usize = 32 << 20;

    async fn connected() -> (WriteLimited, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (WriteLimited::new(listener.accept().await.unwrap().0, STALL_MAX), peer)
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_nothing_is_given_up() {
        let (mut limited, _peer) = connected().await;
        let began = Instant::now();
        let error = limited.write_all(&vec![0; MORE_THAN_THE_KERNEL_HOLDS]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() >= STALL_MAX);
    }

    #[tokio::test]
    async fn a_peer_that_takes_all_is_kept() {
        let (mut limited, mut peer) = connected().await;
        let bytes = vec![0; MORE_THAN_THE_KERNEL_HOLDS];
        let mut taken = vec![1; MORE_THAN_THE_KERNEL_HOLDS];
        let (written, read) = tokio::join!(limited.write_all(&bytes), peer.read_exact(&mut taken));
        written.unwrap();
        read.unwrap();
        assert_eq!(taken, bytes);
    }
}
