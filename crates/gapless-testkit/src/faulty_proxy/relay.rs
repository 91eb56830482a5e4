//! One proxied connection: bytes in both directions, until both have ended or one fails.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd as _;

use nix::libc;
use nix::poll::{PollFd, PollFlags};
use nix::sys::socket::{setsockopt, sockopt};

/// What is wrong with the network at the moment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Faults {
    pub(super) blackhole: bool,
    pub(super) drop_replies: bool,
}

/// A connection of a client, and the one to the server that was made for it.
pub(super) struct Relay {
    client: TcpStream,
    server: TcpStream,
    requests: Pipe,
    replies: Pipe,
}

impl Relay {
    pub(super) fn new(client: TcpStream, server: TcpStream) -> io::Result<Self> {
        for stream in [&client, &server] {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
        }
        Ok(Self { client, server, requests: Pipe::default(), replies: Pipe::default() })
    }

    /// The sockets to wait for; one that nothing is wanted of is left out, since its end would be reported for ever.
    pub(super) fn wanted(&self, faults: Faults) -> impl Iterator<Item = PollFd<'_>> {
        let client = wanted_of(&self.requests, &self.replies, faults);
        let server = wanted_of(&self.replies, &self.requests, faults);
        [(&self.client, client), (&self.server, server)]
            .into_iter()
            .filter(|(_, flags)| !flags.is_empty())
            .map(|(stream, flags)| PollFd::new(stream.as_fd(), flags))
    }

    /// Moves what can be moved without waiting. A connection that failed on one side is reset on the other.
    pub(super) fn forward(&mut self, faults: Faults) -> Connection {
        if faults.blackhole {
            return Connection::Open;
        }
        let moved = self.requests.forward(&self.client, &self.server, Fate::Deliver).and_then(|()| {
            let fate = if faults.drop_replies { Fate::Swallow } else { Fate::Deliver };
            self.replies.forward(&self.server, &self.client, fate)
        });
        match moved {
            Ok(()) if self.requests.is_finished() && self.replies.is_finished() => Connection::Closed,
            Ok(()) => Connection::Open,
            Err(_) => {
                linger_not(&self.client);
                linger_not(&self.server);
                Connection::Closed
            }
        }
    }

    pub(super) fn cut(self) {
        reset(self.client);
        reset(self.server);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Connection {
    Open,
    Closed,
}

impl Connection {
    pub(super) fn is_open(self) -> bool {
        self == Self::Open
    }
}

/// Closes a connection so that the peer's next read or write fails.
pub(super) fn reset(stream: TcpStream) {
    linger_not(&stream);
    drop(stream);
}

fn linger_not(stream: &TcpStream) {
    setsockopt(stream, sockopt::Linger, &libc::linger { l_onoff: 1, l_linger: 0 }).ok();
}

fn wanted_of(read: &Pipe, written: &Pipe, faults: Faults) -> PollFlags {
    let mut flags = PollFlags::empty();
    flags.set(PollFlags::POLLIN, read.has_room() && !faults.blackhole);
    flags.set(PollFlags::POLLOUT, written.has_bytes() && !faults.blackhole);
    flags
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Deliver,
    Swallow,
}

/// The bytes of one direction that were read and not yet written.
#[derive(Debug, Default)]
struct Pipe {
    bytes: Vec<u8>,
    state: State,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Flowing,
    /// The sender has ended; what is buffered must still be written.
    Ending,
    Finished,
}

impl Pipe {
    fn forward(&mut self, mut from: &TcpStream, to: &TcpStream, fate: Fate) -> io::Result<()> {
        let mut chunk = [0; 16 * 1024];
        while self.has_room() {
            let Some(count) = unless_blocked(from.read(&mut chunk))? else {
                break;
            };
            match (count, fate) {
                (0, _) => self.state = State::Ending,
                (_, Fate::Swallow) => {}
                (_, Fate::Deliver) => self.bytes.extend_from_slice(&chunk[..count]),
            }
        }
        if fate == Fate::Swallow {
            self.bytes.clear();
        }
        self.flush(to)
    }

    fn flush(&mut self, mut to: &TcpStream) -> io::Result<()> {
        while self.has_bytes() {
            let Some(count) = unless_blocked(to.write(&self.bytes))? else {
                return Ok(());
            };
            self.bytes.drain(..count);
        }
        if self.state == State::Ending {
            self.state = State::Finished;
            to.shutdown(Shutdown::Write)?;
        }
        Ok(())
    }

    fn has_room(&self) -> bool {
        self.state == State::Flowing && self.bytes.len() < BYTES_MAX
    }

    fn has_bytes(&self) -> bool {
        !self.bytes.is_empty()
    }

    fn is_finished(&self) -> bool {
        self.state == State::Finished
    }
}

fn unless_blocked(moved: io::Result<usize>) -> io::Result<Option<usize>> {
    match moved {
        Ok(count) => Ok(Some(count)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}

const BYTES_MAX: usize = 48 * 1024;
