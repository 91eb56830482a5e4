//! What happens at gateways.

use std::time::{Duration, Instant};

use gapless_client::Closed;
use gapless_proto::{ClientMessage, CloseCode};

use super::{ChainWorld, Event};
use crate::chains::coverage::ChainLandmark;
use crate::chains::gateway_model::{ChainGateway, Effect};
use crate::dice::Spread;
use crate::names::{GatewayNo, Life, LinkNo};
use crate::world::network_failure;

/// Between two comparisons of where the chains' feeds are, in ticks of a second.
const POLL_EVERY: u64 = 3;

impl ChainWorld {
    pub(super) fn gateway_starts(&mut self, gateway: GatewayNo) {
        let life = self.new_life();
        let model = ChainGateway::new(self.gateway_config, self.options.fault);
        let place = self.gateways.get_mut(&gateway).expect("it was added");
        if place.process.is_some() {
            return;
        }
        place.process = Some((life, model));
        self.note(|| format!("{gateway} starts"));
        self.plan_in(Duration::from_secs(1), Event::GatewayTick { gateway, life, ticks: 1 });
    }

    pub(super) fn crash_gateway(&mut self, gateway: GatewayNo) {
        let place = self.gateways.get_mut(&gateway).expect("it was added");
        if place.process.take().is_none() {
            return;
        }
        self.coverage.note(ChainLandmark::GatewayCrash);
        self.note(|| format!("{gateway} is killed"));
        let links = self.network.standing().filter(|(_, link)| link.gateway.0 == gateway);
        for link in links.map(|(link, _)| link).collect::<Vec<_>>() {
            let reader_learns = self.dice.mischief.below(4) > 0;
            self.break_link(link, reader_learns);
        }
        let back_after = self.dice.mischief.duration(Spread::millis(0, 10_000));
        self.plan_in(back_after, Event::GatewayStarts { gateway });
    }

    pub(super) fn gateway_tick(&mut self, gateway: GatewayNo, life: Life, ticks: u64) {
        if self.process_mut(gateway, life).is_none() {
            return;
        }
        self.plan_in(Duration::from_secs(1), Event::GatewayTick { gateway, life, ticks: ticks + 1 });
        self.with_gateway(gateway, life, |model, now| {
            model.handle_tick(now);
            if ticks.is_multiple_of(POLL_EVERY) {
                model.handle_poll_due();
            }
        });
    }

    pub(super) fn connects(&mut self, link: LinkNo) {
        let Some(open) = self.network.alive(link) else { return };
        let ((reader, _), (gateway, life)) = (open.device, open.gateway);
        let user = self.readers.get(&reader).expect("it was added").reader.user.clone();
        if self.process_mut(gateway, life).is_none() {
            self.network.kill(link, self.clock.now());
            let closed = network_failure("connection refused");
            return self.plan_in(Duration::from_millis(5), Event::EndsAtReader { link, closed });
        }
        self.with_gateway(gateway, life, |model, now| model.handle_opened(link, user, now));
    }

    pub(super) fn gateway_gets(&mut self, link: LinkNo, message: ClientMessage) {
        let Some(open) = self.network.alive(link) else { return };
        let (gateway, life) = open.gateway;
        self.with_gateway(gateway, life, |model, now| model.handle_message(link, message, now));
    }

    pub(super) fn ends_at_gateway(&mut self, link: LinkNo) {
        let Some(open) = self.network.link(link) else { return };
        let (gateway, life) = open.gateway;
        self.with_gateway(gateway, life, |model, _| model.handle_closed(link));
    }

    /// Lets a gateway take something in, if it still lives, and does what it wants.
    pub(super) fn with_gateway(
        &mut self,
        gateway: GatewayNo,
        life: Life,
        input: impl FnOnce(&mut ChainGateway, Instant),
    ) {
        let now = self.now();
        let Some(model) = self.process_mut(gateway, life) else { return };
        input(model, now);
        let passed = model.take_coverage();
        self.coverage.merge(&passed);
        while let Some(effect) = self.process_mut(gateway, life).and_then(ChainGateway::poll_effect) {
            self.do_for_gateway(gateway, life, effect);
        }
    }

    fn do_for_gateway(&mut self, gateway: GatewayNo, life: Life, effect: Effect) {
        match effect {
            Effect::Read { ticket, chain, ask, pause } => {
                let delay = pause + self.dice.store.duration(self.weather.read);
                // What is found may be old when it arrives, or newer than all news.
                let is_now = pause.is_zero() && self.dice.store.coin();
                let found = is_now.then(|| self.find(chain, &ask));
                self.plan_in(delay, Event::Found { gateway, life, ticket, chain, ask, found });
            }
            Effect::Write { link, message } => {
                let now = self.now();
                if let Some(arrival) = self.network.down_in_order(link, message, &self.weather, now) {
                    self.agenda.plan(arrival.at, Event::ToReader { link, arrival });
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
            self.agenda.plan(at, Event::EndsAtReader { link, closed });
        }
    }

    fn process_mut(&mut self, gateway: GatewayNo, life: Life) -> Option<&mut ChainGateway> {
        let (current, model) = self.gateways.get_mut(&gateway)?.process.as_mut()?;
        (*current == life).then_some(model)
    }
}
