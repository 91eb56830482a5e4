//! `04-control-drop-oldest`

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpSocket;
use tokio::time::timeout;

use crate::chain::PATIENCE;
use crate::elapse::elapse;
use crate::finding::{Check, Outcome};
use crate::moment;
use crate::push_server::{Ask, Line, PushServer};

/// How many lines may wait for a client; when more do, the oldest go.
const QUEUE_MAX: usize = 64;
const EVENTS: u64 = 2_000;
/// So long that the kernel holds only some of them.
const PADDING_BYTES: usize = 16 << 10;
const BUFFER_BYTES: u32 = 8 << 10;
/// How many events the client has seen when it stops reading for a while.
const SEEN_BEFORE: u64 = 5;

pub(super) async fn run() -> anyhow::Result<Outcome> {
    let server = PushServer::start(QUEUE_MAX).await?;
    let (numbers, errors) = read_late(&server, server.address()).await?;
    server.stop().await;
    let holes: u64 = numbers.windows(2).map(|pair| pair[1] - pair[0] - 1).sum();
    Ok(vec![
        Check::exactly("connections lost, or anything else that a client could notice", 0, errors),
        Check::exactly("newest event that it holds", EVENTS - 1, numbers.last().copied()),
        Check::at_least("events before it that it misses", 1, holes),
    ]
    .into())
}

/// Reads some, then nothing while more comes than may wait, then the rest. Returns the numbers that came.
async fn read_late(server: &PushServer, address: SocketAddr) -> anyhow::Result<(Vec<u64>, u64)> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(BUFFER_BYTES)?;
    let mut stream = BufReader::new(socket.connect(address).await?);
    stream.write_all(format!("{}\n", serde_json::to_string(&Ask::Push)?).as_bytes()).await?;
    let mut lines = stream.lines();
    let mut numbers = Vec::new();
    let mut pushed = 0;
    // Until the server has taken the question, nothing is pushed to this client.
    while numbers.is_empty() {
        push(server, pushed);
        pushed += 1;
        if let Ok(line) = timeout(Duration::from_millis(20), lines.next_line()).await {
            numbers.extend(number_of(&line?.context("the server ended the connection")?)?);
        }
    }
    while (numbers.len() as u64) < SEEN_BEFORE {
        push(server, pushed);
        pushed += 1;
        numbers.extend(next_number(&mut lines).await?);
    }
    for number in pushed..EVENTS {
        push(server, number);
        // The server gets a turn, and so each line its chance.
        if number.is_multiple_of(QUEUE_MAX as u64 / 2) {
            elapse(Duration::from_millis(2)).await;
        }
    }
    let mut errors = 0;
    while numbers.last() != Some(&(EVENTS - 1)) {
        match next_number(&mut lines).await {
            Ok(number) => numbers.extend(number),
            Err(_) => {
                errors += 1;
                break;
            }
        }
    }
    Ok((numbers, errors))
}

async fn next_number(
    lines: &mut tokio::io::Lines<BufReader<tokio::net::TcpStream>>,
) -> anyhow::Result<Option<u64>> {
    let line = timeout(PATIENCE, lines.next_line()).await.context("nothing is pushed")??;
    number_of(&line.context("the server ended the connection")?)
}

fn number_of(line: &str) -> anyhow::Result<Option<u64>> {
    Ok(match serde_json::from_str(line)? {
        Line::Event { number, .. } => Some(number),
        Line::Removed { .. } | Line::Newest { .. } | Line::Signal | Line::Pulled { .. } => None,
    })
}

fn push(server: &PushServer, number: u64) {
    server.push(Line::Event { number, mined_at: moment::now(), padding: "x".repeat(PADDING_BYTES) });
}
