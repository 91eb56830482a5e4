//! What happens at gateways.

use std::time::{Duration, Instant};

use gapless_client::Closed;
use gapless_core::FeedNews;
use gapless_proto::{ClientMessage, CloseCode};

use super::{Event, World, network_failure};
use crate::Landmark;
use crate::dice::Spread;
use crate::gateway_model::{Effect, Found, GatewayModel, Read};
use crate::names::{GatewayNo, Life, LinkNo};
use crate::store_model::{Down, Frame, Generation, Ticket, Waiting};
use crate::words::Words;

/// Between two looks at the store's heads, in ticks of a second.
const HEADS_EVERY: u64 = 3;

/// How long a gateway that drains waits for its connections.
const DRAIN_MAX: Duration = Duration::from_secs(10);

impl World {
    pub(super) fn gateway_starts(&mut self, gateway: GatewayNo) {
        let life = self.new_life();
        let model = GatewayModel::new(self.gateway_config, self.options.fault);
        let place = self.gateways.get_mut(&gateway).expect("it was added");
        if place.process.is_some() {
            return;
        }
        place.process = Some((life, model));
        self.note(|| format!("{gateway} starts"));
        self.plan_in(Duration::from_secs(1), Event::GatewayTick { gateway, life, ticks: 1 });
    }

    /// The process dies, and with it what waits for the store.
    pub(super) fn crash_gateway(&mut self, gateway: GatewayNo) {
        if self.life_of(gateway).is_some() {
            self.coverage.note(Landmark::GatewayCrash);
            self.end_process(gateway);
        }
    }

    /// The process says goodbye to everyone, and ends when they are gone or it has waited long enough.
    pub(super) fn drain_gateway(&mut self, gateway: GatewayNo) {
        let place = self.gateways.get_mut(&gateway).expect("it was added");
        let Some(life) = place.process.as_ref().map(|(life, _)| *life).filter(|_| !place.is_draining) else {
            return;
        };
        place.is_draining = true;
        self.coverage.note(Landmark::GatewayDrain);
        self.note(|| format!("{gateway} drains"));
        self.plan_in(DRAIN_MAX, Event::DrainEnds { gateway, life });
        self.with_gateway(gateway, life, GatewayModel::handle_drain)
    }

    pub(super) fn drain_ends(&mut self, gateway: GatewayNo, life: Life) {
        if self.process_mut(gateway, life).is_some() {
            self.end_process(gateway);
        }
    }

    /// The process is no more. Somebody starts it again.
    fn end_process(&mut self, gateway: GatewayNo) {
        let place = self.gateways.get_mut(&gateway).expect("it was added");
        place.is_draining = false;
        let Some((_, model)) = place.process.take() else {
            return;
        };
        self.coverage.add(Landmark::Overflow, model.overflows());
        self.store.commits.lose_lanes(gateway);
        let links = self.network.standing().filter(|(_, link)| link.gateway.0 == gateway);
        for link in links.map(|(link, _)| link).collect::<Vec<_>>() {
            // A process that dies has its connections closed; a machine that dies says nothing.
            let device_learns = self.dice.mischief.below(4) > 0;
            self.break_link(link, device_learns, self.clock.now());
        }
        let back_after = self.dice.mischief.duration(Spread::millis(0, 10_000));
        self.note(|| format!("{gateway} has ended"));
        self.plan_in(back_after, Event::GatewayStarts { gateway });
    }

    pub(super) fn connects(&mut self, link: LinkNo) {
        let Some(open) = self.network.alive(link) else {
            return;
        };
        let ((device, _), (gateway, life)) = (open.device, open.gateway);
        let user = self.devices.get(&device).expect("it was added").device.user.clone();
        let is_draining = self.gateways.get(&gateway).is_some_and(|place| place.is_draining);
        if is_draining || self.process_mut(gateway, life).is_none() {
            self.coverage.note(Landmark::ConnectFailed);
            self.network.kill(link, self.clock.now());
            let closed = network_failure("connection refused");
            self.plan_in(Duration::from_millis(5), Event::EndsAtDevice { link, closed });
            return;
        }
        self.with_gateway(gateway, life, |model, now| model.handle_opened(link, user, now))
    }

    pub(super) fn gateway_gets(&mut self, link: LinkNo, message: ClientMessage) {
        let Some(open) = self.network.alive(link) else {
            return;
        };
        let (gateway, life) = open.gateway;
        let present = match &message {
            ClientMessage::Send { conv, .. } => {
                self.store.commits.generation(self.store.commits.lane_of(gateway, conv))
            }
            ClientMessage::Sync { .. }
            | ClientMessage::Ack { .. }
            | ClientMessage::Renew { .. }
            | ClientMessage::Ping
            | ClientMessage::Subscribe(_)
            | ClientMessage::Unsubscribe { .. }
            | ClientMessage::Pong => Generation::default(),
        };
        self.with_gateway(gateway, life, |model, now| model.handle_message(link, message, present, now))
    }

