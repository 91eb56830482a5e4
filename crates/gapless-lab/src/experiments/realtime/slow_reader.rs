//! `04-slow-reader`. Chain behaviour 4.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use gapless_proto::{Mode, TopicResetReason};
use serde_json::json;
use tokio::net::TcpSocket;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::Conditions;
use crate::chain::{ChainWorld, Payload, Told, TopicReader};
use crate::database::Databases;
use crate::elapse::elapse;
use crate::exhibit::Exhibit;
use crate::finding::{Check, Outcome};
use crate::latencies::Latencies;
use crate::moment;

/// What comes, and how much of it.
#[derive(Debug, Clone, Copy)]
struct Load {
    block_pause: Duration,
    payload_bytes: usize,
    /// How many frames may wait for a reader.
    queued_frames_max: &'static str,
    /// How long it comes without slow readers, and beside them.
    calm: Duration,
    slow: Duration,
}

impl Load {
    fn of(conditions: Conditions) -> Self {
        let Conditions { network, size, .. } = conditions;
        if network.is_narrow() {
            Self {
                block_pause: Duration::from_millis(100),
                payload_bytes: 100,
                queued_frames_max: "100",
                calm: Duration::from_secs(20),
                slow: size.pick(Duration::from_secs(90), Duration::from_secs(240)),
            }
        } else {
            Self {
                block_pause: Duration::from_millis(20),
                payload_bytes: 8 << 10,
                queued_frames_max: "1000",
                calm: size.pick(Duration::from_secs(3), Duration::from_secs(60)),
                slow: size.pick(Duration::from_secs(7), Duration::from_secs(600)),
            }
        }
    }

    /// How long a slow reader waits before each frame: it reads at a tenth of the pace.
    fn slow_pause(self) -> Duration {
        self.block_pause / BLOCK_EVENTS as u32 * 10
    }
}

/// How many events a block has.
const BLOCK_EVENTS: u64 = 4;
/// So that the kernel holds little of what a slow reader hasn't taken; with less than a segment of the loopback network, it would be
/// slower than it should.
const SLOW_BUFFER_BYTES: u32 = 128 << 10;
/// How often a slow reader says that it is there: a question of the server waits behind what it hasn't read.
const ALIVE_PAUSE: Duration = Duration::from_secs(5);
/// How many readers keep up, beside whom the slow ones are.
const FAST: usize = 8;
/// What a slow reader may cost: its queue, the shared tail, and what allocators keep.
const SERVER_GROWTH_MAX_MIB: u64 = 64;
/// How much later than before the others may be told, besides twice as late.
const DELAY_MAX_MS: f64 = 50.0;

pub(super) async fn run(databases: &Databases, conditions: Conditions) -> anyhow::Result<Outcome> {
    let load = Load::of(conditions);
    let mut settings = vec![("delivery.queued_frames_max", load.queued_frames_max)];
    if conditions.network.is_narrow() {
        // Where packets get lost, a kernel asks ever more seldom whether a full window has opened; here nobody is given up for that.
        settings.extend([("delivery.write_stall_max", "5m"), ("heartbeat.ping_after", "5m")]);
    }
    let mut world = ChainWorld::begin(databases, conditions.network, &settings).await?;
    world.indexer.pad_payloads(load.payload_bytes);
    let line = world.line()?;

    let readers = FastReaders::begin(line.address()).await?;
    let (calm_bytes, calm_pace) = write_for(load.calm, load, &mut world).await?;
    let calm_latencies = readers.finish(&mut world).await?;

    let readers = FastReaders::begin(line.address()).await?;
    // Straight to the server, so that nothing between takes what they don't.
    let server = world.address();
    let read_slowly = |at_reset| tokio::spawn(SlowReader::read(server, at_reset, load));
    let (resting, stubborn) = (read_slowly(AtReset::Rest), read_slowly(AtReset::GoOn));
    let (slow_bytes, slow_pace) = write_for(load.slow, load, &mut world).await?;
    let slow_latencies = readers.finish(&mut world).await?;
    let (mut resting, mut stubborn) = (resting.await??, stubborn.await??);

    // What the kernel had taken for it comes first.
    resting.read_to_reset().await?;
    let told_before_reset = resting.reader.fold().events();
    let told_after_reset = resting.reader.listen_for(conditions.network.silence()).await?;
    let holes_before_reset = resting.holes();
    let last = world.indexer.next_number() - 1;
    resting.catch_up(last).await?;
    stubborn.catch_up(last).await?;
    let growth = slow_bytes.saturating_sub(calm_bytes) >> 20;
    // Where packets get lost, p99 tells of nothing else.
    let percent = if conditions.network.is_narrow() { 50.0 } else { 99.0 };
    let late_max_ms = 2.0 * calm_latencies.percentile_ms(percent) + DELAY_MAX_MS;
    let checks = vec![
        Check::exactly(
            "resets told to one that is slow and rests then",
            json!([TopicResetReason::SlowConsumer]),
            json!(resting.reader.fold().resets()),
        ),
        Check::exactly("frames told to it after the reset", 0, told_after_reset.len()),
        Check::exactly("holes in what it was told before", 0, holes_before_reset),
        Check::exactly("holes after it went on from its cursor", 0, resting.holes()),
        Check::exactly("events told to it twice", 0, resting.reader.fold().doubles()),
        Check::at_least(
            "resets told to one that goes on as slowly",
            1,
            stubborn.reader.fold().resets().len() as u64,
        ),
        Check::exactly("holes in what that one holds in the end", 0, stubborn.holes()),
        Check::exactly("events told to it twice", 0, stubborn.reader.fold().doubles()),
        Check::at_most("MiB by which the server grew", SERVER_GROWTH_MAX_MIB, growth),
        Check::at_most(
            &format!("p{percent} of the others beside them, ms"),
            late_max_ms as u64,
            slow_latencies.percentile_ms(percent) as u64,
        ),
    ];
    let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    let row = |when: &str, pace: f64, bytes, latencies: &Latencies| {
        let [p50, p99, longest] = latencies.cells();
        vec![when.to_owned(), format!("{pace:.0}/s"), mib(bytes), p50, p99, longest]
    };
    let rows = vec![
        row("nobody is slow", calm_pace, calm_bytes, &calm_latencies),
        row("beside two slow readers", slow_pace, slow_bytes, &slow_latencies),
    ];
    let heading = ["when", "events", "most memory of the server", "others' p50", "p99", "longest"];
    let title = format!(
        "mined → told, to {FAST} readers that keep up; the slow ones were told {told_before_reset} events before the reset"
    );
    let table = Exhibit::table(&title, heading, rows);
    world.end().await?;
    Ok(Outcome { checks, exhibits: vec![table] })
}

