//! One seeded world: its parts, its clock, and the loop that lets the next thing happen.

mod devices;
mod ending;
mod gateways;
mod mischief;
mod operators;
mod people;
mod storage;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::{Duration, Instant};

use gapless_client::{Closed, ConnectionId, SessionConfig};
use gapless_core::{
    DeliveryConfig, FeedNews, FeedReaderConfig, HeartbeatConfig, History, HubConfig, OutboxConfig,
};
use gapless_proto::{ClientMessage, ConvId, Position, UserId};

use crate::agenda::Agenda;
use crate::checks::Checks;
use crate::clock::Clock;
use crate::coverage::Coverage;
use crate::device::Device;
use crate::dice::{Dice, Spread};
use crate::gateway_model::{Found, GatewayConfig, GatewayModel, Read};
use crate::names::{BatchNo, DeviceNo, GatewayNo, Life, LinkNo};
use crate::network::{Arrival, Network};
use crate::plan::Plan;
use crate::reference::Remembered;
use crate::store_model::{Answer, Disk, Down, Frame, StoreModel};
use crate::trace::Trace;
use crate::weather::Weather;
use crate::{Climate, Guarantee, Landmark, Options, Outcome, Violation};

pub use mischief::Mischief;

/// Everything there is, for one seed.
#[derive(Debug)]
pub(crate) struct World {
    options: Options,
    clock: Clock,
    agenda: Agenda<Event>,
    weather: Weather,
    /// One for each purpose, so that an event more in one part leaves the others as they were.
    dice: WorldDice,
    network: Network,
    store: StoreModel,
    store_is_down: bool,
    backup: Option<(Disk, Remembered)>,
    gateways: BTreeMap<GatewayNo, Gateway>,
    gateway_config: GatewayConfig,
    devices: BTreeMap<DeviceNo, Node>,
    session_config: SessionConfig,
    users: Vec<UserId>,
    convs: Vec<ConvId>,
    lives: u64,
    mischief: Plan<Mischief>,
    ending: ending::Ending,
    checks: Checks,
    coverage: Coverage<Landmark>,
    trace: Trace,
    steps: u64,
    /// The first there was; it ends the world.
    violation: Option<Violation>,
}

#[derive(Debug)]
struct WorldDice {
    mischief: Dice,
    store: Dice,
    devices: Dice,
}

/// A gateway's place; its process comes and goes.
#[derive(Debug)]
struct Gateway {
    process: Option<(Life, GatewayModel)>,
    /// Whether it takes no further connections and ends once it has none.
    is_draining: bool,
    /// Its own store's news comes in order.
    last_news: Instant,
}

/// A device, and what the world around it does to it.
#[derive(Debug)]
struct Node {
    device: Device,
    typed: u64,
    /// When its timer is planned for.
    timer: Option<Instant>,
    /// Its machine sleeps until then.
    asleep_until: Option<Instant>,
    has_connected: bool,
}

/// Something that happens at a moment.
#[derive(Debug)]
enum Event {
    /// The next thing that goes wrong, or that somebody does.
    Mischief,
    /// The world is looked at, once it is calm.
    Look,
    /// Somebody leaves a conversation, or joins it if they aren't in it.
    ComesOrGoes {
        conv: ConvId,
        user: UserId,
    },
    /// A connection reaches its gateway.
    Connects {
        link: LinkNo,
    },
    ToGateway {
        link: LinkNo,
        message: ClientMessage,
    },
    ToDevice {
        link: LinkNo,
        arrival: Arrival,
    },
    EndsAtGateway {
        link: LinkNo,
    },
    EndsAtDevice {
        link: LinkNo,
        closed: Closed,
    },
    DeviceTimer {
        device: DeviceNo,
    },
    Written {
        device: DeviceNo,
        life: Life,
    },
    DeviceWakes {
        device: DeviceNo,
    },
    DeviceStarts {
        device: DeviceNo,
    },
    GatewayTick {
        gateway: GatewayNo,
        life: Life,
        ticks: u64,
    },
    GatewayStarts {
        gateway: GatewayNo,
    },
    /// A gateway has had long enough to finish.
    DrainEnds {
        gateway: GatewayNo,
        life: Life,
    },
    News {
        gateway: GatewayNo,
        life: Life,
        news: FeedNews<Frame>,
    },
    /// `found` is `None` when the store looks only now.
    ReadEnds {
        gateway: GatewayNo,
        life: Life,
        read: Read,
        found: Option<Result<Found, Down>>,
    },
    Answered {
        answer: Answer,
    },
    /// A transaction's lane gives it up.
    GivenUp {
        batch: BatchNo,
    },
    BatchEnds {
        batch: BatchNo,
        commits: bool,
    },
    StoreIsBack,
    /// These users have an entry by now.
    Due {
        users: Vec<UserId>,
        conv: ConvId,
        position: Position,
    },
}

impl World {
    /// Draws a world.
    pub(crate) fn new(seed: u64, options: Options) -> Self {
        let mut dice = Dice::new(seed, 0);
        let clock = Clock::new();
        let mut world = Self {
            weather: match options.climate {
                Climate::Stormy => Weather::new(&mut dice),
                Climate::LossyPushes => Weather::lossy_pushes(),
            },
            network: Network::new(Dice::new(seed, 1)),
            mischief: mischief::plan(&mut dice, &options),
            ending: ending::Ending::new(&mut dice),
            gateway_config: gateway_config(&mut dice),
            session_config: session_config(&mut dice),
            dice: WorldDice {
                mischief: Dice::new(seed, 2),
                store: Dice::new(seed, 3),
                devices: Dice::new(seed, 5),
            },
            trace: Trace::new(options.is_traced),
            options,
            agenda: Agenda::new(),
            store: StoreModel::new(1 + dice.below(2)),
            store_is_down: false,
            backup: None,
            gateways: BTreeMap::new(),
            devices: BTreeMap::new(),
            users: ["alice", "bob", "carol"].map(|name| UserId::new(name).expect("it is an id")).to_vec(),
            convs: Vec::new(),
            lives: 0,
            checks: Checks::default(),
            coverage: Coverage::default(),
            steps: 0,
            violation: None,
            clock,
        };
        world.found_conversations(&mut dice);
        world.start_gateways(1 + dice.below(2));
        world.add_devices(&mut dice);
        world.plan_in(Duration::ZERO, Event::Mischief);
        world
    }

