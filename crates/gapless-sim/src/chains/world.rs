//! One seeded world of chains: its parts, its clock, and the loop that lets the next thing happen.

mod chain_side;
mod ending;
mod gateway_side;
mod mischief;
mod reader_side;
mod store_side;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::{Duration, Instant};

use gapless_chain::Start;
use gapless_client::{Closed, SessionConfig, TopicsStart};
use gapless_core::HeartbeatConfig;
use gapless_proto::{BlockNumber, ChainId, ClientMessage, Cursor, Mode, Seq, UserId};
use gapless_store::{ChainNews, Ingestion};

use super::contracts::TopicKind;
use super::coverage::ChainCoverage;
use super::feed_model::FeedModel;
use super::follower_model::{FollowerConfig, FollowerModel, Reply};
use super::gateway_model::{ChainGateway, ChainGatewayConfig, StoreAsk, StoreFound, Ticket};
use super::holder::Wish;
use super::miner::Miner;
use super::node_model::{Habits, NodeModel};
use super::reader::Reader;
use super::reality::Totals;
use super::record::Record;
use super::simulation::{ChainOptions, ChainOutcome};
use crate::agenda::Agenda;
use crate::clock::Clock;
use crate::dice::{Dice, Spread};
use crate::names::{DeviceNo, GatewayNo, Life, LinkNo};
use crate::network::{Arrival, Network};
use crate::plan::Plan;
use crate::store_model::Down;
use crate::trace::Trace;
use crate::weather::Weather;
use crate::{Guarantee, Outcome, Violation};

pub use mischief::ChainMischief;

/// Everything there is, for one seed.
#[derive(Debug)]
pub(super) struct ChainWorld {
    options: ChainOptions,
    clock: Clock,
    agenda: Agenda<Event>,
    weather: Weather,
    dice: WorldDice,
    network: Network,
    chains: BTreeMap<ChainId, Chain>,
    store_is_down: bool,
    gateways: BTreeMap<GatewayNo, Gateway>,
    gateway_config: ChainGatewayConfig,
    readers: BTreeMap<DeviceNo, Place>,
    session_config: SessionConfig,
    /// How long an entry is kept.
    retention: Option<Duration>,
    lives: u64,
    mischief: Plan<ChainMischief>,
    ending: ending::Ending,
    coverage: ChainCoverage,
    trace: Trace,
    steps: u64,
    /// The first there was; it ends the world.
    violation: Option<Violation>,
}

/// One for each purpose, so that an event more in one part leaves the others as they were.
#[derive(Debug)]
struct WorldDice {
    mischief: Dice,
    nodes: Dice,
    store: Dice,
    readers: Dice,
}

/// A chain, from its blocks to its feed.
#[derive(Debug)]
struct Chain {
    miner: Miner,
    /// Below which depth nothing is taken back, as its nodes say.
    finality: u64,
    nodes: Vec<NodeModel>,
    follower_config: FollowerConfig,
    follower: Option<Follower>,
    /// `None` until its first block was taken.
    feed: Option<FeedModel>,
    record: Option<Record>,
    backup: Option<(FeedModel, Option<Totals>)>,
    /// When which seq was the newest, for the retention.
    heads: Vec<(Instant, Seq)>,
    /// Whether an operator is about to begin the feed anew.
    is_restarting: bool,
}

/// A follower's process.
#[derive(Debug)]
struct Follower {
    life: Life,
    model: FollowerModel,
    /// Which node it waits for, and the number of the rest.
    resting: Option<(Option<usize>, u64)>,
    rests: u64,
    is_ingesting: bool,
}

/// A gateway's place; its process comes and goes.
#[derive(Debug)]
struct Gateway {
    process: Option<(Life, ChainGateway)>,
}

/// A client's place, and what the world around it does to it.
#[derive(Debug)]
struct Place {
    reader: Reader,
    timer: Option<Instant>,
    asleep_until: Option<Instant>,
    /// What has come while it slept.
    unread: Vec<Event>,
    /// When it last heard something, and what that was when its connection began.
    heard_at: Instant,
    away_since: Instant,
    saved_at: Instant,
}