    pub(super) fn ends_at_gateway(&mut self, link: LinkNo) {
        let Some(open) = self.network.link(link) else {
            return;
        };
        let (gateway, life) = open.gateway;
        self.with_gateway(gateway, life, |model, now| model.handle_closed(link, now))
    }

    pub(super) fn gateway_tick(&mut self, gateway: GatewayNo, life: Life, ticks: u64) {
        if self.process_mut(gateway, life).is_none() {
            return;
        }
        self.plan_in(Duration::from_secs(1), Event::GatewayTick { gateway, life, ticks: ticks + 1 });
        self.with_gateway(gateway, life, |model, now| {
            model.handle_tick(now);
            if ticks.is_multiple_of(HEADS_EVERY) {
                model.handle_heads_due();
            }
        })
    }

    pub(super) fn news_arrives(&mut self, gateway: GatewayNo, life: Life, news: FeedNews<Frame>) {
        self.note(|| format!("{gateway} hears {}", Words(&news)));
        self.with_gateway(gateway, life, |model, now| model.handle_news(news, now))
    }

    pub(super) fn read_ends(
        &mut self,
        gateway: GatewayNo,
        life: Life,
        read: Read,
        found: Option<Result<Found, Down>>,
    ) {
        let found = found.unwrap_or_else(|| self.find(&read));
        match &read {
            Read::Log { .. } => self.coverage.note(Landmark::LogFetched),
            Read::LookUp { .. } => self.coverage.note(Landmark::LookedUp),
            Read::Standings { .. } | Read::Heads { .. } | Read::Page { .. } => {}
        }
        if !matches!(read, Read::Heads { .. }) {
            self.note(|| format!("{gateway} reads {}: {}", Words(&read), Words(&found)));
        }
        self.with_gateway(gateway, life, |model, now| model.handle_read(read, found, now))
    }

    /// Lets a gateway take something in, if it still lives, and does what it wants.
    pub(super) fn with_gateway(
        &mut self,
        gateway: GatewayNo,
        life: Life,
        input: impl FnOnce(&mut GatewayModel, Instant),
    ) {
        let now = self.now();
        let Some(model) = self.process_mut(gateway, life) else {
            return;
        };
        input(model, now);
        while let Some(effect) = self.process_mut(gateway, life).and_then(GatewayModel::poll_effect) {
            self.do_for_gateway(gateway, life, effect);
        }
        let Some(model) = self.process_mut(gateway, life) else {
            return;
        };
        let (checked, is_deserted) = (model.check(), model.is_deserted());
        self.uphold(checked);
        if is_deserted && self.gateways.get(&gateway).is_some_and(|place| place.is_draining) {
            self.end_process(gateway);
        }
    }

    /// The life of a gateway's process, if it runs.
    pub(super) fn life_of(&self, gateway: GatewayNo) -> Option<Life> {
        self.gateways.get(&gateway)?.process.as_ref().map(|(life, _)| *life)
    }

    fn process_mut(&mut self, gateway: GatewayNo, life: Life) -> Option<&mut GatewayModel> {
        let (current, model) = self.gateways.get_mut(&gateway)?.process.as_mut()?;
        (*current == life).then_some(model)
    }

    fn do_for_gateway(&mut self, gateway: GatewayNo, life: Life, effect: Effect) {
        match effect {
            Effect::Read(read) => self.begin_read(gateway, life, read),
            Effect::Append { link, rid, append, generation } => {
                let ticket = Ticket::Send { link, rid, conv: append.conv.clone() };
                self.append(gateway, Waiting { ticket, append, generation });
            }
            Effect::Write { link, message } => {
                let now = self.now();
                let coverage = &mut self.coverage;
                for arrival in self.network.down(link, message, &self.weather, now, coverage) {
                    self.agenda.plan(arrival.at, Event::ToDevice { link, arrival });
                }
            }
            Effect::Close { link, code } => self.close_at_gateway(link, code),
        }
    }

    fn close_at_gateway(&mut self, link: LinkNo, code: CloseCode) {
        self.note(|| format!("{link}: the gateway closes it: {code}"));
        let now = self.now();
        if self.network.alive(link).is_none() {
            return;
        }
        self.network.end(link);
        let closed = Closed::ByServer { code: code.number(), reason: code.reason().to_owned() };
        if let Some(at) = self.network.end_down(link, &self.weather, now) {
            self.agenda.plan(at, Event::EndsAtDevice { link, closed });
        }
    }
}
