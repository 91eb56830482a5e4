//! The thread behind a proxy: one wait for all sockets.

use std::io::{ErrorKind, Read as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};
use std::time::Instant;

use anyhow::Context as _;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::connecting::Connecting;
use super::relay::{Faults, Relay, reset};
use super::{Counts, Link, Order};

/// Owns the listener and all connections of a proxy, and carries out its orders.
pub(super) struct Switchboard {
    listener: TcpListener,
    upstream: SocketAddr,
    link: Link,
    inbox: Receiver<(Order, SyncSender<Counts>)>,
    woken: UnixStream,
    connecting: Connecting,
    faults: Faults,
    refuses: bool,
    relays: Vec<Relay>,
    total: usize,
}

impl Switchboard {
    pub(super) fn listen(
        upstream: SocketAddr,
        link: Link,
        inbox: Receiver<(Order, SyncSender<Counts>)>,
        woken: UnixStream,
        waker: UnixStream,
    ) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listening for a proxy")?;
        listener.set_nonblocking(true).context("listening for a proxy")?;
        woken.set_nonblocking(true).context("listening for a proxy")?;
        let faults = Faults::default();
        let connecting = Connecting::new(waker);
        Ok(Self {
            listener,
            upstream,
            link,
            inbox,
            woken,
            connecting,
            faults,
            refuses: false,
            relays: Vec::new(),
            total: 0,
        })
    }

    pub(super) fn address(&self) -> anyhow::Result<SocketAddr> {
        self.listener.local_addr().context("reading the address of a proxy")
    }

    /// Works until the proxy that gives the orders is dropped.
    pub(super) fn run(mut self) {
        loop {
            let ready = self.wait(Instant::now());
            match self.carry_out_orders() {
                Proxy::Dropped => return,
                Proxy::Alive => {}
            }
            if ready.contains(&self.listener.as_raw_fd()) && !self.faults.blackhole {
                self.accept();
            }
            self.connect();
            let now = Instant::now();
            self.relays.retain_mut(|relay| relay.forward(self.faults, now).is_open());
        }
    }

    /// Waits until something can be moved; returns the sockets where it can.
    fn wait(&self, now: Instant) -> Vec<RawFd> {
        let mut wanted = vec![PollFd::new(self.woken.as_fd(), PollFlags::POLLIN)];
        if !self.faults.blackhole {
            wanted.push(PollFd::new(self.listener.as_fd(), PollFlags::POLLIN));
        }
        wanted.extend(self.relays.iter().flat_map(|relay| relay.wanted(self.faults, now)));
        match poll(&mut wanted, self.patience(now)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => panic!("waiting for the sockets of a proxy failed: {errno}"),
        }
        wanted
            .iter()
            .filter(|socket| socket.any().unwrap_or(false))
            .map(|socket| socket.as_fd().as_raw_fd())
            .collect()
    }

    /// How long nothing has to be moved if no socket tells of anything.
    fn patience(&self, now: Instant) -> PollTimeout {
        let arrivals = self.relays.iter().filter_map(Relay::next_arrival).filter(|arrives| *arrives > now);
        match arrivals.min() {
            // A millisecond more, since what is left of one is cut off.
            Some(arrives) if !self.faults.blackhole => {
                PollTimeout::try_from((arrives - now).as_millis() + 1).unwrap_or(PollTimeout::MAX)
            }
            Some(_) | None => PollTimeout::NONE,
        }
    }

    fn carry_out_orders(&mut self) -> Proxy {
        let mut wakes = [0; 64];
        while matches!(self.woken.read(&mut wakes), Ok(count) if count > 0) {}
        loop {
            match self.inbox.try_recv() {
                Ok((order, reply)) => {
                    self.carry_out(order);
                    reply.send(Counts { open: self.relays.len(), total: self.total }).ok();
                }
                Err(TryRecvError::Empty) => return Proxy::Alive,
                Err(TryRecvError::Disconnected) => return Proxy::Dropped,
            }
        }
    }

    fn carry_out(&mut self, order: Order) {
        match order {
            Order::SetUpstream(upstream) => self.upstream = upstream,
            Order::Cut => {
                self.connecting.cut();
                self.relays.drain(..).for_each(Relay::cut);
            }
            Order::Blackhole(on) => self.faults.blackhole = on,
            Order::DropReplies(on) => self.faults.drop_replies = on,
            Order::Refuse(on) => self.refuses = on,
            Order::Count => {}
        }
    }

    fn accept(&mut self) {
        loop {
            match self.listener.accept() {
                Ok((client, _)) if self.refuses => reset(client),
                Ok((client, _)) => self.connecting.begin(client, self.upstream),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    /// Takes in the connections that have come about.
    fn connect(&mut self) {
        for (client, server) in self.connecting.take() {
            if let Ok(relay) = Relay::new(client, server, self.link) {
                self.relays.push(relay);
                self.total += 1;
            }
        }
    }
}

enum Proxy {
    Alive,
    Dropped,
}