/// Something that happens at a moment.
#[derive(Debug)]
enum Event {
    /// The next thing that goes wrong, or that is done.
    Mischief,
    /// The world is looked at, once it is calm.
    Look,
    /// The second of two reorgs.
    ReorgAgain {
        chain: ChainId,
    },
    EndsEmpty {
        chain: ChainId,
    },
    NodeHears {
        chain: ChainId,
        node: usize,
    },
    FollowerStarts {
        chain: ChainId,
    },
    FollowerWakes {
        chain: ChainId,
        life: Life,
        rest: u64,
    },
    /// `None` for an answer that is found only now.
    FollowerAnswered {
        chain: ChainId,
        life: Life,
        reply: Reply,
    },
    FollowerAsks {
        chain: ChainId,
        life: Life,
        request: Box<super::follower_model::Request>,
    },
    Ingests {
        chain: ChainId,
        life: Life,
        ingestion: Ingestion,
    },
    Restarts {
        chain: ChainId,
    },
    Retention,
    News {
        gateway: GatewayNo,
        life: Life,
        news: ChainNews,
    },
    /// `found` is `None` when the store looks only now.
    Found {
        gateway: GatewayNo,
        life: Life,
        ticket: Ticket,
        chain: ChainId,
        ask: StoreAsk,
        found: Option<Result<StoreFound, Down>>,
    },
    StoreIsBack,
    GatewayTick {
        gateway: GatewayNo,
        life: Life,
        ticks: u64,
    },
    GatewayStarts {
        gateway: GatewayNo,
    },
    Connects {
        link: LinkNo,
    },
    ToGateway {
        link: LinkNo,
        message: ClientMessage,
    },
    ToReader {
        link: LinkNo,
        arrival: Arrival,
    },
    EndsAtGateway {
        link: LinkNo,
    },
    EndsAtReader {
        link: LinkNo,
        closed: Closed,
    },
    ReaderTimer {
        reader: DeviceNo,
    },
    ReaderWakes {
        reader: DeviceNo,
    },
    ReaderStarts {
        reader: DeviceNo,
    },
}

/// A world that is busier than this is busy with nothing.
const STEPS_MAX: u64 = 100_000;
/// Between two looks at what is older than the retention.
const RETENTION_EVERY: Duration = Duration::from_secs(20);

impl ChainWorld {
    /// Draws a world.
    pub(super) fn new(seed: u64, options: ChainOptions) -> Self {
        let mut dice = Dice::new(seed, 100);
        let gateway_config = gateway_config(&mut dice);
        let mut world = Self {
            clock: Clock::new(),
            agenda: Agenda::new(),
            weather: Weather::new(&mut dice),
            dice: WorldDice {
                mischief: Dice::new(seed, 102),
                nodes: Dice::new(seed, 103),
                store: Dice::new(seed, 104),
                readers: Dice::new(seed, 105),
            },
            network: Network::new(Dice::new(seed, 101)),
            chains: BTreeMap::new(),
            store_is_down: false,
            gateways: BTreeMap::new(),
            gateway_config,
            readers: BTreeMap::new(),
            session_config: SessionConfig {
                answer_timeout: Duration::from_secs(20),
                ..SessionConfig::default()
            },
            retention: dice
                .pick(&[None, Some(RETENTION_MIN), Some(RETENTION_MIN), Some(2 * RETENTION_MIN)])
                .flatten(),
            lives: 0,
            mischief: mischief::plan(&mut dice, &options),
            ending: ending::Ending::default(),
            coverage: ChainCoverage::default(),
            trace: Trace::new(options.is_traced),
            steps: 0,
            violation: None,
            options,
        };
        world.found_chains(seed, &mut dice);
        world.add_gateways(&mut dice);
        world.add_readers(&mut dice);
        world.plan_in(Duration::ZERO, Event::Mischief);
        world.plan_in(RETENTION_EVERY, Event::Retention);
        world
    }

