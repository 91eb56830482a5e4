//! What happens at clients.

use std::time::Duration;

use gapless_client::{Closed, ConnectionId, FoldError, TopicsTold};
use gapless_proto::{ClientMessage, Mode, ServerMessage, TopicResetReason};

use super::{ChainWorld, Event};
use crate::chains::coverage::ChainLandmark;
use crate::chains::holder::Client;
use crate::chains::reader::ReaderCommand;
use crate::dice::Spread;
use crate::names::{DeviceNo, Life, LinkNo};
use crate::network::Arrival;
use crate::world::network_failure;
use crate::{Guarantee, Violation};

/// By how much less than the retention one must have been away for a position to be gone: what a reader may lag behind while it is served.
const LAG_MAX: Duration = Duration::from_secs(100);

impl ChainWorld {
    pub(super) fn reader_starts(&mut self, reader: DeviceNo) {
        let life = self.new_life();
        let (config, seed, now) = (self.session_config, self.dice.readers.seed(), self.now());
        let place = self.readers.get_mut(&reader).expect("it was added");
        if place.reader.life().is_some() {
            return;
        }
        place.heard_at = place.saved_at;
        place.asleep_until = None;
        place.reader.start(config, life, seed, now);
        self.note(|| format!("{reader} starts"));
        self.settle_reader(reader);
    }

    pub(super) fn reader_gets(&mut self, link: LinkNo, arrival: Arrival) {
        let now = self.now();
        let Some(open) = self.network.alive(link) else { return };
        let ((reader, life), connection, (gateway, gateway_life)) =
            (open.device, open.connection, open.gateway);
        let place = self.readers.get_mut(&reader).expect("it was added");
        if place.reader.life() != Some(life) {
            return;
        }
        if place.asleep_until.is_some() {
            return place.unread.push(Event::ToReader { link, arrival });
        }
        if let Some(message) = arrival.message {
            if matches!(message, ServerMessage::Welcome(_)) {
                place.away_since = place.heard_at;
            }
            place.heard_at = now;
            place.reader.handle_message(connection, message, now);
            self.settle_reader(reader);
        }
        self.with_gateway(gateway, gateway_life, |model, now| model.handle_taken(link, now));
    }

    pub(super) fn ends_at_reader(&mut self, link: LinkNo, closed: Closed) {
        let now = self.now();
        let Some(open) = self.network.link(link) else { return };
        let ((reader, life), connection) = (open.device, open.connection);
        let place = self.readers.get_mut(&reader).expect("it was added");
        if place.asleep_until.is_some() {
            return place.unread.push(Event::EndsAtReader { link, closed });
        }
        if place.reader.life() != Some(life) {
            return;
        }
        place.reader.handle_closed(connection, closed, now);
        self.settle_reader(reader);
    }

    pub(super) fn reader_timer(&mut self, reader: DeviceNo) {
        let now = self.now();
        let place = self.readers.get_mut(&reader).expect("it was added");
        if place.timer.is_none_or(|timer| timer > now) {
            return;
        }
        place.timer = None;
        if place.asleep_until.is_none() {
            place.reader.handle_timeout(now);
        }
        self.settle_reader(reader);
    }

    pub(super) fn fall_asleep(&mut self, reader: DeviceNo) {
        let how_long = self.dice.mischief.duration(Spread::millis(500, 200_000));
        let wake = self.clock.now() + how_long;
        let place = self.readers.get_mut(&reader).expect("it was added");
        if place.reader.life().is_none() || place.asleep_until.is_some() {
            return;
        }
        place.asleep_until = Some(wake);
        self.agenda.plan(wake, Event::ReaderWakes { reader });
        self.coverage.note(ChainLandmark::ReaderSlept);
        self.note(|| format!("{reader} sleeps for {how_long:?}"));
    }

    pub(super) fn reader_wakes(&mut self, reader: DeviceNo) {
        let now = self.now();
        let place = self.readers.get_mut(&reader).expect("it was added");
        if place.asleep_until.is_none_or(|wake| wake > now) {
            return;
        }
        place.asleep_until = None;
        let unread = std::mem::take(&mut place.unread);
        // Some machines tell their processes that they have slept.
        if self.dice.readers.coin() {
            place.reader.handle_wake(now);
        }
        self.note(|| format!("{reader} wakes"));
        self.settle_reader(reader);
        unread.into_iter().for_each(|event| self.step(event));
    }

