//! `send-latency`: what a sender and a reader feel at half of what the server can take.

mod alone;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, Stream, StreamExt as _};
use gapless_core::History;
use gapless_proto::{ConvId, UserId};
use gapless_store::Creation;
use hdrhistogram::Histogram;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

use super::Scale;
use super::disk::{Disk, histogram};
use super::frames::{self, Incoming};
use super::metronome::Metronome;
use super::plain_sender::PlainSender;
use crate::database::{Database, Databases, StoreKind};
use crate::figure::{Figure, Target, median};
use crate::progress::Progress;
use crate::raw_client::{Socket, connect_socket};
use crate::server;

const BENCH: &str = "send-latency";
const CONVERSATION: &str = "latency";
/// The one that is written without gapless.
const PLAIN_CONVERSATION: &str = "plain";
const SENDER: &str = "ann";
const READER: &str = "bob";
const BODY: &str = r#"{"text":"a message as people send them"}"#;
/// How many sends are under way while the capacity is measured: as many as a server takes from one connection.
const WINDOW: u64 = 64;
/// The least that PostgreSQL takes for a message.
const STATEMENT: &str = "lock, insert and commit in one statement";
/// How many flushes a send may take, and how long a push.
const FLUSHES_MAX: f64 = 4.0;
const PUSH_MS_MAX: f64 = 2.0;

/// How long after the last send its answer and its push may come.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, Copy)]
struct Plan {
    rounds: usize,
    round: Duration,
    flushes: usize,
    /// How many are sent one after the other.
    alone: usize,
}

/// What was measured in all rounds, in microseconds.
struct Durations {
    flush: Histogram<u64>,
    /// Of one send at a time, and of what PostgreSQL takes for the like.
    alone: Histogram<u64>,
    statement: Histogram<u64>,
    acknowledged: Histogram<u64>,
    pushed: Histogram<u64>,
}

pub(super) async fn run(scale: Scale, postgres_url: Option<String>) -> anyhow::Result<Vec<Figure>> {
    let plan = Plan {
        rounds: scale.pick(5, 1),
        round: scale.pick(Duration::from_secs(6), Duration::from_millis(300)),
        flushes: scale.pick(300, 10),
        alone: scale.pick(500, 10),
    };
    let databases = Databases::ready(StoreKind::Postgres, postgres_url).await?;
    let database = databases.fresh().await?;
    create_conversations(&database).await?;
    let server = server::serve(&database.url()).await?;
    let plain = PlainSender::connect(&database).await?;
    let figures = measure(plan, server.address(), &plain).await?;
    drop(plain);
    server::stop(server).await?;
    database.discard().await?;
    Ok(figures)
}

async fn create_conversations(database: &Database) -> anyhow::Result<()> {
    let store = database.open_store().await?;
    for conv in [CONVERSATION, PLAIN_CONVERSATION] {
        let creation = Creation {
            conv: ConvId::new(conv)?,
            creator: UserId::new(SENDER)?,
            members: vec![UserId::new(READER)?],
            history: History::FromJoin,
        };
        store.create(creation).await.context("creating a conversation")?;
    }
    store.close().await;
    Ok(())
}

async fn measure(plan: Plan, server: SocketAddr, plain: &PlainSender) -> anyhow::Result<Vec<Figure>> {
    let progress = Progress::new(2 * plan.rounds);
    let mut capacities = Vec::new();
    for _ in 0..plan.rounds {
        progress.begin("how much it can take");
        capacities.push(capacity(server, plan.round).await?);
        progress.step();
    }
    let load = median(&capacities) / 2.0;
    let mut disk = Disk::open()?;
    let mut durations = Durations {
        flush: histogram()?,
        alone: histogram()?,
        statement: histogram()?,
        acknowledged: histogram()?,
        pushed: histogram()?,
    };
    for _ in 0..plan.rounds {
        progress.begin(format!("latencies at {load:.0} sends/s"));
        // The disk is measured while nothing else is asked of it.
        disk.flush(plan.flushes, &mut durations.flush)?;
        alone::statements(plain, plan.alone, &mut durations.statement).await?;
        alone::sends(server, plan.alone, &mut durations.alone).await?;
        round(server, load, plan.round, &mut durations).await?;
        progress.step();
    }
    Ok(figures(median(&capacities), load, &durations))
}

