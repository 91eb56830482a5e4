//! What happens at devices.

use std::time::Duration;

use gapless_client::{Change, ClientEvent, Closed};
use gapless_core::Advance;
use gapless_proto::{ClientMessage, ServerMessage};

use super::{ConnectionId, Event, World, network_failure};
use crate::Landmark;
use crate::device::DeviceCommand;
use crate::dice::Spread;
use crate::names::{DeviceNo, Life, LinkNo};
use crate::network::Arrival;
use crate::words::Words;

impl World {
    pub(super) fn device_starts(&mut self, device: DeviceNo) {
        let life = self.new_life();
        let (config, seed, now) = (self.session_config, self.dice.devices.seed(), self.now());
        let node = self.devices.get_mut(&device).expect("it was added");
        if node.device.is_running() {
            return;
        }
        node.device.start(config, life, seed, now);
        node.asleep_until = None;
        self.note(|| format!("{device} starts"));
        self.settle_device(device)
    }

    /// A frame arrives, or the place where one was lost.
    pub(super) fn device_gets(&mut self, link: LinkNo, arrival: Arrival) {
        let now = self.now();
        let Some(open) = self.network.alive(link) else {
            return;
        };
        let (device, life) = open.device;
        let (connection, (gateway, gateway_life)) = (open.connection, open.gateway);
        let node = self.devices.get_mut(&device).expect("it was added");
        if node.device.life() != Some(life) {
            return;
        }
        if let Some(wake) = node.asleep_until {
            self.agenda.plan(wake, Event::ToDevice { link, arrival });
            return;
        }
        if let Some(message) = arrival.message {
            if !is_heartbeat(&message) {
                self.note(|| format!("{link}: {device} gets {}", Words(&message)));
            }
            let checked = self.checks.shown(device, &message);
            self.uphold(checked);
            match &message {
                ServerMessage::Event(_) => self.coverage.note(Landmark::Push),
                ServerMessage::Hint { .. } => self.coverage.note(Landmark::Hint),
                ServerMessage::Welcome(_)
                | ServerMessage::Sent(_)
                | ServerMessage::Page { .. }
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
                | ServerMessage::Unknown { .. } => {}
            }
            self.ending.note_frame(&message, now);
            let node = self.devices.get_mut(&device).expect("it was added");
            node.device.handle_message(connection, message, now);
            self.settle_device(device);
        }
        if arrival.makes_room {
            self.with_gateway(gateway, gateway_life, |model, now| model.handle_taken(link, now));
        }
    }

    pub(super) fn ends_at_device(&mut self, link: LinkNo, closed: Closed) {
        let now = self.now();
        let Some(open) = self.network.link(link) else {
            return;
        };
        let ((device, life), connection) = (open.device, open.connection);
        let node = self.devices.get_mut(&device).expect("it was added");
        if let Some(wake) = node.asleep_until {
            self.agenda.plan(wake, Event::EndsAtDevice { link, closed });
            return;
        }
        if node.device.life() != Some(life) {
            return;
        }
        self.note(|| format!("{link}: {device} learns of its end: {closed:?}"));
        let node = self.devices.get_mut(&device).expect("it was added");
        node.device.handle_closed(connection, closed, now);
        self.settle_device(device)
    }

    pub(super) fn device_timer(&mut self, device: DeviceNo) {
        let now = self.now();
        let node = self.devices.get_mut(&device).expect("it was added");
        if node.timer.is_none_or(|timer| timer > now) {
            return;
        }
        node.timer = None;
        if node.asleep_until.is_none() {
            node.device.handle_timeout(now);
        }
        self.settle_device(device)
    }

    pub(super) fn device_wakes(&mut self, device: DeviceNo) {
        let now = self.now();
        let node = self.devices.get_mut(&device).expect("it was added");
        if node.asleep_until.is_none_or(|wake| wake > now) {
            return;
        }
        node.asleep_until = None;
        // Some machines tell their processes that they have slept.
        if self.dice.devices.coin() {
            node.device.handle_wake(now);
        }
        self.note(|| format!("{device} wakes"));
        self.settle_device(device)
    }

