//! What happens to blocks on their way into a store: mined, announced, asked for, followed.

use std::time::Duration;

use gapless_proto::ChainId;

use super::{Chain, ChainWorld, Event, Follower};
use crate::chains::coverage::{ChainCoverage, ChainLandmark};
use crate::chains::errand::Stand;
use crate::chains::follower_model::{self, Reply, Request};
use crate::chains::miner::Miner;
use crate::dice::Spread;
use crate::names::Life;
use crate::store_model::Down;

impl ChainWorld {
    /// Lets a chain grow or change, and its nodes hear of it, each in its time.
    pub(super) fn grow(&mut self, chain: ChainId, how: impl FnOnce(&mut Miner, &mut ChainCoverage)) {
        let Some(Chain { miner, nodes, .. }) = self.chains.get_mut(&chain) else { return };
        let before = miner.reality.head();
        how(miner, &mut self.coverage);
        let (head, nodes) = (miner.reality.head(), nodes.len());
        if head == before {
            return;
        }
        if head.number.get() > before.number.get() + 1 {
            self.coverage.note(ChainLandmark::HeadSkipped);
        }
        self.note(|| format!("chain {chain}: the head {before} becomes {head}"));
        for node in 0..nodes {
            let delay = self.dice.nodes.duration(self.weather.latency);
            self.plan_in(delay, Event::NodeHears { chain, node });
        }
    }

    pub(super) fn node_hears(&mut self, chain: ChainId, node: usize) {
        let now = self.now();
        let Some(Chain { miner, nodes, follower, .. }) = self.chains.get_mut(&chain) else { return };
        let announces = nodes[node].hear(&miner.reality, now);
        // Announcements get lost.
        if !announces || self.dice.nodes.below(4) == 0 {
            return;
        }
        if let Some(Follower { life, resting: Some((Some(waits_for), rest)), .. }) = follower
            && *waits_for == node
        {
            let (life, rest) = (*life, *rest);
            self.plan_in(Duration::from_millis(1), Event::FollowerWakes { chain, life, rest });
        }
    }

    pub(super) fn follower_starts(&mut self, chain: ChainId) {
        let (life, now, seed) = (self.new_life(), self.now(), self.dice.nodes.seed());
        let Some(Chain { follower, follower_config, .. }) = self.chains.get_mut(&chain) else { return };
        if follower.is_some() {
            return;
        }
        let model = follower_model::start(*follower_config, self.options.fault, seed, now);
        *follower = Some(Follower { life, model, resting: None, rests: 0, is_ingesting: false });
        self.note(|| format!("chain {chain}: a follower starts"));
        self.advance_follower(chain);
    }

    pub(super) fn crash_follower(&mut self, chain: ChainId, back_after: Duration) {
        let Some(Chain { follower, .. }) = self.chains.get_mut(&chain) else { return };
        let Some(gone) = follower.take() else { return };
        self.coverage.note(ChainLandmark::FollowerCrash);
        if gone.is_ingesting {
            self.coverage.note(ChainLandmark::FollowerCrashInIngestion);
        }
        self.note(|| format!("chain {chain}: the follower is killed"));
        self.plan_in(back_after, Event::FollowerStarts { chain });
    }

    pub(super) fn follower_wakes(&mut self, chain: ChainId, life: Life, rest: u64) {
        let Some(follower) = self.follower(chain, life) else { return };
        if follower.resting.is_some_and(|(_, number)| number == rest) {
            follower.resting = None;
            self.follower_answered(chain, life, Reply::Done);
        }
    }

    pub(super) fn follower_answered(&mut self, chain: ChainId, life: Life, reply: Reply) {
        let now = self.now();
        let Some(follower) = self.follower(chain, life) else { return };
        follower.is_ingesting = false;
        follower.model.answer(reply, now);
        self.advance_follower(chain);
    }

