//! `06-snapshot-race` and `06-control-snapshot-first`. Chain behaviour 6.

use std::time::Duration;

use gapless_proto::Mode;

use super::Conditions;
use crate::chain::{ChainWorld, Fold, TopicReader, beginning};
use crate::database::Databases;
use crate::elapse::elapse;
use crate::exhibit::Exhibit;
use crate::finding::{Check, Outcome};

/// As many events that the snapshot has three parts.
const BEFORE: [u64; 45] = [10; 45];
/// How often each interleaving is tried.
const ROUNDS: u64 = 4;
/// How many moments around the request are tried, and how far they are apart.
const MOMENTS: u32 = 24;
const MOMENT_STEP: Duration = Duration::from_micros(400);
/// How deep a reorg comes in between, in blocks that no snapshot stands for.
const DEPTH: usize = 2;

/// When it happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    Before,
    BothWaitRequestFirst,
    BothWaitBlockFirst,
    AfterAnswer,
    ServerStopsBetweenParts,
    BetweenParts,
    AfterSnapshot,
    /// So long after the request has come to the server, as far as the network is known.
    After(Duration),
}

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Event,
    Reorg,
}

/// What all readers of one row came to.
#[derive(Debug, Default, Clone, Copy)]
struct Sum {
    rounds: u64,
    missing: u64,
    wrong: u64,
    doubles: u64,
    resets: u64,
}

pub(super) async fn run(databases: &Databases, conditions: Conditions) -> anyhow::Result<Outcome> {
    let rounds = if conditions.network.is_narrow() { 1 } else { conditions.size.pick(ROUNDS, 10 * ROUNDS) };
    let mut rows = Vec::new();
    let mut all = Sum::default();
    for confirmations in ["0", "3"] {
        // Without confirmations the snapshot is of the newest block; a reorg may then reach into it, which is another matter.
        let deeds: &[Deed] = if confirmations == "0" { &[Deed::Event] } else { &[Deed::Event, Deed::Reorg] };
        let settings = [("chains.confirmations", confirmations)];
        let mut world = ChainWorld::begin(databases, conditions.network, &settings).await?;
        world.indexer.mine(&BEFORE).await?;
        for deed in deeds {
            for moments in moments() {
                let mut sum = Sum::default();
                let repeats = if moments.1.len() == 1 { rounds } else { 1 };
                for moment in moments.1.iter().cycle().take(moments.1.len() * repeats as usize) {
                    sum.add(
                        &one_round(&mut world, *moment, *deed, conditions.network.delay()).await?,
                        &world,
                    );
                }
                rows.push(sum.row(moments.0, *deed, confirmations));
                all.include(sum);
            }
        }
        world.end().await?;
    }
    let heading = ["when", "what", "confirmations", "readers", "missing", "wrong", "twice"];
    let table = Exhibit::table("an event or a reorg around a subscription with a snapshot", heading, rows);
    let checks = vec![
        Check::at_least("readers that began while something happened", 90, all.rounds),
        Check::exactly("events missing", 0, all.missing),
        Check::exactly("events wrong", 0, all.wrong),
        Check::exactly("events told twice", 0, all.doubles),
        Check::exactly("resets", 0, all.resets),
    ];
    Ok(Outcome { checks, exhibits: vec![table] })
}

/// The state first, then the events: what comes in between belongs to neither.
pub(super) async fn control(databases: &Databases, conditions: Conditions) -> anyhow::Result<Outcome> {
    let settings = [("chains.confirmations", "0")];
    let mut world = ChainWorld::begin(databases, conditions.network, &settings).await?;
    let line = world.line()?;
    world.indexer.mine(&[1, 1, 1]).await?;
    let mut state = TopicReader::connect(line.address()).await?;
    state.subscribe(None, Mode::Instant, true).await?;
    state.read_until(|fold| fold.snapshots() == 1).await?;

    world.indexer.mine(&[1]).await?;
    let mut events = TopicReader::connect(line.address()).await?;
    events.subscribe(None, Mode::Instant, false).await?;
    world.indexer.mine(&[1]).await?;
    events.read_until(|fold| fold.events() == 1).await?;
    let mut broken = state.fold().clone();
    broken.extend(events.fold());

    let mut whole = TopicReader::connect(line.address()).await?;
    whole.subscribe(Some(beginning()?), Mode::Instant, false).await?;
    let canonical = world.indexer.canonical();
    whole.read_until(|fold| fold.held().len() == canonical.len()).await?;
    world.end().await?;
    Ok(vec![
        Check::exactly("events missing to one that took the snapshot first", 1, broken.missing(&canonical)),
        Check::exactly("events missing in the feed itself", 0, whole.fold().missing(&canonical)),
    ]
    .into())
}

