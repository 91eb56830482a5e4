//! Peers that take nothing cost the server nothing, and others don't notice.

use std::thread;
use std::time::{Duration, Instant};

use gapless_proto::ServerMessage;
use gapless_testkit::Gateway;
use tempfile::TempDir;
use tokio_tungstenite::tungstenite::{Bytes, Message};

use crate::command::{admin, serve};
use crate::websocket::Client;

// Behaviour 18
#[test]
fn a_reader_that_stops_reading_costs_bounded_memory_and_nobody_waits_for_it() {
    const ALONE: usize = 10_000;
    const TOGETHER: usize = 100_000;
    let folder = TempDir::new().unwrap();
    let server = serve(
        &folder,
        &["--auth", "open", "--set", "delivery.write_stall_max=1h", "--set", "heartbeat.ping_after=1h"],
    );
    admin(&server, &["create", "c", "--creator", "alice", "--member", "bob", "--member", "carol"]).printed();

    let alone = send_and_watch(&server, 0..ALONE);
    let before = server.resident_bytes().unwrap();
    let mut stuck = Client::connect_at_last(server.address(), "bob");
    let beside_a_stuck_reader = send_and_watch(&server, ALONE..ALONE + TOGETHER);
    let after = server.resident_bytes().unwrap();

    let grown = after.saturating_sub(before);
    assert!(grown < 32 << 20, "memory grew by {grown} bytes from {before}");
    assert!(
        beside_a_stuck_reader < alone * 3 + Duration::from_millis(20),
        "a push took {beside_a_stuck_reader:?} beside a reader that is stuck, and {alone:?} without"
    );
    let (seen, hints) = read_what_was_pushed(&mut stuck);
    assert_eq!(hints, [(3 + ALONE + TOGETHER) as u64], "of which it had seen up to {seen}");
    assert_eq!(stuck.read_all("c").len(), 2 + ALONE + TOGETHER);
}

/// Alice sends, carol reads. Returns how long after the acknowledgement half of the messages were with carol.
fn send_and_watch(server: &Gateway, numbers: std::ops::Range<usize>) -> Duration {
    let address = server.address();
    let count = numbers.len();
    let mut carol = Client::connect_at_last(address, "carol");
    let reader = thread::spawn(move || {
        let mut pushed = Vec::new();
        while pushed.len() < count {
            if let ServerMessage::Event(_) = carol.next().expect("carol stays connected") {
                pushed.push(Instant::now());
            }
        }
        pushed
    });
    let mut alice = Client::connect_at_last(address, "alice");
    let mut acknowledged = Vec::new();
    let mut to_send = numbers;
    for number in to_send.by_ref().take(60) {
        alice.send("c", &format!("k{number}"), number, "a message of an ordinary length").unwrap();
    }
    while acknowledged.len() < count {
        if let ServerMessage::Sent(_) = alice.next().expect("alice stays connected") {
            acknowledged.push(Instant::now());
            if let Some(number) = to_send.next() {
                alice.send("c", &format!("k{number}"), number, "a message of an ordinary length").unwrap();
            }
        }
    }
    let pushed = reader.join().unwrap();
    let mut times: Vec<_> =
        acknowledged.iter().zip(&pushed).map(|(sent, seen)| seen.saturating_duration_since(*sent)).collect();
    times.sort_unstable();
    times[times.len() / 2]
}

/// The last of the entries that the kernels had taken for a reader, and the hints after that.
fn read_what_was_pushed(stuck: &mut Client) -> (u64, Vec<u64>) {
    let (mut seen, mut hints) = (0, Vec::new());
    loop {
        match stuck.next().expect("the connection lasts") {
            ServerMessage::Event(event) => seen = event.entry.seq.get(),
            ServerMessage::Hint { head, .. } => {
                hints.push(head.get());
                // Whatever else waited for the socket comes before the answer.
                stuck.tell(Message::text(r#"{"t":"ping"}"#)).unwrap();
            }
            ServerMessage::Pong => return (seen, hints),
            other => panic!("unexpected {other:?}"),
        }
    }
}

// Behaviour 19
#[test]
fn a_million_requests_whose_answers_nobody_takes_cost_nothing() {
    let folder = TempDir::new().unwrap();
    let server = serve(&folder, &["--auth", "open"]);
    admin(&server, &["create", "c", "--creator", "alice"]).printed();
    let mut alice = Client::connect_at_last(server.address(), "alice");
    let text = "x".repeat(10_000);
    for number in 0..200 {
        alice.send("c", &format!("k{number}"), number, &text).unwrap();
        while !matches!(alice.next(), Some(ServerMessage::Sent(_))) {}
    }
    alice.read_all("c");
    drop(alice);
    let before = server.resident_bytes().unwrap();

    let sync = Message::text(r#"{"t":"sync","rid":1,"conv":"c","after":0,"limit":200}"#);
    let ping = Message::Ping(Bytes::from_static(&[b'x'; 125]));
    let garbage = Message::text("?");
    let _greedy: Vec<_> = [sync, ping, garbage].into_iter().map(|request| flood(&server, &request)).collect();

    let grown = server.resident_bytes().unwrap().saturating_sub(before);
    assert!(grown < 24 << 20, "memory grew by {grown} bytes from {before}");
}

/// Sends a request again and again without reading, until the server has taken a million or takes no more.
fn flood(server: &Gateway, request: &Message) -> Client {
    let mut greedy = Client::connect_at_last(server.address(), "alice");
    greedy.stream().set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    let taken = (0..1_000_000).take_while(|_| greedy.tell(request.clone()).is_ok()).count();
    assert!(taken < 1_000_000, "the server reads on though nobody takes its answers");
    greedy
}

#[test]
fn an_idle_connection_costs_at_most_12_kib() {
    let folder = TempDir::new().unwrap();
    let server = serve(&folder, &["--auth", "open"]);
    let connect = |number| Client::connect_at_last(server.address(), &format!("user-{number}"));
    let _first: Vec<_> = (0..100).map(connect).collect();
    let before = server.resident_bytes().unwrap();

    let idle: Vec<_> = (100..1_100).map(connect).collect();

    let grown = server.resident_bytes().unwrap().saturating_sub(before);
    assert!(grown <= idle.len() as u64 * (12 << 10), "{} connections cost {grown} bytes", idle.len());
}
