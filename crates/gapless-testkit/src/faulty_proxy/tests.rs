use super::*;
use crate::free_port;
use std::io::{self, ErrorKind, Read as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

#[test]
fn bytes_and_their_end_pass_in_both_directions() {
    let echo = Echo::start();
    let proxy = FaultyProxy::start(echo.address).unwrap();
    let mut client = connect(&proxy);

    let sent: Vec<u8> = (0..1_000_000u32).map(|number| number.to_le_bytes()[0]).collect();
    let writer = thread::spawn({
        let mut client = client.try_clone().unwrap();
        let sent = sent.clone();
        move || {
            client.write_all(&sent).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
        }
    });
    let mut echoed = Vec::new();
    client.read_to_end(&mut echoed).unwrap();
    writer.join().unwrap();

    assert!(echoed == sent);
    assert_eq!(proxy.connections(), 0);
    assert_eq!(proxy.connections_total(), 1);
}

#[test]
fn a_cut_resets_both_sides_and_lets_new_connections_in() {
    let echo = Echo::start();
    let proxy = FaultyProxy::start(echo.address).unwrap();
    let mut first = connect(&proxy);
    echoes(&mut first, "one");
    assert_eq!(proxy.connections(), 1);

    proxy.cut();
    assert_eq!(proxy.connections(), 0);
    assert_eq!(read_failure(&mut first), ErrorKind::ConnectionReset);
    assert_eq!(echo.ends.recv().unwrap(), Err(ErrorKind::ConnectionReset));

    echoes(&mut connect(&proxy), "two");
}

#[test]
fn a_blackhole_passes_nothing_and_closes_nothing() {
    let echo = Echo::start();
    let proxy = FaultyProxy::start(echo.address).unwrap();
    let mut client = connect(&proxy);
    echoes(&mut client, "one");

    proxy.blackhole(true);
    client.write_all(b"two").unwrap();
    let mut late = connect(&proxy);
    late.write_all(b"three").unwrap();
    let_pass(&proxy);
    assert!(hears_nothing(&client));
    assert!(hears_nothing(&late));
    assert_eq!(proxy.connections(), 1);

    proxy.blackhole(false);
    hears(&mut client, "two");
    hears(&mut late, "three");
}

#[test]
fn a_cut_in_a_blackhole_loses_what_was_sent() {
    let echo = Echo::start();
    let proxy = FaultyProxy::start(echo.address).unwrap();
    let mut client = connect(&proxy);
    echoes(&mut client, "one");

    proxy.blackhole(true);
    client.write_all(b"two").unwrap();
    let_pass(&proxy);
    proxy.cut();
    proxy.blackhole(false);
    assert_eq!(read_failure(&mut client), ErrorKind::ConnectionReset);
    assert_eq!(echo.ends.recv().unwrap(), Err(ErrorKind::ConnectionReset));
    assert_eq!(echo.bytes_heard(), "one".len());
}

#[test]
fn dropped_replies_are_gone_for_ever_while_requests_arrive() {
    let echo = Echo::start();
    let proxy = FaultyProxy::start(echo.address).unwrap();
    let mut client = connect(&proxy);
    echoes(&mut client, "one");

    proxy.drop_replies(true);
    client.write_all(b"two").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    hears_the_end(&mut client);
    assert_eq!(echo.ends.recv().unwrap(), Ok(()));
    assert_eq!(echo.bytes_heard(), "onetwo".len());
}

#[test]
fn refused_clients_are_reset_while_others_go_on() {
    let echo = Echo::start();
    let proxy = FaultyProxy::start(echo.address).unwrap();
    let mut first = connect(&proxy);
    echoes(&mut first, "one");

    proxy.refuse(true);
    assert_eq!(read_failure(&mut connect(&proxy)), ErrorKind::ConnectionReset);
    echoes(&mut first, "two");
    assert_eq!(proxy.connections_total(), 1);

    proxy.refuse(false);
    echoes(&mut connect(&proxy), "three");
}

#[test]
fn later_connections_go_to_the_new_upstream_and_old_ones_stay() {
    let (old, new) = (Echo::start(), Echo::start());
    let proxy = FaultyProxy::start(old.address).unwrap();
    let mut first = connect(&proxy);
    echoes(&mut first, "one");

    proxy.set_upstream(new.address);
    echoes(&mut connect(&proxy), "three");
    echoes(&mut first, "two");
    assert_eq!((old.bytes_heard(), new.bytes_heard()), (6, 5));
}

#[test]
fn a_client_of_a_server_that_is_gone_is_reset() {
    // The kernel gives no such port to the proxy, which would then be its own server.
    let proxy = FaultyProxy::start(SocketAddr::from(([127, 0, 0, 1], free_port()))).unwrap();
    assert_eq!(read_failure(&mut connect(&proxy)), ErrorKind::ConnectionReset);
}

#[test]
fn a_slow_link_delays_both_directions_and_loses_nothing() {
    let echo = Echo::start();
    let delay = Duration::from_millis(40);
    let link = Link { delay, bytes_per_second: Some(1_000_000), resent_every: Some(3) };
    let proxy = FaultyProxy::start_over(echo.address, link).unwrap();
    let mut client = connect(&proxy);
    let begun = Instant::now();
    echoes(&mut client, "one");
    assert!(begun.elapsed() >= 2 * delay, "{:?}", begun.elapsed());

    let sent: Vec<u8> = (0..100_000u32).map(|number| number.to_le_bytes()[0]).collect();
    let begun = Instant::now();
    client.write_all(&sent).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut echoed = Vec::new();
    client.read_to_end(&mut echoed).unwrap();
    assert!(echoed == sent);
    assert!(begun.elapsed() >= Duration::from_millis(100), "it is as narrow as it should be");
}

#[test]
fn a_dropped_proxy_closes_its_connections() {
    let echo = Echo::start();
    let proxy = FaultyProxy::start(echo.address).unwrap();
    let mut client = connect(&proxy);
    echoes(&mut client, "one");
    drop(proxy);
    hears_the_end(&mut client);
}

fn connect(proxy: &FaultyProxy) -> TcpStream {
    TcpStream::connect(proxy.address()).unwrap()
}

/// Returns after the proxy has moved all that it would move now; it moves bytes after each order.
fn let_pass(proxy: &FaultyProxy) {
    proxy.connections();
    proxy.connections();
}

fn echoes(client: &mut TcpStream, text: &str) {
    client.write_all(text.as_bytes()).unwrap();
    hears(client, text);
}

fn hears(client: &mut TcpStream, text: &str) {
    let mut heard = vec![0; text.len()];
    client.read_exact(&mut heard).unwrap();
    assert_eq!(heard, text.as_bytes());
}

fn hears_the_end(client: &mut TcpStream) {
    assert_eq!(client.read(&mut [0; 16]).unwrap(), 0);
}

fn hears_nothing(client: &TcpStream) -> bool {
    client.set_nonblocking(true).unwrap();
    let nothing =
        (&mut &*client).read(&mut [0; 16]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
    client.set_nonblocking(false).unwrap();
    nothing
}

fn read_failure(client: &mut TcpStream) -> ErrorKind {
    client.read(&mut [0; 16]).unwrap_err().kind()
}

/// A server that sends back what it hears, and tells how each connection ended.
struct Echo {
    address: SocketAddr,
    ends: mpsc::Receiver<Result<(), ErrorKind>>,
    heard: Arc<AtomicUsize>,
}

impl Echo {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (end, ends) = mpsc::channel();
        let heard = Arc::<AtomicUsize>::default();
        thread::spawn({
            let heard = heard.clone();
            move || {
                for client in listener.incoming() {
                    let (end, heard) = (end.clone(), heard.clone());
                    thread::spawn(move || {
                        end.send(echo(client.unwrap(), &heard).map_err(|error| error.kind()))
                    });
                }
            }
        });
        Self { address, ends, heard }
    }

    fn bytes_heard(&self) -> usize {
        self.heard.load(Ordering::SeqCst)
    }
}

fn echo(mut client: TcpStream, heard: &AtomicUsize) -> io::Result<()> {
    let mut chunk = [0; 4096];
    loop {
        let count = client.read(&mut chunk)?;
        if count == 0 {
            return Ok(());
        }
        heard.fetch_add(count, Ordering::SeqCst);
        client.write_all(&chunk[..count])?;
    }
}