    pub(super) fn written(&mut self, device: DeviceNo, life: Life) {
        let now = self.now();
        let node = self.devices.get_mut(&device).expect("it was added");
        if let Some(wake) = node.asleep_until {
            self.agenda.plan(wake, Event::Written { device, life });
            return;
        }
        node.device.handle_written(life, now);
        self.settle_device(device)
    }

    /// The process dies; a part of what was being written is on its disk.
    pub(super) fn crash_device(&mut self, device: DeviceNo, back_after: Duration) {
        let survivors = self.dice.devices.below(4);
        let node = self.devices.get_mut(&device).expect("it was added");
        if !node.device.is_running() {
            return;
        }
        self.coverage.note(Landmark::DeviceCrash);
        if node.device.unwritten() > survivors {
            self.coverage.note(Landmark::ChangesLost);
        }
        node.device.crash(survivors);
        node.asleep_until = None;
        self.note(|| format!("{device} is killed"));
        self.settle_device(device);
        self.checks.crashed(device);
        for link in self.links_of_device(device) {
            self.break_link(link, false, self.clock.now());
        }
        self.plan_in(back_after, Event::DeviceStarts { device });
    }

    pub(super) fn links_of_device(&self, device: DeviceNo) -> Vec<LinkNo> {
        self.network.standing().filter(|(_, link)| link.device.0 == device).map(|(link, _)| link).collect()
    }

    /// Does what a device wants done, and plans its timer.
    pub(super) fn settle_device(&mut self, device: DeviceNo) {
        while let Some(command) = self.devices.get_mut(&device).and_then(|node| node.device.poll_command()) {
            self.do_for_device(device, command);
        }
        let now = self.now();
        let node = self.devices.get_mut(&device).expect("it was added");
        let awake = node.asleep_until.unwrap_or(now);
        if let Some(due) = node.device.poll_timeout().map(|due| due.max(awake))
            && node.timer.is_none_or(|timer| due < timer)
        {
            node.timer = Some(due);
            self.agenda.plan(due, Event::DeviceTimer { device });
        }
    }

    fn do_for_device(&mut self, device: DeviceNo, command: DeviceCommand) {
        match command {
            DeviceCommand::Connect { connection } => {
                self.checks.connects(device);
                self.connect(device, connection);
            }
            DeviceCommand::Transmit { connection, message } => {
                let checked = self.checks.transmitted(device, &message);
                self.uphold(checked);
                self.transmit(device, connection, message);
            }
            DeviceCommand::Close { connection } => {
                if let Some(link) = self.link_of(device, connection) {
                    self.note(|| format!("{link}: {device} gives it up"));
                    self.close_at_device(link);
                }
            }
            DeviceCommand::Write { life } => {
                let delay = self.dice.devices.duration(self.weather.write);
                self.plan_in(delay, Event::Written { device, life });
            }
            DeviceCommand::Issued(change) => {
                if let Change::Advance { advance, .. } = &change {
                    self.note_advance(advance);
                }
                let checked = self.checks.issued(device, &change);
                self.uphold(checked);
            }
            DeviceCommand::Stored(change) => {
                self.note(|| format!("{device} has stored {}", Words(&change)));
                self.checks.stored(device, change);
            }
            DeviceCommand::Report(event) => {
                self.note_report(device, &event);
                let checked = self.checks.reported(device, &event);
                self.uphold(checked);
            }
        }
    }

