//! What happens in the store, and how others hear of it.

use std::time::Duration;

use gapless_core::FeedNews;

use super::{Event, World};
use crate::dice::Spread;
use crate::gateway_model::{Found, Read};
use crate::names::{BatchNo, GatewayNo, Life};
use crate::store_model::{Answer, Down, Ended, Frame, LaneNo, Ticket, Waiting};
use crate::utterance::Utterance;
use crate::words::Words;
use crate::{Climate, Fault, Landmark};

/// Within which time a lost push is repaired.
const REPAIR_MAX: Duration = Duration::from_secs(10);

impl World {
    pub(super) fn append(&mut self, gateway: GatewayNo, waiting: Waiting) {
        let lane = self.store.commits.lane_of(gateway, &waiting.append.conv);
        self.store.commits.append(lane, waiting);
        self.pump_lane(lane);
    }

    pub(super) fn begin_read(&mut self, gateway: GatewayNo, life: Life, read: Read) {
        let delay = self.dice.store.duration(self.weather.read);
        // What is found may be old when it arrives, or newer than all news.
        let found = self.dice.store.coin().then(|| self.find(&read));
        self.plan_in(delay, Event::ReadEnds { gateway, life, read, found });
    }

    pub(super) fn find(&mut self, read: &Read) -> Result<Found, Down> {
        if self.store_is_down || self.dice.store.chance(self.weather.read_fails) {
            return Err(Down);
        }
        let limit = self.gateway_config.read_limit;
        Ok(match read {
            Read::Standings { user, after, .. } => {
                Found::Standings(self.store.standings(user, after.as_ref(), limit))
            }
            Read::LookUp { user, conv, .. } => Found::LookUp(self.store.standing(conv, user)),
            Read::Log { conv, after } => Found::Log(self.store.log(conv, *after, limit)),
            Read::Heads { convs } => Found::Heads(self.store.heads(convs)),
            Read::Page { user, conv, ask, .. } => {
                Found::Page(self.store.page(user, conv, *ask, self.options.fault))
            }
        })
    }

    /// An answer has arrived at the gateway that waits for it.
    pub(super) fn answered(&mut self, (ticket, outcome): Answer) {
        let Ticket::Send { link, rid, conv } = ticket else {
            return;
        };
        let Some((gateway, life)) = self.network.link(link).map(|link| link.gateway) else {
            return;
        };
        self.with_gateway(gateway, life, |model, now| model.handle_appended(link, rid, &conv, outcome, now))
    }

    /// The lane goes on; the transaction ends some time, one way or the other.
    pub(super) fn given_up(&mut self, batch: BatchNo) {
        self.note(|| format!("{batch} is given up by its lane"));
        let answers = self.store.commits.give_up(batch);
        self.pass_on(answers);
        self.pump_lanes();
    }

    pub(super) fn batch_ends(&mut self, batch: BatchNo, commits: bool) {
        let ended = if commits { self.store.commit(batch) } else { self.store.commits.roll_back(batch) };
        let Some(Ended { lane, answers, written, news }) = ended else {
            return;
        };
        self.note(|| format!("{batch} {}", if commits { "commits" } else { "rolls back" }));
        self.coverage.add(Landmark::CommitRolledBack, u64::from(!commits));
        self.coverage.add(Landmark::CommitUnheard, u64::from(commits && lane.is_none()));
        for (conv, position, entries) in written {
            self.note(|| format!("{batch}: {conv} is at {position} with {}", Words(&entries)));
            let checked = self.checks.committed(&conv, position.epoch, &entries);
            self.uphold(checked);
            if self.options.climate == Climate::LossyPushes {
                let users =
                    self.users.iter().filter(|user| self.checks.reference.may_see(user, &conv, position));
                let users = users.cloned().collect();
                self.plan_in(REPAIR_MAX, Event::Due { users, conv, position });
            }
        }
        self.pass_on(answers);
        if let Some(lane) = lane {
            self.publish(lane.gateway, news);
        }
        self.pump_lanes();
    }

    pub(super) fn store_is_back(&mut self) {
        self.store_is_down = false;
        self.note(|| "the store is back");
        self.pump_lanes();
    }