    pub(super) fn crash_reader(&mut self, reader: DeviceNo, back_after: Duration) {
        let place = self.readers.get_mut(&reader).expect("it was added");
        if place.reader.life().is_none() {
            return;
        }
        self.coverage.note(ChainLandmark::ReaderCrash);
        if place.reader.crash() {
            self.coverage.note(ChainLandmark::ReaderLostSome);
        }
        (place.asleep_until, place.unread) = (None, Vec::new());
        self.note(|| format!("{reader} is killed"));
        self.leave_links(reader);
        self.plan_in(back_after, Event::ReaderStarts { reader });
    }

    /// The application can't go on with what it has, and starts from nothing.
    fn start_over(&mut self, reader: DeviceNo) {
        let now = self.now();
        let place = self.readers.get_mut(&reader).expect("it was added");
        place.reader.forget();
        place.saved_at = now;
        self.note(|| format!("{reader} starts over"));
        self.leave_links(reader);
        let back_after = self.dice.readers.duration(Spread::millis(10, 5_000));
        self.plan_in(back_after, Event::ReaderStarts { reader });
    }

    fn leave_links(&mut self, reader: DeviceNo) {
        let links = self.network.standing().filter(|(_, link)| link.device.0 == reader);
        for link in links.map(|(link, _)| link).collect::<Vec<_>>() {
            self.break_link(link, false);
        }
    }

    /// The connection breaks. Each end may learn of it, or not.
    pub(super) fn break_link(&mut self, link: LinkNo, reader_learns: bool) {
        self.network.kill(link, self.clock.now());
        self.coverage.note(ChainLandmark::LinkBroken);
        if reader_learns {
            let delay = self.dice.mischief.duration(Spread::millis(0, 500));
            self.plan_in(delay, Event::EndsAtReader { link, closed: network_failure("reset by peer") });
        }
        if self.dice.mischief.coin() {
            let delay = self.dice.mischief.duration(Spread::millis(0, 500));
            self.plan_in(delay, Event::EndsAtGateway { link });
        }
        self.note(|| format!("{link} breaks"));
    }

    /// Does what a client wants done, and plans its timer.
    fn settle_reader(&mut self, reader: DeviceNo) {
        while let Some(command) = self.readers.get_mut(&reader).and_then(|place| place.reader.poll_command())
        {
            match command {
                ReaderCommand::Connect { connection } => self.connect(reader, connection),
                ReaderCommand::Transmit { connection, message } => self.transmit(reader, connection, message),
                ReaderCommand::Close { connection } => {
                    if let Some(link) = self.link_of(reader, connection) {
                        self.close_at_reader(link);
                    }
                }
                ReaderCommand::Told(told) => self.told(reader, &told),
                ReaderCommand::Refused => return self.start_over(reader),
            }
        }
        let now = self.now();
        let place = self.readers.get_mut(&reader).expect("it was added");
        let awake = place.asleep_until.unwrap_or(now);
        if let Some(due) = place.reader.poll_timeout().map(|due| due.max(awake))
            && place.timer.is_none_or(|timer| due < timer)
        {
            place.timer = Some(due);
            self.agenda.plan(due, Event::ReaderTimer { reader });
        }
    }

    /// The application is told something, makes of it what it does, and is checked.
    fn told(&mut self, no: DeviceNo, told: &TopicsTold) {
        self.note(|| format!("{no} is told {}", Brief(told)));
        self.note_reset(told);
        let saves = self.dice.readers.below(3) > 0;
        let now = self.now();
        let place = self.readers.get_mut(&no).expect("it was added");
        let away = now - place.away_since;
        // Who waits for confirmation lags by as long as the blocks take to come.
        let lag_max = match place.reader.wish.mode {
            Mode::Instant => LAG_MAX,
            Mode::Confirmed => 3 * LAG_MAX,
        };
        let client = Client {
            wants_snapshot: place.reader.wants_snapshot(),
            was_long_away: self.retention.is_some_and(|retention| away + lag_max >= retention),
        };
        let Some(record) = self.chains.get(&place.reader.chain).and_then(|chain| chain.record.as_ref())
        else {
            return;
        };
        let Some((held, wish)) = place.reader.held_mut() else { return };
        let checked = held.holder.handle(told, wish, client, record, &mut self.coverage);
        let folded = place.reader.take(told);
        let checked = checked.and_then(|()| match folded {
            Ok(()) => {
                let held = place.reader.held().expect("it runs");
                held.holder.check_fold(&held.fold)
            }
            Err(FoldError::TooDeep) => Ok(()),
            Err(FoldError::Cursor(error)) => {
                Err(Violation::new(Guarantee::HonestPositions, format!("{no}: {error}")))
            }
        });
        if saves {
            place.reader.save();
            // What it holds is no newer because it was told that it goes on.
            if !matches!(told, TopicsTold::Begun { .. }) {
                place.saved_at = now;
            }
        }
        self.uphold(
            checked.map_err(|violation| Violation { how: format!("{no}: {}", violation.how), ..violation }),
        );
        if folded == Err(FoldError::TooDeep) {
            self.coverage.note(ChainLandmark::FoldTooDeep);
            self.start_over(no);
        }
    }