fn figures(capacity: f64, load: f64, durations: &Durations) -> Vec<Figure> {
    let at = |histogram: &Histogram<u64>, quantile| histogram.value_at_quantile(quantile) as f64 / 1_000.0;
    let (flush_p50, flush_p99) = (at(&durations.flush, 0.5), at(&durations.flush, 0.99));
    let figure = |metric: &str, ours| Figure::new(BENCH, metric, "ms", ours);
    let acknowledged = |quantile| at(&durations.acknowledged, quantile);
    let alone = |name: &str, quantile| {
        figure(&format!("one send at a time, {name}"), at(&durations.alone, quantile))
            .versus(format!("{STATEMENT}, {name}"), at(&durations.statement, quantile))
    };
    vec![
        alone("p50", 0.5),
        alone("p99", 0.99),
        figure(&format!("{STATEMENT}, p50"), at(&durations.statement, 0.5))
            .versus("flush of the disk, p50", flush_p50),
        Figure::new(BENCH, format!("capacity of one WebSocket, {WINDOW} sends under way"), "1/s", capacity),
        Figure::new(BENCH, "load, open loop", "1/s", load).versus("capacity", capacity),
        figure("send to acknowledged, p50", acknowledged(0.5)).versus("flush of the disk, p50", flush_p50),
        figure("send to acknowledged, p99", acknowledged(0.99))
            .versus("flush of the disk, p99", flush_p99)
            .target(Target::RatioAtMost(FLUSHES_MAX)),
        figure("send to acknowledged, p99", acknowledged(0.99))
            .versus("flush of the disk, p50", flush_p50)
            .target(Target::RatioAtMost(FLUSHES_MAX)),
        figure("acknowledged to pushed, p50", at(&durations.pushed, 0.5))
            .target(Target::OursAtMost(PUSH_MS_MAX)),
        figure("acknowledged to pushed, p99", at(&durations.pushed, 0.99)),
    ]
}

/// How many sends a second are acknowledged over one connection that always has as many under way as the server takes.
async fn capacity(server: SocketAddr, duration: Duration) -> anyhow::Result<f64> {
    let (mut sink, mut stream) = connect_socket(server, SENDER, "capacity").await?.split();
    let mut reader = connect_socket(server, READER, "capacity").await?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let reading = tokio::spawn(async move {
        tokio::pin!(stopped);
        loop {
            tokio::select! {
                _ = &mut stopped => return,
                frame = reader.next() => if frame.is_none() { return },
            }
        }
    });
    let start = Instant::now();
    let mut script = Script::new();
    for _ in 0..WINDOW {
        sink.feed(script.next_frame()).await?;
    }
    sink.flush().await?;
    let mut acknowledged = 0_u64;
    while start.elapsed() < duration {
        let Incoming::Sent { .. } = next(&mut stream, &mut sink).await? else { continue };
        acknowledged += 1;
        sink.send(script.next_frame()).await?;
    }
    let rate = acknowledged as f64 / start.elapsed().as_secs_f64();
    drop(stop);
    reading.await?;
    Ok(rate)
}

