//! One proxied connection: bytes in both directions, until both have ended or one fails.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd as _;
use std::time::Instant;

use nix::libc;
use nix::poll::{PollFd, PollFlags};
use nix::sys::socket::{setsockopt, sockopt};

use super::link::{Link, Schedule};

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
    link: Link,
    requests: Pipe,
    replies: Pipe,
}

impl Relay {
    pub(super) fn new(client: TcpStream, server: TcpStream, link: Link) -> io::Result<Self> {
        for stream in [&client, &server] {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
        }
        Ok(Self { client, server, link, requests: Pipe::default(), replies: Pipe::default() })
    }

    /// The sockets to wait for; one that nothing is wanted of is left out, since its end would be reported for ever.
    pub(super) fn wanted(&self, faults: Faults, now: Instant) -> impl Iterator<Item = PollFd<'_>> {
        let client = wanted_of(&self.requests, &self.replies, faults, now);
        let server = wanted_of(&self.replies, &self.requests, faults, now);
        [(&self.client, client), (&self.server, server)]
            .into_iter()
            .filter(|(_, flags)| !flags.is_empty())
            .map(|(stream, flags)| PollFd::new(stream.as_fd(), flags))
    }

    /// When something arrives that is still on its way.
    pub(super) fn next_arrival(&self) -> Option<Instant> {
        [&self.requests, &self.replies].into_iter().filter_map(Pipe::next_arrival).min()
    }

    /// Moves what can be moved without waiting. A connection that failed on one side is reset on the other.
    pub(super) fn forward(&mut self, faults: Faults, now: Instant) -> Connection {
        if faults.blackhole {
            return Connection::Open;
        }
        let Self { client, server, link, requests, replies } = self;
        let moved = requests.forward(client, server, *link, Fate::Deliver, now).and_then(|()| {
            let fate = if faults.drop_replies { Fate::Swallow } else { Fate::Deliver };
            replies.forward(server, client, *link, fate, now)
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

fn wanted_of(read: &Pipe, written: &Pipe, faults: Faults, now: Instant) -> PollFlags {
    let mut flags = PollFlags::empty();
    flags.set(PollFlags::POLLIN, read.has_room() && !faults.blackhole);
    flags.set(PollFlags::POLLOUT, written.has_arrived(now) && !faults.blackhole);
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
    pieces: VecDeque<Piece>,
    bytes: usize,
    schedule: Schedule,
    state: State,
}

/// Bytes on their way.
#[derive(Debug)]
struct Piece {
    arrives: Instant,
    bytes: Vec<u8>,
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
    fn forward(
        &mut self,
        mut from: &TcpStream,
        to: &TcpStream,
        link: Link,
        fate: Fate,
        now: Instant,
    ) -> io::Result<()> {
        let mut chunk = vec![0; link.piece_bytes_max()];
        while self.has_room() {
            let Some(count) = unless_blocked(from.read(&mut chunk))? else {
                break;
            };
            match (count, fate) {
                (0, _) => self.state = State::Ending,
                (_, Fate::Swallow) => {}
                (_, Fate::Deliver) => {
                    let arrives = self.schedule.arrival(link, count, now);
                    self.bytes += count;
                    self.pieces.push_back(Piece { arrives, bytes: chunk[..count].to_vec() });
                }
            }
        }
        if fate == Fate::Swallow {
            self.pieces.clear();
            self.bytes = 0;
        }
        self.flush(to, now)
    }

    fn flush(&mut self, mut to: &TcpStream, now: Instant) -> io::Result<()> {
        while let Some(piece) = self.pieces.front_mut().filter(|piece| piece.arrives <= now) {
            let Some(count) = unless_blocked(to.write(&piece.bytes))? else {
                return Ok(());
            };
            piece.bytes.drain(..count);
            self.bytes -= count;
            if piece.bytes.is_empty() {
                self.pieces.pop_front();
            }
        }
        if self.state == State::Ending && self.pieces.is_empty() {
            self.state = State::Finished;
            to.shutdown(Shutdown::Write)?;
        }
        Ok(())
    }

    fn has_room(&self) -> bool {
        self.state == State::Flowing && self.bytes < BYTES_MAX
    }

    fn has_arrived(&self, now: Instant) -> bool {
        self.next_arrival().is_some_and(|arrives| arrives <= now)
    }

    fn next_arrival(&self) -> Option<Instant> {
        self.pieces.front().map(|piece| piece.arrives)
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
