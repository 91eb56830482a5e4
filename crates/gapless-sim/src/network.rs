//! The connections between devices and gateways.

use std::collections::BTreeMap;
use std::time::Instant;

use gapless_client::ConnectionId;
use gapless_proto::{ClientMessage, ServerMessage};

use crate::coverage::{Coverage, Landmark};
use crate::dice::{Dice, PerMille};
use crate::names::{DeviceNo, GatewayNo, Life, LinkNo};
use crate::weather::Weather;

/// All connections there ever were, and when what is written to them arrives.
#[derive(Debug)]
pub(crate) struct Network {
    dice: Dice,
    links: BTreeMap<LinkNo, Link>,
    by_connection: BTreeMap<(DeviceNo, Life, ConnectionId), LinkNo>,
    next_link: u64,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) device: (DeviceNo, Life),
    pub(crate) connection: ConnectionId,
    pub(crate) gateway: (GatewayNo, Life),
    up: Pipe,
    down: Pipe,
    /// From then on nothing arrives any more, at either end.
    dead_since: Option<Instant>,
    /// One of its ends has closed it in good order.
    is_over: bool,
}

/// One direction of a connection: what is written first arrives first.
#[derive(Debug)]
struct Pipe {
    last_arrival: Instant,
}

/// A frame that arrives at a device.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) at: Instant,
    /// `None` for the place where a frame is missing.
    pub(crate) message: Option<ServerMessage>,
    /// Whether it makes room in the gateway's socket.
    pub(crate) makes_room: bool,
}

impl Network {
    pub(crate) fn new(dice: Dice) -> Self {
        Self { dice, links: BTreeMap::new(), by_connection: BTreeMap::new(), next_link: 0 }
    }

    /// Begins a connection. Returns when it arrives at the gateway.
    pub(crate) fn open(
        &mut self,
        device: (DeviceNo, Life),
        connection: ConnectionId,
        gateway: (GatewayNo, Life),
        weather: &Weather,
        now: Instant,
    ) -> (LinkNo, Instant) {
        let at = now + self.dice.duration(weather.latency);
        let link = LinkNo(self.next_link);
        self.next_link += 1;
        let (up, down) = (Pipe { last_arrival: at }, Pipe { last_arrival: at });
        self.by_connection.insert((device.0, device.1, connection), link);
        let open = Link { device, connection, gateway, up, down, dead_since: None, is_over: false };
        self.links.insert(link, open);
        (link, at)
    }

    /// When a frame of a device arrives; twice, never or once.
    pub(crate) fn up(
        &mut self,
        link: LinkNo,
        message: &ClientMessage,
        weather: &Weather,
        now: Instant,
    ) -> Option<Instant> {
        let is_lost =
            matches!(message, ClientMessage::Ack { .. }) && self.dice.chance(weather.frames.ack_lost);
        let at = now + self.dice.duration(weather.latency);
        let link = self.links.get_mut(&link)?;
        (!is_lost).then(|| link.up.arrival(at))
    }

    /// When a frame of a gateway arrives, and how often.
    pub(crate) fn down(
        &mut self,
        link: LinkNo,
        message: ServerMessage,
        weather: &Weather,
        now: Instant,
        coverage: &mut Coverage<Landmark>,
    ) -> Vec<Arrival> {
        let (fate, landmark) = self.fate(&message, weather);
        let at = now + self.dice.duration(weather.latency);
        let late = self.dice.duration(weather.frames.lateness);
        let Some(link) = self.links.get_mut(&link) else {
            return Vec::new();
        };
        let at = link.down.arrival(at);
        let in_order = |message| Arrival { at, message, makes_room: true };
        let out_of_order = |message| Arrival { at: at + late, message: Some(message), makes_room: false };
        if fate != Fate::Arrives {
            coverage.note(landmark);
        }
        match fate {
            Fate::Arrives => vec![in_order(Some(message))],
            Fate::IsLost => vec![in_order(None)],
            Fate::ArrivesTwice => vec![in_order(Some(message.clone())), out_of_order(message)],
            Fate::ArrivesLate => vec![in_order(None), out_of_order(message)],
        }
    }

    /// When a frame of a gateway arrives that nothing happens to on its way.
    pub(crate) fn down_in_order(
        &mut self,
        link: LinkNo,
        message: ServerMessage,
        weather: &Weather,
        now: Instant,
    ) -> Option<Arrival> {
        let at = now + self.dice.duration(weather.latency);
        let link = self.links.get_mut(&link)?;
        Some(Arrival { at: link.down.arrival(at), message: Some(message), makes_room: true })
    }