    /// The store can't be reached; what is under way ends one way or the other.
    pub(super) fn store_goes_down(&mut self, back_after: Duration) {
        self.store_is_down = true;
        self.coverage.note(Landmark::StoreOutage);
        self.note(|| "the store is down");
        for batch in self.store.commits.open_batches() {
            let answers = self.store.commits.give_up(batch);
            self.pass_on(answers);
        }
        self.pump_lanes();
        self.plan_in(back_after, Event::StoreIsBack);
    }

    pub(super) fn pump_lanes(&mut self) {
        for gateway in self.gateways.keys().copied().collect::<Vec<_>>() {
            for lane in self.store.commits.lanes_of(gateway) {
                self.pump_lane(lane);
            }
        }
    }

    /// Begins a lane's next transaction, if it can.
    fn pump_lane(&mut self, lane: LaneNo) {
        if self.store_is_down {
            let answers = self.store.commits.fail_waiting(lane);
            self.pass_on(answers);
            return;
        }
        while let Some(begun) = self.store.begin(lane, self.clock.timestamp()) {
            self.pass_on(begun.turned_away);
            for utterance in begun.refused.iter().filter_map(Utterance::of_body) {
                self.checks.refused(utterance);
            }
            if let Some(batch) = begun.batch {
                self.plan_fate(lane.gateway, batch);
            }
        }
    }

    /// Draws how a transaction ends: there are more ways than "well" and "not at all".
    fn plan_fate(&mut self, gateway: GatewayNo, batch: BatchNo) {
        let dice = &mut self.dice.store;
        let flush = dice.duration(self.weather.flush);
        let fails = dice.chance(self.weather.commit_fails);
        let commits = !fails || dice.coin();
        let is_given_up = fails && (commits || dice.coin());
        let share = u32::try_from(dice.below(1_001)).expect("it is small");
        if is_given_up {
            self.plan_in(flush * share / 1_000, Event::GivenUp { batch });
        }
        // What is given up may still hold its locks for long.
        let linger = Spread::millis(0, if is_given_up { 3_000 } else { 0 });
        let flush = flush + self.dice.store.duration(linger);
        self.plan_in(flush, Event::BatchEnds { batch, commits });

        match self.options.fault {
            Some(Fault::PushBeforeCommit) => {
                let (_, news) = self.store.commits.foretell(batch);
                self.publish(gateway, news);
            }
            Some(Fault::AnswerBeforeCommit) => {
                let (answers, _) = self.store.commits.foretell(batch);
                self.pass_on(answers);
            }
            Some(_) | None => {}
        }
    }

    pub(super) fn pass_on(&mut self, answers: Vec<Answer>) {
        for answer in answers {
            let delay = self.dice.store.duration(Spread::millis(0, 2));
            self.plan_in(delay, Event::Answered { answer });
        }
    }

    /// Sends the news of a commit to every gateway. Its own gets it in order, if at all.
    fn publish(&mut self, own: GatewayNo, news: Vec<FeedNews<Frame>>) {
        for gateway in self.gateways.keys().copied().collect::<Vec<_>>() {
            let Some(life) = self.life_of(gateway) else {
                continue;
            };
            for news in &news {
                self.send_news(gateway, life, gateway == own, news);
            }
        }
    }

    fn send_news(&mut self, gateway: GatewayNo, life: Life, is_own: bool, news: &FeedNews<Frame>) {
        let faults = self.weather.news;
        let dice = &mut self.dice.store;
        let (is_lost, is_doubled) = (dice.chance(faults.lost), dice.chance(faults.doubled) && !is_own);
        let doubled_late = is_doubled.then(|| dice.duration(faults.delay));
        let delay = dice.duration(faults.delay);
        if is_lost || is_doubled {
            self.coverage.note(Landmark::NewsMangled);
        }
        if is_lost {
            return;
        }
        let mut at = self.clock.now() + delay;
        if is_own {
            let place = self.gateways.get_mut(&gateway).expect("it was added");
            at = at.max(place.last_news);
            place.last_news = at;
        }
        self.agenda.plan(at, Event::News { gateway, life, news: news.clone() });
        if let Some(later) = doubled_late {
            self.agenda.plan(at + later, Event::News { gateway, life, news: news.clone() });
        }
    }
}
