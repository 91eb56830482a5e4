//! What makers of blocks, operators and misfortune do to a world of chains.

use std::fmt;

use gapless_proto::ChainId;

use super::{Chain, ChainWorld, Event};
use crate::chains::coverage::ChainLandmark;
use crate::chains::simulation::ChainOptions;
use crate::dice::{Dice, Spread};
use crate::names::DeviceNo;
use crate::plan::Plan;

macro_rules! mischief {
    ($($(#[$doc:meta])* $name:ident: $weight:literal,)*) => {
        /// Something that is done to a world of chains from outside.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum ChainMischief {
            $($(#[$doc])* $name,)*
        }

        impl ChainMischief {
            /// All there are.
            pub const ALL: [Self; [$($weight),*].len()] = [$(Self::$name,)*];

            /// How often it is drawn, compared with others.
            const fn weight(self) -> usize {
                match self {
                    $(Self::$name => $weight,)*
                }
            }
        }
    };
}

mischief! {
    /// A few blocks are mined.
    Mine: 60,
    /// Many blocks are mined at once.
    MineMany: 3,
    /// A chain leaves some blocks for a branch that is as long or longer.
    Reorg: 8,
    /// A chain leaves some blocks for a shorter branch.
    ReorgToShorter: 4,
    /// A chain comes back to a branch that it has left.
    ComeBack: 5,
    /// Two reorgs come within 50 ms.
    TwoReorgs: 3,
    /// Empty blocks are left for empty ones.
    ReorgEmpty: 3,
    /// A sibling takes the head's place.
    SwapSibling: 4,
    /// The head's transactions are mined again one block later.
    MineAgainLater: 3,
    /// The head's transactions are mined again in the same place of another block.
    MineAgainInPlace: 4,
    /// Some blocks are gone, and there is nothing in their place yet.
    RollBack: 2,
    /// A chain takes back what can't be taken back.
    ReorgDeep: 1,
    /// A node's head stands still for a while.
    FreezeNode: 4,
    /// A node goes over to a branch that isn't canonical.
    StrayNode: 4,
    /// A node can't be reached for a while.
    LoseNode: 3,
    /// A follower's process is killed and started again.
    CrashFollower: 6,
    /// A gateway's process is killed and started again.
    CrashGateway: 4,
    /// The store can't be reached for a while.
    LoseStore: 3,
    /// A connection breaks.
    BreakLink: 8,
    /// A connection brings nothing for a while.
    StallReader: 8,
    /// A client sleeps for a while.
    Sleep: 4,
    /// A client's process is killed and started again.
    CrashReader: 6,
    /// An operator takes a backup.
    BackUp: 3,
    /// An operator restores the last backup and raises every epoch.
    Restore: 2,
}

impl fmt::Display for ChainMischief {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl std::str::FromStr for ChainMischief {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let mut all = Self::ALL.into_iter();
        all.find(|mischief| mischief.to_string() == name)
            .ok_or_else(|| format!("there is no mischief {name}; there are {:?}", Self::ALL))
    }
}

/// Each kind is left out of about a third of the worlds, and frequent in another third.
pub(super) fn plan(dice: &mut Dice, options: &ChainOptions) -> Plan<ChainMischief> {
    let mut lots = Vec::new();
    for mischief in ChainMischief::ALL {
        let drawn = dice.pick(&[0, 1, 4]).expect("there are some");
        let times = if mischief == ChainMischief::Mine { 1 } else { drawn };
        if !options.without.contains(&mischief) {
            lots.extend(std::iter::repeat_n(mischief, mischief.weight() * times));
        }
    }
    let pause = match dice.below(4) {
        0 => Spread::millis(1, 200),
        1 => Spread::millis(50, 1_500),
        2 => Spread::millis(200, 6_000),
        _ => Spread::millis(500, 20_000),
    };
    Plan::new(lots, pause, options.mischief_max, dice)
}

impl ChainWorld {
    pub(super) fn do_mischief(&mut self) {
        let Some(mischief) = self.mischief.draw(&mut self.dice.mischief) else {
            return self.calm_down();
        };
        let pause = self.dice.mischief.duration(self.mischief.pause());
        self.plan_in(pause, Event::Mischief);
        self.note(|| format!("--- {mischief}"));
        let chain = self.any_chain();
        match mischief {
            ChainMischief::Mine => {
                let blocks = 1 + self.dice.mischief.below(2);
                self.grow(chain, |miner, coverage| miner.mine(blocks, coverage));
            }
            ChainMischief::MineMany => {
                let blocks = 5 + self.dice.mischief.below(20);
                self.grow(chain, |miner, coverage| miner.mine(blocks, coverage));
            }
            ChainMischief::Reorg => self.grow(chain, |miner, coverage| miner.reorg(coverage)),
            ChainMischief::ReorgToShorter => {
                self.grow(chain, |miner, coverage| miner.reorg_to_shorter(coverage));
            }
            ChainMischief::ComeBack => self.grow(chain, |miner, coverage| miner.come_back(coverage)),
            ChainMischief::TwoReorgs => self.reorg_twice(chain),
            ChainMischief::ReorgEmpty => {
                self.grow(chain, |miner, coverage| miner.reorg_empty(coverage));
                let delay = self.dice.mischief.duration(Spread::millis(10, 8_000));
                self.plan_in(delay, Event::EndsEmpty { chain });
            }
            ChainMischief::SwapSibling => self.grow(chain, |miner, coverage| miner.swap_sibling(coverage)),
            ChainMischief::MineAgainLater => {
                self.grow(chain, |miner, coverage| miner.mine_again_later(coverage));
            }
            ChainMischief::MineAgainInPlace => {
                self.grow(chain, |miner, coverage| miner.mine_again_in_place(coverage));
            }
            ChainMischief::RollBack => self.grow(chain, |miner, coverage| miner.roll_back(coverage)),
            ChainMischief::ReorgDeep => self.reorg_deep(chain),
            ChainMischief::FreezeNode => self.freeze_node(chain),
            ChainMischief::StrayNode => self.stray_node(chain),
            ChainMischief::LoseNode => self.lose_node(chain),
            ChainMischief::CrashFollower => {
                let back_after = self.dice.mischief.duration(Spread::millis(0, 10_000));
                self.crash_follower(chain, back_after);
            }
            ChainMischief::CrashGateway => {
                let gateways: Vec<_> = self.gateways.keys().copied().collect();
                let gateway = self.dice.mischief.pick(&gateways).expect("there is a gateway");
                self.crash_gateway(gateway);
            }
            ChainMischief::LoseStore => self.lose_store(),
            ChainMischief::BreakLink => {
                let reader_learns = self.dice.mischief.below(3) > 0;
                if let Some(link) = self.any_link() {
                    self.break_link(link, reader_learns);
                }
            }
            ChainMischief::StallReader => self.stall_reader(),
            ChainMischief::Sleep => {
                let reader = self.any_reader();
                self.fall_asleep(reader);
            }
            ChainMischief::CrashReader => {
                let back_after = self.dice.mischief.duration(Spread::millis(0, 60_000));
                let reader = self.any_reader();
                self.crash_reader(reader, back_after);
            }
            ChainMischief::BackUp => self.back_up(),
            ChainMischief::Restore => self.restore(),
        }
    }

    fn reorg_twice(&mut self, chain: ChainId) {
        self.coverage.note(ChainLandmark::TwoReorgsAtOnce);
        self.grow(chain, |miner, coverage| miner.reorg(coverage));
        let Some(Chain { miner, .. }) = self.chains.get_mut(&chain) else { return };
        let moment = miner.moment();
        self.plan_in(moment, Event::ReorgAgain { chain });
    }

    fn reorg_deep(&mut self, chain: ChainId) {
        let Some(Chain { finality, follower_config, .. }) = self.chains.get(&chain) else { return };
        let deepest = (*finality).max(follower_config.window);
        let depth = (*finality).min(follower_config.window) + 1;
        let more = u64::try_from(self.dice.mischief.below(usize::try_from(deepest).expect("it is small")));
        let depth = depth + more.expect("it is small");
        self.grow(chain, |miner, coverage| miner.reorg_deep(depth, coverage));
    }

    fn freeze_node(&mut self, chain: ChainId) {
        let until = self.now() + self.dice.mischief.duration(Spread::millis(500, 40_000));
        if let Some(node) = self.any_node(chain) {
            self.coverage.note(ChainLandmark::NodeFrozen);
            self.chains.get_mut(&chain).expect("it is there").nodes[node].freeze(until);
        }
    }

    fn stray_node(&mut self, chain: ChainId) {
        let until = self.now() + self.dice.mischief.duration(Spread::millis(500, 20_000));
        let Some(node) = self.any_node(chain) else { return };
        let Some(Chain { miner, nodes, .. }) = self.chains.get_mut(&chain) else { return };
        if let Some(tip) = self.dice.mischief.pick(&miner.reality.orphan_tips()) {
            self.coverage.note(ChainLandmark::NodeStrayed);
            nodes[node].stray(tip.hash, until);
            self.note(|| format!("chain {chain}: node {node} strays to {tip}"));
        }
    }

    fn lose_node(&mut self, chain: ChainId) {
        let until = self.now() + self.dice.mischief.duration(Spread::millis(500, 30_000));
        if let Some(node) = self.any_node(chain) {
            self.chains.get_mut(&chain).expect("it is there").nodes[node].go_down(until);
        }
    }

    fn stall_reader(&mut self) {
        let how_long = self.dice.mischief.duration(Spread::millis(500, 40_000));
        if let Some(link) = self.any_link() {
            self.network.stall(link, self.clock.now() + how_long);
            self.coverage.note(ChainLandmark::ReaderStalled);
            self.note(|| format!("{link} brings nothing for {how_long:?}"));
        }
    }

    fn any_chain(&mut self) -> ChainId {
        let chains: Vec<_> = self.chains.keys().copied().collect();
        self.dice.mischief.pick(&chains).expect("there is a chain")
    }

    fn any_node(&mut self, chain: ChainId) -> Option<usize> {
        let nodes = self.chains.get(&chain)?.nodes.len();
        Some(self.dice.mischief.below(nodes))
    }

    fn any_reader(&mut self) -> DeviceNo {
        let readers: Vec<_> = self.readers.keys().copied().collect();
        self.dice.mischief.pick(&readers).expect("there is a reader")
    }

    fn any_link(&mut self) -> Option<crate::names::LinkNo> {
        let links: Vec<_> = self.network.standing().map(|(link, _)| link).collect();
        self.dice.mischief.pick(&links)
    }
}