/// Sends at a fixed rate, and notes when each was acknowledged and pushed. A send's time begins when it was due, not when it came
/// to be written.
async fn round(
    server: SocketAddr,
    rate: f64,
    duration: Duration,
    durations: &mut Durations,
) -> anyhow::Result<()> {
    let (sink, stream) = connect_socket(server, SENDER, "latency").await?.split();
    let reader = connect_socket(server, READER, "latency").await?;
    let count = (rate * duration.as_secs_f64()).ceil().max(1.0) as usize;
    let sending = tokio::spawn(send(sink, rate, count));
    let acknowledging = tokio::spawn(timeout(duration + PATIENCE, acknowledgements(stream, count)));
    let pushing = tokio::spawn(timeout(duration + PATIENCE, pushes(reader, count)));
    let (due, _sink) = sending.await??;
    let acknowledgements = acknowledging.await?.context("acknowledgements are missing")??;
    let pushes = pushing.await?.context("pushes are missing")??;

    for acknowledgement in &acknowledgements {
        let due = due.get(acknowledgement.index).context("an answer to nothing")?;
        durations.acknowledged.saturating_record(micros(acknowledgement.at.duration_since(*due)));
    }
    let acknowledged: HashMap<u64, Instant> =
        acknowledgements.iter().map(|acknowledgement| (acknowledgement.seq, acknowledgement.at)).collect();
    for push in pushes {
        let acknowledged = acknowledged.get(&push.seq).context("a push of what wasn't acknowledged")?;
        // The push may well be first.
        durations.pushed.saturating_record(micros(push.at.saturating_duration_since(*acknowledged)));
    }
    Ok(())
}

struct Acknowledgement {
    index: usize,
    seq: u64,
    at: Instant,
}

struct Push {
    seq: u64,
    at: Instant,
}

type Sink = SplitSink<Socket, Message>;

/// Sends `count` messages at their time, and returns when each was due.
async fn send(mut sink: Sink, rate: f64, count: usize) -> anyhow::Result<(Vec<Instant>, Sink)> {
    let mut script = Script::new();
    let mut all_due = Vec::with_capacity(count);
    let mut metronome = Metronome::start(rate, count)?;
    loop {
        let beats = metronome.beats(&mut all_due).await;
        if beats == 0 {
            metronome.stop()?;
            return Ok((all_due, sink));
        }
        for _ in 0..beats {
            sink.feed(script.next_frame()).await?;
        }
        sink.flush().await?;
    }
}

async fn acknowledgements(
    mut stream: SplitStream<Socket>,
    count: usize,
) -> anyhow::Result<Vec<Acknowledgement>> {
    let mut acknowledgements = Vec::with_capacity(count);
    while acknowledgements.len() < count {
        if let Incoming::Sent { rid, seq } = read(&mut stream).await? {
            acknowledgements.push(Acknowledgement { index: usize::try_from(rid)?, seq, at: Instant::now() });
        }
    }
    Ok(acknowledgements)
}

async fn pushes(mut reader: Socket, count: usize) -> anyhow::Result<Vec<Push>> {
    let mut pushes = Vec::with_capacity(count);
    while pushes.len() < count {
        if let Incoming::Event { seq } = read(&mut reader).await? {
            pushes.push(Push { seq, at: Instant::now() });
        }
    }
    Ok(pushes)
}

/// The frames of one connection, numbered from 0.
struct Script {
    name: String,
    next: u64,
}

impl Script {
    fn new() -> Self {
        use std::sync::atomic::{AtomicU64, Ordering};
        static SCRIPTS: AtomicU64 = AtomicU64::new(0);
        Self { name: SCRIPTS.fetch_add(1, Ordering::Relaxed).to_string(), next: 0 }
    }

    fn next_frame(&mut self) -> Message {
        let number = self.next;
        self.next += 1;
        Message::text(frames::send(CONVERSATION, number, &format!("{}-{number}", self.name), BODY))
    }
}

/// The next frame; a ping is answered.
async fn next(stream: &mut SplitStream<Socket>, sink: &mut Sink) -> anyhow::Result<Incoming> {
    let incoming = read(stream).await?;
    if incoming == Incoming::Ping {
        sink.send(Message::text(frames::PONG)).await?;
    }
    Ok(incoming)
}

/// The next frame. A refusal is an error: a benchmark asks for nothing that may be refused.
async fn read(
    stream: &mut (impl Stream<Item = Result<Message, tokio_tungstenite::tungstenite::Error>> + Unpin),
) -> anyhow::Result<Incoming> {
    let frame = stream.next().await.context("the connection ended")??;
    let Message::Text(text) = frame else { bail!("unexpected: {frame:?}") };
    let incoming = frames::read(&text);
    if incoming == (Incoming::Other { is_error: true }) {
        bail!("the server refused: {text}");
    }
    Ok(incoming)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
