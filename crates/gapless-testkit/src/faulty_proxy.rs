//! The network between a client and a server, with a switch for each way it can fail.

mod connecting;
mod link;
mod relay;
mod switchboard;

use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Sender, SyncSender};
use std::thread::{self, JoinHandle};

use anyhow::Context as _;

pub use self::link::Link;
use self::switchboard::Switchboard;

/// A TCP proxy that can delay, throttle, cut, silence and refuse connections.
///
/// One thread moves all bytes; a connection to the server is made by a thread of its own, and all end with the proxy. Each method returns after its effect: when `cut` returns, nothing is connected any
/// more, and after `blackhole(true)` not one byte passes. What is in flight is bounded by 64 KiB a direction of a
/// connection, beside the buffers of the kernel.
#[derive(Debug)]
pub struct FaultyProxy {
    address: SocketAddr,
    orders: Sender<(Order, SyncSender<Counts>)>,
    /// A byte here interrupts the thread's wait for sockets.
    wake: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl FaultyProxy {
    /// Listens on a free port of 127.0.0.1 and passes every connection on to `upstream`.
    pub fn start(upstream: SocketAddr) -> anyhow::Result<Self> {
        Self::start_over(upstream, Link::default())
    }

    /// The same over a network that is slow.
    pub fn start_over(upstream: SocketAddr, link: Link) -> anyhow::Result<Self> {
        let (wake, woken) = UnixStream::pair().context("making a pair of sockets")?;
        let waker = wake.try_clone().context("making a pair of sockets")?;
        let (orders, inbox) = mpsc::channel();
        let switchboard = Switchboard::listen(upstream, link, inbox, woken, waker)?;
        let address = switchboard.address()?;
        let thread = thread::spawn(move || switchboard.run());
        Ok(Self { address, orders, wake, thread: Some(thread) })
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends later connections to another server; those that exist stay where they are.
    pub fn set_upstream(&self, upstream: SocketAddr) {
        self.order(Order::SetUpstream(upstream));
    }

    /// Resets all connections on both sides; what was in flight is lost.
    pub fn cut(&self) {
        self.order(Order::Cut);
    }

    /// Forwards nothing in either direction while `on`, without closing anything: the network dies without a word.
    ///
    /// New connections open and stay silent. What was sent meanwhile arrives when the network comes back, unless it
    /// was cut.
    pub fn blackhole(&self, on: bool) {
        self.order(Order::Blackhole(on));
    }

    /// Swallows what the server sends while `on`, and passes on what the client sends.
    pub fn drop_replies(&self, on: bool) {
        self.order(Order::DropReplies(on));
    }

    /// Resets new connections at once while `on`; those that exist go on.
    pub fn refuse(&self, on: bool) {
        self.order(Order::Refuse(on));
    }

    /// How many connections are open now.
    pub fn connections(&self) -> usize {
        self.order(Order::Count).open
    }

    /// How many connections were accepted and passed on since the start.
    pub fn connections_total(&self) -> usize {
        self.order(Order::Count).total
    }

    /// Has the thread carry out an order, and waits until it is done.
    fn order(&self, order: Order) -> Counts {
        let (reply, done) = mpsc::sync_channel(1);
        self.orders.send((order, reply)).expect("the proxy's thread ends only with the proxy");
        (&self.wake).write_all(&[0]).expect("the proxy's thread ends only with the proxy");
        done.recv().expect("the proxy's thread answers every order")
    }
}

impl Drop for FaultyProxy {
    fn drop(&mut self) {
        self.orders = mpsc::channel().0;
        (&self.wake).write_all(&[0]).ok();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Order {
    SetUpstream(SocketAddr),
    Cut,
    Blackhole(bool),
    DropReplies(bool),
    Refuse(bool),
    Count,
}

#[derive(Debug, Clone, Copy)]
struct Counts {
    open: usize,
    total: usize,
}

#[cfg(test)]
mod tests;
