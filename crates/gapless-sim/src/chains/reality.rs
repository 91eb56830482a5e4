//! What really happened on a chain: every block that was ever mined, and which ones are canonical now.

use std::collections::{BTreeMap, BTreeSet};

use gapless_chain::{Header, Log};
use gapless_proto::{BlockHash, BlockNumber, BlockRef, ChainId, Topic, ValueKey};

use super::contracts::{self, Deed, HOLDERS, MARKS, TopicKind, Transaction};

/// A chain as nobody sees it.
#[derive(Debug)]
pub(super) struct Reality {
    chain: ChainId,
    blocks: BTreeMap<BlockHash, Mined>,
    canonical: BTreeMap<BlockNumber, BlockHash>,
    count: u64,
}

/// A block that was mined.
#[derive(Debug)]
pub(super) struct Mined {
    pub(super) header: Header,
    pub(super) transactions: Vec<Transaction>,
    pub(super) logs: Vec<Log>,
    /// Its events, by their logs.
    pub(super) events: Vec<TrueEvent>,
    /// What all blocks up to this one come to.
    pub(super) after: Totals,
}

/// An event as readers should get it.
#[derive(Debug)]
pub(super) struct TrueEvent {
    pub(super) log: u32,
    pub(super) topic: TopicKind,
    pub(super) payload: String,
    /// Which values it changes.
    keys: Vec<ValueKey>,
    /// What all up to this one come to.
    after: Totals,
}

/// What the events of a branch come to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) events: u64,
    balances: [i64; HOLDERS],
    moves: [u32; HOLDERS],
    marks: [u64; MARKS],
    marked: [u32; MARKS],
}

/// Values by topic and key, as JSON.
pub(super) type Values = BTreeMap<(Topic, ValueKey), String>;

impl Reality {
    /// A chain with nothing but its block 0.
    pub(super) fn new(chain: ChainId) -> Self {
        let mut reality = Self { chain, blocks: BTreeMap::new(), canonical: BTreeMap::new(), count: 0 };
        let genesis = reality.mine_on(BlockHash([0; 32]), 0, Vec::new(), 0);
        reality.make_head(genesis);
        reality
    }

    /// The newest canonical block.
    pub(super) fn head(&self) -> BlockRef {
        let (number, hash) = self.canonical.last_key_value().expect("there is a block 0");
        BlockRef { number: *number, hash: *hash }
    }

    /// The canonical block of a height, or the next below it.
    pub(super) fn canonical_at(&self, number: u64) -> BlockRef {
        let number = BlockNumber::new(number).expect("chains are short");
        let (number, hash) = self.canonical.range(..=number).next_back().expect("there is a block 0");
        BlockRef { number: *number, hash: *hash }
    }

    pub(super) fn is_canonical(&self, block: BlockRef) -> bool {
        self.canonical.get(&block.number) == Some(&block.hash)
    }

    pub(super) fn block(&self, hash: BlockHash) -> Option<&Mined> {
        self.blocks.get(&hash)
    }

    /// The blocks from one down to block 0, newest first.
    pub(super) fn branch(&self, tip: BlockHash) -> impl Iterator<Item = &Mined> {
        std::iter::successors(self.blocks.get(&tip), |block| self.blocks.get(&block.header.parent))
    }

    /// Whether a block is another's ancestor, or the same.
    pub(super) fn is_ancestor(&self, ancestor: BlockRef, tip: BlockHash) -> bool {
        let mut branch = self.branch(tip).map(|block| block.header.at);
        branch.find(|at| at.number <= ancestor.number) == Some(ancestor)
    }

    /// The last block that two branches share.
    pub(super) fn fork_point(&self, one: BlockHash, other: BlockHash) -> Option<BlockRef> {
        let others: BTreeSet<_> = self.branch(other).map(|block| block.header.at).collect();
        self.branch(one).map(|block| block.header.at).find(|at| others.contains(at))
    }

    /// The blocks that are nobody's parent and not canonical.
    pub(super) fn orphan_tips(&self) -> Vec<BlockRef> {
        let parents: BTreeSet<_> = self.blocks.values().map(|block| block.header.parent).collect();
        let tips = self.blocks.values().map(|block| block.header.at);
        tips.filter(|at| !self.is_canonical(*at) && !parents.contains(&at.hash)).collect()
    }