    /// Lets everything happen.
    pub(super) fn run(mut self) -> ChainOutcome {
        while self.violation.is_none() && !self.ending.is_reached() {
            let (at, event) = self.agenda.next().expect("gateways tick for ever");
            self.clock.advance(at);
            self.steps += 1;
            self.step(event);
            if self.steps > STEPS_MAX {
                let how = format!("there were {STEPS_MAX} steps");
                self.uphold(Err(Violation::new(Guarantee::NoBusyLoop, how)));
            }
        }
        Outcome {
            violation: self.violation,
            coverage: self.coverage,
            steps: self.steps,
            mischief: self.mischief.done(),
            trace: self.trace.into_lines(),
        }
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Mischief => self.do_mischief(),
            Event::Look => self.look(),
            Event::ReorgAgain { chain } => self.grow(chain, |miner, coverage| miner.reorg(coverage)),
            Event::EndsEmpty { chain } => self.grow(chain, |miner, coverage| miner.end_empty(coverage)),
            Event::NodeHears { chain, node } => self.node_hears(chain, node),
            Event::FollowerStarts { chain } => self.follower_starts(chain),
            Event::FollowerWakes { chain, life, rest } => self.follower_wakes(chain, life, rest),
            Event::FollowerAsks { chain, life, request } => self.follower_asks(chain, life, *request),
            Event::FollowerAnswered { chain, life, reply } => self.follower_answered(chain, life, reply),
            Event::Ingests { chain, life, ingestion } => self.ingests(chain, life, ingestion),
            Event::Restarts { chain } => self.restarts(chain),
            Event::Retention => self.retain(),
            Event::News { gateway, life, news } => {
                self.with_gateway(gateway, life, |model, now| model.handle_news(news, now));
            }
            Event::Found { gateway, life, ticket, chain, ask, found } => {
                let found = found.unwrap_or_else(|| self.find(chain, &ask));
                self.with_gateway(gateway, life, |model, now| model.handle_found(ticket, chain, found, now));
            }
            Event::StoreIsBack => self.store_is_down = false,
            Event::GatewayTick { gateway, life, ticks } => self.gateway_tick(gateway, life, ticks),
            Event::GatewayStarts { gateway } => self.gateway_starts(gateway),
            Event::Connects { link } => self.connects(link),
            Event::ToGateway { link, message } => self.gateway_gets(link, message),
            Event::ToReader { link, arrival } => self.reader_gets(link, arrival),
            Event::EndsAtGateway { link } => self.ends_at_gateway(link),
            Event::EndsAtReader { link, closed } => self.ends_at_reader(link, closed),
            Event::ReaderTimer { reader } => self.reader_timer(reader),
            Event::ReaderWakes { reader } => self.reader_wakes(reader),
            Event::ReaderStarts { reader } => self.reader_starts(reader),
        }
    }

    /// Takes the outcome of a check.
    fn uphold(&mut self, checked: Result<(), Violation>) {
        let Err(violation) = checked else {
            return;
        };
        self.note(|| format!("!!! {violation}"));
        self.violation.get_or_insert(violation);
    }

    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn plan_in(&mut self, delay: Duration, event: Event) {
        self.agenda.plan(self.clock.now() + delay, event);
    }

    fn note<D: Display>(&mut self, line: impl FnOnce() -> D) {
        self.trace.note(self.clock.elapsed(), line);
    }

    fn new_life(&mut self) -> Life {
        self.lives += 1;
        Life(self.lives)
    }

    fn found_chains(&mut self, seed: u64, dice: &mut Dice) {
        let ids = [ChainId::new(1), ChainId::new(u64::MAX)];
        for (place, chain) in ids.into_iter().enumerate().take(1 + dice.below(2)) {
            let purpose = 110 + u64::try_from(place).expect("there are few");
            let mut miner = Miner::new(chain, Dice::new(seed, purpose));
            miner.mine(dice.below(15), &mut self.coverage);
            let head = miner.reality.head().hash;
            let nodes: Vec<_> =
                (0..=dice.below(3)).map(|node| NodeModel::new(head, Habits::draw(dice, node == 0))).collect();
            let start = match dice.below(3) {
                0 => Start::Head,
                _ => Start::Block(BlockNumber::new(0).expect("it is small")),
            };
            let follower_config = FollowerConfig {
                start,
                window: number(dice, 8, 8),
                live_blocks: number(dice, 2, 4),
                batch_blocks: 1 + dice.below(4),
                range_blocks_max: number(dice, 1, 8),
                poll: Duration::from_secs(number(dice, 1, 4)),
                nodes: nodes.len(),
                stall_timeout: Duration::from_secs(15),
            };
            self.chains.insert(
                chain,
                Chain {
                    miner,
                    finality: number(dice, 7, 8),
                    nodes,
                    follower_config,
                    follower: None,
                    feed: None,
                    record: None,
                    backup: None,
                    heads: Vec::new(),
                    is_restarting: false,
                },
            );
            self.plan_in(Duration::ZERO, Event::FollowerStarts { chain });
        }
    }

    fn add_gateways(&mut self, dice: &mut Dice) {
        for number in 0..=dice.below(2) {
            self.gateways.insert(GatewayNo(number), Gateway { process: None });
            self.plan_in(Duration::ZERO, Event::GatewayStarts { gateway: GatewayNo(number) });
        }
    }

    fn add_readers(&mut self, dice: &mut Dice) {
        let chains: Vec<_> = self.chains.keys().copied().collect();
        for number in 0..2 + dice.below(3) {
            let chain = dice.pick(&chains).expect("there is a chain");
            let topics = match dice.below(3) {
                0 => vec![TopicKind::Transfers],
                1 => vec![TopicKind::Marks],
                _ => TopicKind::ALL.to_vec(),
            };
            let wish = Wish {
                topics,
                mode: if dice.below(3) == 0 { Mode::Confirmed } else { Mode::Instant },
                events_max: if dice.below(4) == 0 { 2 + dice.below(4) } else { 100_000 },
            };
            let after = |text: String| TopicsStart::After(Cursor::new(&text).expect("it is short"));
            let start = match dice.below(7) {
                0 | 1 => TopicsStart::Newest,
                2 => after(format!("{chain}:0:0")),
                3 => after(format!("{chain}:99999:0:9000000000000000")),
                _ => TopicsStart::Snapshot,
            };
            let user = UserId::new(&format!("reader-{number}")).expect("it is an id");
            let reader = Reader::new(user, chain, wish, start, self.options.fault);
            let now = self.now();
            let place = Place {
                reader,
                timer: None,
                asleep_until: None,
                unread: Vec::new(),
                heard_at: now,
                away_since: now,
                saved_at: now,
            };
            self.readers.insert(DeviceNo(number), place);
            let delay = dice.duration(Spread::millis(0, 20_000));
            self.plan_in(delay, Event::ReaderStarts { reader: DeviceNo(number) });
        }
    }
}

/// How long entries are kept at least, where they aren't kept for ever.
const RETENTION_MIN: Duration = Duration::from_secs(200);

/// A number from `min` up, of so many.
fn number(dice: &mut Dice, min: u64, count: usize) -> u64 {
    min + u64::try_from(dice.below(count)).expect("it is small")
}

/// Small bounds, so that they are reached.
fn gateway_config(dice: &mut Dice) -> ChainGatewayConfig {
    ChainGatewayConfig {
        confirmations: number(dice, 0, 5),
        tail_entries_max: if dice.coin() { 200 } else { 3 + dice.below(20) },
        queued_frames_max: 2 + dice.below(8),
        slice_entries: 1 + u32::try_from(dice.below(6)).expect("it is small"),
        snapshot_values: 1 + u32::try_from(dice.below(4)).expect("it is small"),
        heartbeat: HeartbeatConfig::default(),
        write_stall_max: Duration::from_secs(30),
        socket_frames_max: 2 + dice.below(6),
    }
}