    /// The store looks for a follower, or a node answers it.
    pub(super) fn follower_asks(&mut self, chain: ChainId, life: Life, request: Request) {
        if self.follower(chain, life).is_none() {
            return;
        }
        let (now, is_down) = (self.now(), self.store_is_down);
        let is_failing = is_down || self.dice.store.chance(self.weather.read_fails);
        let Some(Chain { miner, nodes, finality, feed, .. }) = self.chains.get_mut(&chain) else { return };
        let reply = match request {
            Request::Node { node, ask } => {
                let (dice, coverage) = (&mut self.dice.nodes, &mut self.coverage);
                let answer = nodes[node].answer(&ask, &miner.reality, *finality, now, dice, coverage);
                self.note(|| format!("chain {chain}: node {node} is asked {ask:?}"));
                Reply::Node(answer)
            }
            Request::Info if is_failing => Reply::Info(Err(Down)),
            Request::Info => Reply::Info(Ok(feed.as_ref().map(|feed| feed.info()))),
            Request::Kept(_) if is_failing => Reply::Kept(Err(Down)),
            Request::Kept(hashes) => {
                let kept = feed.as_ref().map(|feed| feed.kept(&hashes)).unwrap_or_default();
                Reply::Kept(Ok(kept.iter().map(|block| (block.at.hash, block.is_canonical)).collect()))
            }
            Request::Ingest(_) | Request::Rest { .. } | Request::Alarm | Request::Note(_) => {
                unreachable!("these are done at once, or take their time in the store")
            }
        };
        let delay = self.dice.nodes.duration(self.weather.latency);
        self.plan_in(delay, Event::FollowerAnswered { chain, life, reply });
    }

    /// Lets a follower go on to what it can't do at once.
    fn advance_follower(&mut self, chain: ChainId) {
        loop {
            let now = self.now();
            let Some(Follower { life, model, resting, rests, is_ingesting }) =
                self.chains.get_mut(&chain).and_then(|chain| chain.follower.as_mut())
            else {
                return;
            };
            let life = *life;
            match model.advance() {
                Stand::Done(never) => match never {},
                Stand::Asks(Request::Note(landmark)) => {
                    model.answer(Reply::Done, now);
                    self.coverage.note(landmark);
                }
                Stand::Asks(Request::Alarm) => {
                    model.answer(Reply::Done, now);
                    self.coverage.note(ChainLandmark::Alarm);
                    self.note(|| format!("chain {chain}: the follower calls for an operator"));
                    self.operator_looks(chain);
                }
                Stand::Asks(Request::Rest { until, node }) => {
                    *rests += 1;
                    let rest = *rests;
                    *resting = Some((node, rest));
                    return self.agenda.plan(until, Event::FollowerWakes { chain, life, rest });
                }
                Stand::Asks(Request::Ingest(ingestion)) => {
                    *is_ingesting = true;
                    let delay = self.dice.store.duration(self.weather.flush);
                    return self.plan_in(delay, Event::Ingests { chain, life, ingestion });
                }
                Stand::Asks(request @ (Request::Node { .. } | Request::Info | Request::Kept(_))) => {
                    let delay = self.dice.nodes.duration(self.weather.latency);
                    let request = Box::new(request);
                    return self.plan_in(delay, Event::FollowerAsks { chain, life, request });
                }
            }
        }
    }

    /// Begins the feed anew if the chain really contradicts what can't be taken back; nodes say much.
    fn operator_looks(&mut self, chain: ChainId) {
        let Some(Chain { miner, feed: Some(feed), is_restarting, .. }) = self.chains.get_mut(&chain) else {
            return;
        };
        let Some(have) = feed.info().block.filter(|_| !*is_restarting) else { return };
        let shared = miner.reality.fork_point(have.hash, miner.reality.head().hash);
        if shared.is_some_and(|shared| shared.number >= feed.floor()) {
            return;
        }
        *is_restarting = true;
        let delay = self.dice.nodes.duration(Spread::millis(100, 10_000));
        self.plan_in(delay, Event::Restarts { chain });
    }

    fn follower(&mut self, chain: ChainId, life: Life) -> Option<&mut Follower> {
        let follower = self.chains.get_mut(&chain)?.follower.as_mut()?;
        (follower.life == life).then_some(follower)
    }
}
