//! How a world of chains ends: calm comes, and within bounded time everyone holds what the chains have.

use std::time::{Duration, Instant};

use super::{Chain, ChainWorld, Event};
use crate::weather::Weather;
use crate::{Guarantee, Violation};

/// Between two looks at whether all is well.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// From the calm to convergence. The longest way there is: a dead connection is noticed (35 s), its successor waits (45 s), a subscription
/// begins, and a node that had failed is asked again (45 s), and an operator comes (10 s).
const CONVERGENCE_MAX: Duration = Duration::from_secs(240);

/// How far a world is on its way to its end.
#[derive(Debug, Default)]
pub(super) struct Ending {
    calm_since: Option<Instant>,
    is_reached: bool,
}

impl Ending {
    pub(super) fn is_reached(&self) -> bool {
        self.is_reached
    }
}

impl ChainWorld {
    /// All mischief is over: everything runs, and nothing fails any more but the news.
    pub(super) fn calm_down(&mut self) {
        self.note(|| "--- the calm");
        let now = self.now();
        // News is still lost: nothing may depend on it.
        self.weather = Weather { news: self.weather.news, ..Weather::calm() };
        self.ending.calm_since = Some(now);
        self.store_is_down = false;
        for gateway in self.gateways.keys().copied().collect::<Vec<_>>() {
            self.gateway_starts(gateway);
        }
        for chain in self.chains.keys().copied().collect::<Vec<_>>() {
            let nodes = &mut self.chains.get_mut(&chain).expect("it is there").nodes;
            nodes.iter_mut().for_each(|node| node.become_honest());
            let nodes = nodes.len();
            self.grow(chain, |miner, coverage| miner.settle(coverage));
            for node in 0..nodes {
                self.node_hears(chain, node);
            }
            self.follower_starts(chain);
        }
        for reader in self.readers.keys().copied().collect::<Vec<_>>() {
            self.reader_starts(reader);
            let place = self.readers.get_mut(&reader).expect("it was added");
            if place.asleep_until.is_some() {
                place.asleep_until = Some(now);
                self.reader_wakes(reader);
            }
        }
        self.plan_in(LOOK_EVERY, Event::Look);
    }

    pub(super) fn look(&mut self) {
        self.plan_in(LOOK_EVERY, Event::Look);
        let Some(since) = self.ending.calm_since else { return };
        match self.converged() {
            Ok(()) => {
                self.note(|| "--- all have converged");
                self.ending.is_reached = true;
            }
            Err(violation) if self.now() - since > CONVERGENCE_MAX => self.uphold(Err(violation)),
            Err(_) => {}
        }
    }

    /// Whether every feed is where its chain is, and every client holds what its topics have.
    fn converged(&self) -> Result<(), Violation> {
        let late = |how: String| Violation::new(Guarantee::ReplayOrConverge, how);
        for (id, Chain { miner, record, .. }) in &self.chains {
            let (head, have) = (miner.reality.head(), record.as_ref().and_then(|record| record.info().block));
            if have != Some(head) {
                return Err(late(format!("the feed of chain {id} is at {have:?}, the chain at {head}")));
            }
        }
        for (no, place) in &self.readers {
            let chain = &self.chains[&place.reader.chain];
            let (Some(held), Some(record)) = (place.reader.held(), &chain.record) else {
                return Err(late(format!("{no} doesn't run")));
            };
            let complete =
                held.holder.is_complete(&held.fold, &place.reader.wish, record, &chain.miner.reality);
            complete
                .map_err(|violation| Violation { how: format!("{no}: {}", violation.how), ..violation })?;
        }
        Ok(())
    }
}