    /// Mines a block on another, `gap` heights above it and one more; it isn't canonical yet. The logs are numbered from `first_log`.
    pub(super) fn mine_on(
        &mut self,
        parent: BlockHash,
        gap: u64,
        transactions: Vec<Transaction>,
        first_log: u32,
    ) -> BlockHash {
        let (number, before) = match self.blocks.get(&parent) {
            Some(parent) => (parent.header.at.number.get() + 1 + gap, parent.after),
            None => (0, Totals::default()),
        };
        let at =
            BlockRef { number: BlockNumber::new(number).expect("chains are short"), hash: self.new_hash() };
        let (mut logs, mut events, mut after) = (Vec::new(), Vec::new(), before);
        for transaction in &transactions {
            let log = first_log + u32::try_from(logs.len()).expect("blocks are small");
            let keys = after.add(transaction.deed);
            if let Some((topic, payload)) = transaction.deed.topic().zip(transaction.payload()) {
                events.push(TrueEvent { log, topic, payload, keys, after });
            }
            logs.extend(transaction.logs(at.hash, log));
        }
        let header = Header { at, parent, time: 1_767_225_600 + self.count, bloom: contracts::bloom(&logs) };
        self.blocks.insert(at.hash, Mined { header, transactions, logs, events, after });
        at.hash
    }

    /// Makes a block the newest canonical one.
    pub(super) fn make_head(&mut self, tip: BlockHash) {
        let branch: Vec<BlockRef> =
            self.branch(tip).map(|block| block.header.at).take_while(|at| !self.is_canonical(*at)).collect();
        let ancestor =
            branch.last().and_then(|oldest| self.blocks.get(&oldest.hash)).map(|block| block.header.parent);
        let ancestor =
            ancestor.and_then(|parent| self.blocks.get(&parent)).map(|block| block.header.at.number);
        let lowest = ancestor.or_else(|| self.blocks.get(&tip).map(|block| block.header.at.number));
        self.canonical.retain(|number, _| Some(*number) <= lowest);
        self.canonical.extend(branch.into_iter().map(|at| (at.number, at.hash)));
    }

    fn new_hash(&mut self) -> BlockHash {
        self.count += 1;
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&self.count.to_be_bytes());
        bytes[24..].copy_from_slice(&self.chain.get().to_be_bytes());
        BlockHash(bytes)
    }
}

impl TrueEvent {
    /// The values that it changed, as they are after it for who has counted since `before`.
    pub(super) fn values(&self, before: &Totals) -> BTreeMap<ValueKey, String> {
        let all = self.after.values_since(before);
        let of = |key: &ValueKey| all.get(&(self.topic.name(), key.clone())).cloned();
        self.keys.iter().filter_map(|key| Some((key.clone(), of(key)?))).collect()
    }
}

impl Totals {
    /// Counts a deed. Returns which values it changed.
    fn add(&mut self, deed: Deed) -> Vec<ValueKey> {
        match deed {
            Deed::Transfer { from, to, amount } => {
                let amount = i64::try_from(amount).expect("amounts are small");
                self.balances[from] -= amount;
                self.balances[to] += amount;
                self.moves[from] += 1;
                self.moves[to] += 1;
                self.events += 1;
                let holders = BTreeSet::from([from, to]);
                holders.into_iter().filter(|holder| *holder != 0).map(contracts::holder_key).collect()
            }
            Deed::Mark { key, value } => {
                self.marks[key] = value;
                self.marked[key] += 1;
                self.events += 1;
                vec![contracts::mark_key(key)]
            }
            Deed::Noise => Vec::new(),
        }
    }

    /// The values for who has counted since `before`.
    pub(super) fn values_since(&self, before: &Self) -> Values {
        let holders = (1..HOLDERS).filter(|holder| self.moves[*holder] > before.moves[*holder]);
        let balances = holders.map(|holder| {
            let balance = self.balances[holder] - before.balances[holder];
            ((TopicKind::Transfers.name(), contracts::holder_key(holder)), format!("\"{balance}\""))
        });
        let marks = (0..MARKS).filter(|mark| self.marked[*mark] > before.marked[*mark]);
        let marks = marks.map(|mark| {
            ((TopicKind::Marks.name(), contracts::mark_key(mark)), format!("\"{}\"", self.marks[mark]))
        });
        balances.chain(marks).collect()
    }
}