fn moments() -> Vec<(&'static str, Vec<Moment>)> {
    let one = |name, moment| (name, vec![moment]);
    let swept = (0..MOMENTS).map(|step| Moment::After(MOMENT_STEP * step)).collect();
    vec![
        one("before the request", Moment::Before),
        one("both wait at a server that stands, the request first", Moment::BothWaitRequestFirst),
        one("both wait at a server that stands, the block first", Moment::BothWaitBlockFirst),
        one("after `subscribed`", Moment::AfterAnswer),
        one("between parts of the snapshot", Moment::BetweenParts),
        one("between parts, at a server that stands there", Moment::ServerStopsBetweenParts),
        one("after the snapshot", Moment::AfterSnapshot),
        ("0 to 10 ms after the request has come", swept),
    ]
}

/// A new reader subscribes, something happens at a moment, and the reader catches up.
async fn one_round(
    world: &mut ChainWorld,
    moment: Moment,
    deed: Deed,
    delay: Duration,
) -> anyhow::Result<Fold> {
    let line = world.line()?;
    let mut reader = TopicReader::connect(line.address()).await?;
    match moment {
        Moment::Before => {
            deed.happen(world).await?;
            reader.subscribe(None, Mode::Instant, true).await?;
        }
        Moment::BothWaitRequestFirst => {
            world.freeze_server()?;
            reader.ask(None, Mode::Instant, true).await?;
            elapse(delay).await;
            happen_after_thaw(world, deed).await?;
            reader.accepted().await?;
        }
        Moment::BothWaitBlockFirst => {
            world.freeze_server()?;
            let thaw = world.thaw()?;
            let asking = async {
                elapse(ON_ITS_WAY).await;
                let asked = reader.ask(None, Mode::Instant, true).await;
                elapse(delay + ON_ITS_WAY).await;
                thaw().and(asked)
            };
            let (happened, asked) = tokio::join!(deed.happen(world), asking);
            happened.and(asked)?;
            reader.accepted().await?;
        }
        Moment::AfterAnswer => {
            reader.subscribe(None, Mode::Instant, true).await?;
            deed.happen(world).await?;
        }
        Moment::BetweenParts => {
            reader.subscribe(None, Mode::Instant, true).await?;
            reader.next().await?;
            deed.happen(world).await?;
        }
        Moment::ServerStopsBetweenParts => {
            reader.subscribe(None, Mode::Instant, true).await?;
            reader.next().await?;
            world.freeze_server()?;
            happen_after_thaw(world, deed).await?;
        }
        Moment::AfterSnapshot => {
            reader.subscribe(None, Mode::Instant, true).await?;
            reader.read_until(|fold| fold.snapshots() == 1).await?;
            deed.happen(world).await?;
        }
        Moment::After(pause) => {
            let happening = async {
                elapse(delay + pause).await;
                deed.happen(world).await
            };
            let (subscribed, happened) = tokio::join!(reader.subscribe(None, Mode::Instant, true), happening);
            subscribed?;
            happened?;
        }
    }
    // Each reader has one more event to wait for.
    world.indexer.mine(&[1]).await?;
    let newest = world.indexer.next_number() - 1;
    reader.read_until(|fold| fold.newest() == Some(newest)).await?;
    Ok(reader.fold().clone())
}

/// Hands in to a server that stands, and lets it go on once the block waits for it.
async fn happen_after_thaw(world: &mut ChainWorld, deed: Deed) -> anyhow::Result<()> {
    let thaw = world.thaw()?;
    let thawing = async {
        elapse(ON_ITS_WAY).await;
        thaw()
    };
    let (happened, thawed) = tokio::join!(deed.happen(world), thawing);
    thawed.and(happened)
}

/// How long a request takes at most until it waits at the server.
const ON_ITS_WAY: Duration = Duration::from_millis(10);

impl Deed {
    async fn happen(self, world: &mut ChainWorld) -> anyhow::Result<()> {
        match self {
            Self::Event => world.indexer.mine(&[1]).await,
            Self::Reorg => world.indexer.reorganise(DEPTH, &[1, 1, 1]).await,
        }
    }
}

impl Sum {
    fn add(&mut self, fold: &Fold, world: &ChainWorld) {
        let canonical = world.indexer.canonical();
        self.include(Self {
            rounds: 1,
            missing: fold.missing(&canonical),
            wrong: fold.wrong(&canonical),
            doubles: fold.doubles(),
            resets: fold.resets().len() as u64,
        });
    }

    fn include(&mut self, other: Self) {
        self.rounds += other.rounds;
        self.missing += other.missing;
        self.wrong += other.wrong;
        self.doubles += other.doubles;
        self.resets += other.resets;
    }

    fn row(self, when: &str, deed: Deed, confirmations: &str) -> Vec<String> {
        let what = match deed {
            Deed::Event => "an event",
            Deed::Reorg => "a reorg",
        };
        let numbers = [self.rounds, self.missing, self.wrong, self.doubles].map(|number| number.to_string());
        [when, what, confirmations].map(str::to_owned).into_iter().chain(numbers).collect()
    }
}