    /// When the end of a connection arrives at its device, behind all that was written before.
    pub(crate) fn end_down(&mut self, link: LinkNo, weather: &Weather, now: Instant) -> Option<Instant> {
        let at = now + self.dice.duration(weather.latency);
        self.links.get_mut(&link).map(|link| link.down.arrival(at))
    }

    /// When the end of a connection arrives at its gateway, behind all that was written before.
    pub(crate) fn end_up(&mut self, link: LinkNo, weather: &Weather, now: Instant) -> Option<Instant> {
        let at = now + self.dice.duration(weather.latency);
        self.links.get_mut(&link).map(|link| link.up.arrival(at))
    }

    /// Nothing written from now on, or on its way, arrives at either end.
    pub(crate) fn kill(&mut self, link: LinkNo, now: Instant) {
        if let Some(link) = self.links.get_mut(&link) {
            link.dead_since.get_or_insert(now);
        }
    }

    /// What is written from now on arrives at the device only after `until`.
    pub(crate) fn stall(&mut self, link: LinkNo, until: Instant) {
        if let Some(link) = self.links.get_mut(&link) {
            link.down.arrival(until);
        }
    }

    pub(crate) fn link(&self, link: LinkNo) -> Option<&Link> {
        self.links.get(&link)
    }

    /// A connection that still carries something.
    pub(crate) fn alive(&self, link: LinkNo) -> Option<&Link> {
        self.links.get(&link).filter(|link| link.dead_since.is_none())
    }

    /// One of its ends closes it in good order.
    pub(crate) fn end(&mut self, link: LinkNo) {
        if let Some(link) = self.links.get_mut(&link) {
            link.is_over = true;
        }
    }

    /// What a device's process knows as `connection`.
    pub(crate) fn link_of(&self, device: DeviceNo, life: Life, connection: ConnectionId) -> Option<LinkNo> {
        self.by_connection.get(&(device, life, connection)).copied()
    }

    /// The connections that stand.
    pub(crate) fn standing(&self) -> impl Iterator<Item = (LinkNo, &Link)> {
        let standing = self.links.iter().filter(|(_, link)| link.dead_since.is_none() && !link.is_over);
        standing.map(|(no, link)| (*no, link))
    }

    fn fate(&mut self, message: &ServerMessage, weather: &Weather) -> (Fate, Landmark) {
        let faults = &weather.frames;
        let (lost, doubled, late, landmark) = match message {
            ServerMessage::Event(_) => {
                (faults.push_lost, faults.push_doubled, faults.push_late, Landmark::PushMangled)
            }
            ServerMessage::Hint { .. } => {
                (faults.hint_lost, faults.push_doubled, faults.push_late, Landmark::PushMangled)
            }
            ServerMessage::Page { .. } | ServerMessage::Sent(_) => {
                (faults.answer_lost, faults.answer_doubled, faults.answer_late, Landmark::AnswerMangled)
            }
            ServerMessage::Welcome(_)
            | ServerMessage::Renewed { .. }
            | ServerMessage::Ping
            | ServerMessage::Pong
            | ServerMessage::Error(_)
            | ServerMessage::Notice(_)
            | ServerMessage::Subscribed(_)
            | ServerMessage::Unsubscribed { .. }
            | ServerMessage::Snapshot(_)
            | ServerMessage::TopicEvent(_)
            | ServerMessage::Revoke(_)
            | ServerMessage::Reset(_)
            | ServerMessage::Progress(_)
            | ServerMessage::Unknown { .. } => {
                (PerMille::NEVER, PerMille::NEVER, PerMille::NEVER, Landmark::AnswerMangled)
            }
        };
        let fate = if self.dice.chance(lost) {
            Fate::IsLost
        } else if self.dice.chance(doubled) {
            Fate::ArrivesTwice
        } else if self.dice.chance(late) {
            Fate::ArrivesLate
        } else {
            Fate::Arrives
        };
        (fate, landmark)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Arrives,
    IsLost,
    ArrivesTwice,
    ArrivesLate,
}

impl Pipe {
    fn arrival(&mut self, at: Instant) -> Instant {
        self.last_arrival = self.last_arrival.max(at);
        self.last_arrival
    }
}
