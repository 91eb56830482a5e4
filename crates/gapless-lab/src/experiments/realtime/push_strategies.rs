//! `push-strategies`: latency is one thing, and what gets lost another.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use gapless_client::TopicsStart;
use gapless_testkit::FaultyProxy;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval};

use super::Conditions;
use crate::chain::{ChainWorld, FollowingClient, Payload, Told, beginning};
use crate::database::Databases;
use crate::elapse::elapse;
use crate::exhibit::Exhibit;
use crate::finding::{Check, Outcome};
use crate::latencies::Latencies;
use crate::moment;
use crate::push_client::{PushClient, Shown};
use crate::push_server::{Ask, Line, PushServer};

/// An event comes so often, each in a block of its own.
const EVENT_PAUSE: Duration = Duration::from_millis(50);
/// After so many events two blocks are replaced by others.
const REORG_EVENTS: u64 = 15;
/// How long events come when all are back, so that nobody is judged by the very last.
const CLOSING: Duration = Duration::from_millis(500);
/// Which of the clients of the push server is signalled, and pulls.
const SIGNALLED: usize = 2;
/// No push server of these has a client for whom so much waits.
const QUEUE_MAX: usize = 10_000;
/// By how much the p50 of ours may be above that of a push that is kept nowhere.
const P50_ABOVE_MS: f64 = 150.0;

/// When the network drops out. It works for most of the time, so that p50 is about that.
struct Outages {
    count: u32,
    /// How long it works in between.
    whole: Duration,
    /// How long nothing passes, before all connections are cut.
    dead: Duration,
}

impl Outages {
    fn of(conditions: Conditions) -> Self {
        let Conditions { network, size, .. } = conditions;
        if network.is_narrow() {
            // It takes seconds to connect, and to catch up.
            Self { count: size.pick(2, 5), whole: Duration::from_secs(15), dead: Duration::from_secs(1) }
        } else {
            Self {
                count: size.pick(2, 8),
                whole: size.pick(Duration::from_millis(2_500), Duration::from_secs(15)),
                dead: size.pick(Duration::from_millis(400), Duration::from_secs(2)),
            }
        }
    }
}

pub(super) async fn run(databases: &Databases, conditions: Conditions) -> anyhow::Result<Outcome> {
    let outages = Outages::of(conditions);
    let mut world = ChainWorld::begin(databases, conditions.network, &[]).await?;
    let pushing = PushServer::start(QUEUE_MAX).await?;
    conditions.network.spoil(pushing.address()).await?;
    let line = |server| conditions.network.line(server);
    let mut lines = vec![line(world.address())?];
    let mut clients = Vec::new();
    for ask in [Ask::Push, Ask::RefreshAndPush, Ask::Signals] {
        let line = line(pushing.address())?;
        clients.push(PushClient::start(line.address(), ask)?);
        lines.push(line);
    }
    let replay = Replay::start(lines[0].address()).await?;
    for client in &mut clients {
        client.connected().await?;
    }

    let mut events = Events { world: &mut world, pushing: &pushing, since_reorg: 0 };
    for _ in 0..outages.count {
        events.come_for(outages.whole).await?;
        // Each outage begins with a reorg of what everybody was just told.
        elapse(3 * conditions.network.delay()).await;
        lines.iter().for_each(|line| line.blackhole(true));
        events.since_reorg = REORG_EVENTS;
        events.come_for(outages.dead).await?;
        lines.iter().for_each(FaultyProxy::cut);
        lines.iter().for_each(|line| line.blackhole(false));
    }
    events.come_for(outages.whole).await?;
    for client in &mut clients {
        client.connected().await?;
    }
    events.come_for(CLOSING).await?;
    let (replayed, last) = replay.finish(&mut world, &pushing).await?;
    // Whoever else will be told is told by then.
    clients[SIGNALLED].told_of(last).await?;
    elapse(conditions.network.silence()).await;
    let mut shown = Vec::new();
    for client in clients {
        shown.push(client.stop().await?);
    }
    pushing.stop().await;

    let canonical: BTreeSet<u64> = world.indexer.canonical().iter().map(|held| held.number).collect();
    let [forgotten, refreshed, signalled] = [0, 1, 2].map(|index| Row::of(&shown[index], &canonical, last));
    let ours = Row::of(&replayed, &canonical, last);
    let heading = ["strategy", "p50", "p99", "longest", "events", "missing", "wrong", "twice"];
    let rows = vec![
        forgotten.cells("fire-and-forget"),
        refreshed.cells("fire-and-forget, refresh on reconnect"),
        ours.cells("numbered replay (gapless)"),
        signalled.cells("signal and pull"),
    ];
    let title = format!(
        "mined → told, {} outages of {:?}; each strategy over a line of its own that drops out at the same times",
        outages.count, outages.dead
    );
    let checks = vec![
        Check::exactly("numbered replay: events missing", 0, ours.missing),
        Check::exactly("numbered replay: events wrong", 0, ours.wrong),
        Check::exactly("numbered replay: events told twice", 0, ours.doubles),
        Check::exactly("signal and pull: events missing", 0, signalled.missing),
        Check::exactly("signal and pull: events wrong", 0, signalled.wrong),
        Check::at_least("fire-and-forget: events missing", 1, forgotten.missing),
        Check::at_least("fire-and-forget: events wrong", 1, forgotten.wrong),
        Check::at_least("fire-and-forget with refresh: events missing", 1, refreshed.missing),
        Check::at_most(
            "p50 of numbered replay, ms",
            (forgotten.p50_ms + P50_ABOVE_MS + conditions.network.delay().as_secs_f64() * 1e3) as u64,
            ours.p50_ms as u64,
        ),
    ];
    world.end().await?;
    Ok(Outcome { checks, exhibits: vec![Exhibit::table(&title, heading, rows)] })
}

