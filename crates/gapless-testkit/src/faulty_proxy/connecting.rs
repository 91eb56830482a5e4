//! Connections to the server that are being made, each by a thread, so that one that takes long holds up no other.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::relay::reset;

/// The connections that aren't there yet.
#[derive(Debug)]
pub(super) struct Connecting {
    waker: Arc<UnixStream>,
    attempts: Sender<Attempt>,
    done: Receiver<Attempt>,
    threads: Vec<JoinHandle<()>>,
    /// How often all connections were cut; what began before the last time is cut, too.
    cuts: u64,
}

#[derive(Debug)]
struct Attempt {
    cuts: u64,
    client: TcpStream,
    server: Option<TcpStream>,
}

impl Connecting {
    /// None yet. `waker` takes a byte whenever one is done.
    pub(super) fn new(waker: UnixStream) -> Self {
        let (attempts, done) = mpsc::channel();
        Self { waker: Arc::new(waker), attempts, done, threads: Vec::new(), cuts: 0 }
    }

    /// Begins one for a client.
    pub(super) fn begin(&mut self, client: TcpStream, upstream: SocketAddr) {
        self.threads.retain(|thread| !thread.is_finished());
        let (attempts, waker, cuts) = (self.attempts.clone(), Arc::clone(&self.waker), self.cuts);
        self.threads.push(thread::spawn(move || {
            let server = TcpStream::connect_timeout(&upstream, PATIENCE).ok();
            // The proxy may have ended meanwhile.
            attempts.send(Attempt { cuts, client, server }).ok();
            (&*waker).write_all(&[0]).ok();
        }));
    }

    /// Those that are done, each with its client. A client whose server can't be reached is reset, as if it had tried itself.
    pub(super) fn take(&mut self) -> Vec<(TcpStream, TcpStream)> {
        let mut taken = Vec::new();
        while let Ok(Attempt { cuts, client, server }) = self.done.try_recv() {
            match server {
                Some(server) if cuts == self.cuts => taken.push((client, server)),
                Some(server) => {
                    reset(client);
                    reset(server);
                }
                None => reset(client),
            }
        }
        taken
    }

    /// Has all that have begun end.
    pub(super) fn cut(&mut self) {
        self.cuts += 1;
    }
}

impl Drop for Connecting {
    fn drop(&mut self) {
        for thread in self.threads.drain(..) {
            thread.join().ok();
        }
    }
}

/// Enough for five tries of the kernel, where packets get lost.
const PATIENCE: Duration = Duration::from_secs(30);