    fn note_reset(&mut self, told: &TopicsTold) {
        let TopicsTold::Reset(reason) = told else { return };
        self.coverage.note(match reason {
            TopicResetReason::CursorExpired => ChainLandmark::ResetExpired,
            TopicResetReason::CursorAhead => ChainLandmark::ResetAhead,
            TopicResetReason::EpochChanged => ChainLandmark::ResetEpoch,
            TopicResetReason::SlowConsumer => ChainLandmark::ResetSlow,
            TopicResetReason::DeepReorg => ChainLandmark::ResetDeep,
            TopicResetReason::Unknown => return,
        });
    }

    fn connect(&mut self, reader: DeviceNo, connection: ConnectionId) {
        let gateways: Vec<_> = self.gateways.keys().copied().collect();
        let gateway = self.dice.readers.pick(&gateways).expect("there is a gateway");
        let process = self.gateways.get(&gateway).and_then(|gateway| gateway.process.as_ref());
        let gateway_life = process.map_or(Life(0), |(life, _)| *life);
        let life = self.readers[&reader].reader.life().expect("only a running process connects");
        let (ends, now) = ((gateway, gateway_life), self.now());
        let (link, at) = self.network.open((reader, life), connection, ends, &self.weather, now);
        self.note(|| format!("{link}: {reader} connects to {gateway}"));
        self.agenda.plan(at, Event::Connects { link });
    }

    fn transmit(&mut self, reader: DeviceNo, connection: ConnectionId, message: ClientMessage) {
        let Some(link) = self.link_of(reader, connection) else { return };
        if let ClientMessage::Subscribe(subscribe) = &message {
            let cursor = subscribe.cursor.as_ref().map_or("nothing", |cursor| cursor.as_str()).to_owned();
            self.note(|| format!("{link}: {reader} subscribes after {cursor}"));
        }
        let now = self.now();
        if let Some(at) = self.network.up(link, &message, &self.weather, now) {
            self.agenda.plan(at, Event::ToGateway { link, message });
        }
    }

    fn link_of(&self, reader: DeviceNo, connection: ConnectionId) -> Option<LinkNo> {
        let life = self.readers.get(&reader)?.reader.life()?;
        self.network.link_of(reader, life, connection)
    }

    fn close_at_reader(&mut self, link: LinkNo) {
        let now = self.now();
        if self.network.alive(link).is_none() {
            return;
        }
        self.network.end(link);
        if let Some(at) = self.network.end_up(link, &self.weather, now) {
            self.agenda.plan(at, Event::EndsAtGateway { link });
        }
    }
}

/// What was told, in a few words.
struct Brief<'a>(&'a TopicsTold);

impl std::fmt::Display for Brief<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            TopicsTold::Begun { cursor } => write!(f, "that it begins after {cursor}"),
            TopicsTold::Snapshot(snapshot) => {
                let count: usize = snapshot.state.values().map(|values| values.len()).sum();
                write!(f, "{count} values at {}, more: {}", snapshot.cursor, snapshot.has_more)
            }
            TopicsTold::Event(event) => write!(f, "of {} at {}", event.topic, event.cursor),
            TopicsTold::Revoke { cursor } => write!(f, "that all after {cursor} is void"),
            TopicsTold::Progress { cursor } => write!(f, "that nothing happened up to {cursor}"),
            TopicsTold::Reset(reason) => write!(f, "to start over: {reason:?}"),
        }
    }
}