    /// Lets everything happen.
    pub(crate) fn run(mut self) -> Outcome {
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
        for gateway in self.gateways.values() {
            if let Some((_, model)) = &gateway.process {
                self.coverage.add(Landmark::Overflow, model.overflows());
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
            Event::ComesOrGoes { conv, user } => self.comes_or_goes(conv, user),
            Event::Connects { link } => self.connects(link),
            Event::ToGateway { link, message } => self.gateway_gets(link, message),
            Event::ToDevice { link, arrival } => self.device_gets(link, arrival),
            Event::EndsAtGateway { link } => self.ends_at_gateway(link),
            Event::EndsAtDevice { link, closed } => self.ends_at_device(link, closed),
            Event::DeviceTimer { device } => self.device_timer(device),
            Event::Written { device, life } => self.written(device, life),
            Event::DeviceWakes { device } => self.device_wakes(device),
            Event::DeviceStarts { device } => self.device_starts(device),
            Event::GatewayTick { gateway, life, ticks } => self.gateway_tick(gateway, life, ticks),
            Event::GatewayStarts { gateway } => self.gateway_starts(gateway),
            Event::DrainEnds { gateway, life } => self.drain_ends(gateway, life),
            Event::News { gateway, life, news } => self.news_arrives(gateway, life, news),
            Event::ReadEnds { gateway, life, read, found } => self.read_ends(gateway, life, read, found),
            Event::Answered { answer } => self.answered(answer),
            Event::GivenUp { batch } => self.given_up(batch),
            Event::BatchEnds { batch, commits } => self.batch_ends(batch, commits),
            Event::StoreIsBack => self.store_is_back(),
            Event::Due { users, conv, position } => {
                self.uphold(self.checks.is_with(&users, &conv, position));
            }
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

    fn found_conversations(&mut self, dice: &mut Dice) {
        for number in 0..=dice.below(3) {
            let conv = ConvId::new(&format!("c{number}")).expect("it is an id");
            let history = if dice.coin() { History::All } else { History::FromJoin };
            let count = (1 + dice.below(4)).min(self.users.len());
            let members = self.users.iter().cycle().skip(number).take(count).cloned().collect::<Vec<_>>();
            let entries = self.store.create(&conv, &members, history, self.clock.timestamp());
            let position = self.store.position(&conv).expect("it was created");
            self.checks.reference.created(&conv, position.epoch, history);
            let checked = self.checks.committed(&conv, position.epoch, &entries);
            self.uphold(checked);
            self.note(|| format!("{conv} is created by {members:?} with history {history:?}"));
            self.convs.push(conv);
        }
        self.backup = Some((self.store.backup(), self.checks.reference.remember()));
    }

    fn start_gateways(&mut self, count: usize) {
        for number in 0..count {
            let gateway = Gateway { process: None, is_draining: false, last_news: self.now() };
            self.gateways.insert(GatewayNo(number), gateway);
            self.plan_in(Duration::ZERO, Event::GatewayStarts { gateway: GatewayNo(number) });
        }
    }

    fn add_devices(&mut self, dice: &mut Dice) {
        let mut number = 0;
        for user in self.users.clone() {
            for _ in 0..=dice.below(2) {
                let no = DeviceNo(number);
                let device = Device::new(user.clone(), self.options.fault);
                let node = Node { device, typed: 0, timer: None, asleep_until: None, has_connected: false };
                self.devices.insert(no, node);
                self.checks.add_device(no, user.clone());
                let delay = dice.duration(Spread::millis(0, 2_000));
                self.plan_in(delay, Event::DeviceStarts { device: no });
                number += 1;
            }
        }
    }
}

/// A world that is busier than this is busy with nothing.
const STEPS_MAX: u64 = 50_000;

/// Small bounds, so that they are reached.
fn gateway_config(dice: &mut Dice) -> GatewayConfig {
    let hub = HubConfig {
        pushed_members_max: if dice.below(4) == 0 { 1 } else { 500 },
        fetched_entries_max: if dice.coin() { 3 } else { 2_000 },
        ..HubConfig::default()
    };
    GatewayConfig {
        hub,
        delivery: DeliveryConfig { queued_frames_max: 1 + dice.below(5), ..DeliveryConfig::default() },
        heartbeat: HeartbeatConfig::default(),
        write_stall_max: Duration::from_secs(30),
        reload_every: Duration::from_secs(20),
        read_limit: 1 + dice.below(4),
    }
}

fn session_config(dice: &mut Dice) -> SessionConfig {
    SessionConfig {
        page_limit: 1 + u32::try_from(dice.below(6)).expect("it is small"),
        answer_timeout: Duration::from_secs(20),
        outbox: OutboxConfig { window: 1 + dice.below(5), ..OutboxConfig::default() },
        reader: FeedReaderConfig { pending_max: 1 + dice.below(6), ..FeedReaderConfig::default() },
        syncs_in_flight_max: 1 + dice.below(3),
        ..SessionConfig::default()
    }
}

/// A connection that ended without a close frame.
pub(crate) fn network_failure(message: &str) -> Closed {
    Closed::Network { message: message.to_owned() }
}