    fn connect(&mut self, device: DeviceNo, connection: ConnectionId) {
        let gateways: Vec<_> = self.gateways.keys().copied().collect();
        let gateway = self.dice.devices.pick(&gateways).expect("there is a gateway");
        let process = self.gateways.get(&gateway).and_then(|gateway| gateway.process.as_ref());
        // A gateway that is down has no life that the connection could belong to.
        let gateway_life = process.map_or(Life(0), |(life, _)| *life);
        let node = self.devices.get_mut(&device).expect("it was added");
        let life = node.device.life().expect("only a running process connects");
        if std::mem::replace(&mut node.has_connected, true) {
            self.coverage.note(Landmark::Reconnect);
        }
        let (ends, now) = ((gateway, gateway_life), self.now());
        let (link, at) = self.network.open((device, life), connection, ends, &self.weather, now);
        self.note(|| format!("{link}: {device} connects to {gateway}"));
        self.agenda.plan(at, Event::Connects { link });
    }

    fn transmit(&mut self, device: DeviceNo, connection: ConnectionId, message: ClientMessage) {
        let Some(link) = self.link_of(device, connection) else {
            return;
        };
        if !matches!(message, ClientMessage::Ping | ClientMessage::Pong) {
            self.note(|| format!("{link}: {device} sends {}", Words(&message)));
        }
        let now = self.now();
        if let Some(at) = self.network.up(link, &message, &self.weather, now) {
            self.agenda.plan(at, Event::ToGateway { link, message });
        }
    }

    fn link_of(&self, device: DeviceNo, connection: ConnectionId) -> Option<LinkNo> {
        let life = self.devices.get(&device)?.device.life()?;
        self.network.link_of(device, life, connection)
    }

    /// The device's end is gone; the gateway learns of it behind what was sent before.
    fn close_at_device(&mut self, link: LinkNo) {
        let now = self.now();
        if self.network.alive(link).is_none() {
            return;
        }
        self.network.end(link);
        if let Some(at) = self.network.end_up(link, &self.weather, now) {
            self.agenda.plan(at, Event::EndsAtGateway { link });
        }
    }

    fn note_advance(&mut self, advance: &Advance) {
        if advance.trimmed.is_some() {
            self.coverage.note(Landmark::TrimPassed);
        }
        if advance.entries.len() > 1 {
            self.coverage.note(Landmark::CaughtUp);
        }
    }

    fn note_report(&mut self, device: DeviceNo, event: &ClientEvent) {
        self.note(|| format!("{device} reports {}", Words(event)));
        match event {
            ClientEvent::Sent(delivered) if delivered.duplicate => {
                self.coverage.note(Landmark::DuplicateSend)
            }
            ClientEvent::SendRefused(_) => self.coverage.note(Landmark::SendRefused),
            ClientEvent::Reset { .. } => self.coverage.note(Landmark::ResetByEpoch),
            ClientEvent::Refused { .. } => self.coverage.note(Landmark::SyncRefused),
            ClientEvent::Sent(_)
            | ClientEvent::Connected { .. }
            | ClientEvent::Disconnected { .. }
            | ClientEvent::Entries { .. }
            | ClientEvent::UpToDate { .. }
            | ClientEvent::TokenExpiring { .. }
            | ClientEvent::Topics { .. }
            | ClientEvent::TopicsRefused { .. }
            | ClientEvent::Fault(_)
            | ClientEvent::Stopped(_) => {}
        }
    }

    /// The connection breaks. Each end may learn of it, or not.
    pub(super) fn break_link(&mut self, link: LinkNo, device_learns: bool, now: std::time::Instant) {
        self.network.kill(link, now);
        let gateway_learns = self.dice.mischief.coin();
        if device_learns {
            let delay = self.dice.mischief.duration(Spread::millis(0, 500));
            self.plan_in(delay, Event::EndsAtDevice { link, closed: network_failure("reset by peer") });
        }
        if gateway_learns {
            let delay = self.dice.mischief.duration(Spread::millis(0, 500));
            self.plan_in(delay, Event::EndsAtGateway { link });
        }
        if !device_learns || !gateway_learns {
            self.coverage.note(Landmark::HalfOpen);
        }
        self.note(|| {
            format!("{link} breaks; device learns: {device_learns}; gateway learns: {gateway_learns}")
        });
    }
}

fn is_heartbeat(message: &ServerMessage) -> bool {
    matches!(message, ServerMessage::Ping | ServerMessage::Pong)
}