/// Hands in blocks for a time. Returns the most memory that the server had, and how many events came a second.
async fn write_for(time: Duration, load: Load, world: &mut ChainWorld) -> anyhow::Result<(u64, f64)> {
    let (begun, before) = (Instant::now(), world.indexer.next_number());
    let mut beat = interval(load.block_pause);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut bytes_max = 0;
    while begun.elapsed() < time {
        beat.tick().await;
        world.indexer.mine(&[BLOCK_EVENTS]).await?;
        bytes_max = world.server_bytes()?.max(bytes_max);
    }
    let events = world.indexer.next_number() - before;
    Ok((bytes_max, events as f64 / begun.elapsed().as_secs_f64()))
}

/// Readers that take what they are told at once, until they are told of a last event.
struct FastReaders {
    last: watch::Sender<Option<u64>>,
    readers: JoinSet<anyhow::Result<Latencies>>,
}

impl FastReaders {
    async fn begin(server: SocketAddr) -> anyhow::Result<Self> {
        let last = watch::Sender::new(None);
        let mut readers = JoinSet::new();
        for _ in 0..FAST {
            let mut reader = TopicReader::connect(server).await?;
            reader.subscribe(None, Mode::Instant, false).await?;
            readers.spawn(read_quickly(reader, last.subscribe()));
        }
        Ok(Self { last, readers })
    }

    /// Has one more event come, and waits until all have it. Returns how late each event was told to each.
    async fn finish(mut self, world: &mut ChainWorld) -> anyhow::Result<Latencies> {
        self.last.send_replace(Some(world.indexer.next_number()));
        world.indexer.mine(&[1]).await?;
        let mut all = Latencies::new()?;
        while let Some(read) = self.readers.join_next().await {
            all.include(&read??)?;
        }
        Ok(all)
    }
}

async fn read_quickly(
    mut reader: TopicReader,
    last: watch::Receiver<Option<u64>>,
) -> anyhow::Result<Latencies> {
    let mut latencies = Latencies::new()?;
    loop {
        if let Told::Event(event) = reader.next().await? {
            let Payload { number, mined_at } = Payload::of(&event)?;
            latencies.record(moment::since(mined_at))?;
            if *last.borrow() == Some(number) {
                return Ok(latencies);
            }
        }
    }
}

/// What a slow reader does when it is reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AtReset {
    /// It stays, and asks for nothing.
    Rest,
    /// It goes on from its cursor, as slowly.
    GoOn,
}

/// A reader that was slow for a time.
struct SlowReader {
    reader: TopicReader,
    /// Whether the last it was told is a reset.
    is_reset: bool,
}

impl SlowReader {
    async fn read(server: SocketAddr, at_reset: AtReset, load: Load) -> anyhow::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(SLOW_BUFFER_BYTES)?;
        let mut reader = TopicReader::connect_from(socket, server).await?;
        reader.subscribe(None, Mode::Instant, false).await?;
        let mut slow = Self { reader, is_reset: false };
        let begun = Instant::now();
        let mut said_alive = begun;
        while begun.elapsed() < load.slow {
            elapse(load.slow_pause()).await;
            if said_alive.elapsed() > ALIVE_PAUSE {
                said_alive = Instant::now();
                slow.reader.say_alive().await?;
            }
            match (slow.is_reset, at_reset) {
                (false, _) => slow.next().await?,
                (true, AtReset::Rest) => {}
                (true, AtReset::GoOn) => slow.go_on().await?,
            }
        }
        Ok(slow)
    }

    /// Reads as fast as it can, up to a reset.
    async fn read_to_reset(&mut self) -> anyhow::Result<()> {
        while !self.is_reset {
            self.next().await.context("waiting for a reset")?;
        }
        Ok(())
    }

    /// Reads as fast as it can, up to an event.
    async fn catch_up(&mut self, last: u64) -> anyhow::Result<()> {
        while self.reader.fold().newest() != Some(last) {
            if self.is_reset {
                self.go_on().await?;
            }
            self.next().await?;
        }
        Ok(())
    }

    async fn next(&mut self) -> anyhow::Result<()> {
        self.is_reset = matches!(self.reader.next().await?, Told::Reset(_));
        Ok(())
    }

    async fn go_on(&mut self) -> anyhow::Result<()> {
        let cursor = self.reader.fold().cursor().cloned();
        self.reader.subscribe(cursor, Mode::Instant, false).await?;
        self.is_reset = false;
        Ok(())
    }

    /// How many events are missing between the first and the last that it holds.
    fn holes(&self) -> u64 {
        let held = self.reader.fold().held();
        held.windows(2).map(|pair| pair[1].number - pair[0].number - 1).sum()
    }
}