/// What happens on the chain, for both servers at the same moments.
struct Events<'world> {
    world: &'world mut ChainWorld,
    pushing: &'world PushServer,
    since_reorg: u64,
}

impl Events<'_> {
    async fn come_for(&mut self, time: Duration) -> anyhow::Result<()> {
        let end = Instant::now() + time;
        let mut beat = interval(EVENT_PAUSE);
        while Instant::now() < end {
            beat.tick().await;
            self.since_reorg += 1;
            if self.since_reorg < REORG_EVENTS {
                push_next(self.pushing, self.world, 1);
                self.world.indexer.mine(&[1]).await?;
            } else {
                self.since_reorg = 0;
                for held in self.world.indexer.canonical().iter().rev().take(2) {
                    self.pushing.push(Line::Removed { number: held.number });
                }
                push_next(self.pushing, self.world, 2);
                self.world.indexer.reorganise(2, &[1, 1]).await?;
            }
        }
        Ok(())
    }
}

/// Pushes the events that are about to be mined.
fn push_next(pushing: &PushServer, world: &ChainWorld, events: u64) {
    let first = world.indexer.next_number();
    for number in first..first + events {
        pushing.push(Line::Event { number, mined_at: moment::now(), padding: String::new() });
    }
}

/// A client of gapless that tells the same of itself as those of the push server.
struct Replay {
    last: watch::Sender<Option<u64>>,
    task: JoinHandle<anyhow::Result<Shown>>,
}

impl Replay {
    async fn start(server: SocketAddr) -> anyhow::Result<Self> {
        let client = FollowingClient::start(server, TopicsStart::After(beginning()?)).await?;
        let last = watch::Sender::new(None);
        let task = tokio::spawn(replay(client, last.subscribe()));
        Ok(Self { last, task })
    }

    /// Has one more event come, and waits for it. Returns what the client was shown, and that event's number.
    async fn finish(self, world: &mut ChainWorld, pushing: &PushServer) -> anyhow::Result<(Shown, u64)> {
        let last = world.indexer.next_number();
        self.last.send_replace(Some(last));
        push_next(pushing, world, 1);
        world.indexer.mine(&[1]).await?;
        Ok((self.task.await??, last))
    }
}

async fn replay(mut client: FollowingClient, last: watch::Receiver<Option<u64>>) -> anyhow::Result<Shown> {
    let mut latencies = Latencies::new()?;
    let mut told = BTreeSet::new();
    loop {
        if let Some(Told::Event(event)) = client.next().await? {
            let Payload { number, mined_at } = Payload::of(&event)?;
            latencies.record(moment::since(mined_at))?;
            told.insert(number);
            if *last.borrow() == Some(number) {
                break;
            }
        }
    }
    let holding = client.fold().held().iter().map(|held| held.number).collect();
    let doubles = client.fold().doubles();
    client.close().await;
    Ok(Shown { holding, told, doubles, latencies })
}

/// How a strategy did.
struct Row {
    events: usize,
    missing: u64,
    wrong: u64,
    doubles: u64,
    p50_ms: f64,
    latencies: [String; 3],
}

impl Row {
    /// The very last event only ends the experiment.
    fn of(shown: &Shown, canonical: &BTreeSet<u64>, last: u64) -> Self {
        let missing = canonical.iter().filter(|number| **number != last && !shown.told.contains(number));
        Self {
            events: shown.told.len(),
            missing: missing.count() as u64,
            wrong: shown.holding.difference(canonical).count() as u64,
            doubles: shown.doubles,
            p50_ms: shown.latencies.percentile_ms(50.0),
            latencies: shown.latencies.cells(),
        }
    }

    fn cells(&self, strategy: &str) -> Vec<String> {
        let numbers = [self.events as u64, self.missing, self.wrong, self.doubles];
        let numbers = numbers.map(|number| number.to_string());
        std::iter::once(strategy.to_owned()).chain(self.latencies.clone()).chain(numbers).collect()
    }
}
