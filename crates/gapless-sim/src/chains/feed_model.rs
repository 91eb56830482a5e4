//! The feed of a chain as a store keeps it, in memory: the real [`plan`] and [`Stretch::write`](gapless_core::Stretch::write), and around
//! them what the statements of the real stores do.

mod reading;

use std::collections::BTreeMap;

use gapless_core::{
    BlockRefusal, BlockTree, ChainEntry, ChainEntryKind, ChainWrite, Stretch, ValueName, Voided, plan,
};
use gapless_proto::{
    Block, BlockHash, BlockNumber, BlockRef, Body, ChainEvent, ChainId, ChainPoint, Change, Effect, Epoch,
    Seq, Timestamp, Topic,
};
use gapless_store::{ChainInfo, ChainNews, Ingestion, KeptBlock, Rewound};

use super::fault::ChainFault;

/// All that a store has of one chain.
#[derive(Debug, Clone)]
pub(super) struct FeedModel {
    chain: ChainId,
    info: ChainInfo,
    tree: BlockTree,
    blocks: BTreeMap<BlockHash, StoredBlock>,
    entries: BTreeMap<Seq, StoredEntry>,
    values: BTreeMap<ValueName, BTreeMap<Seq, StoredValue>>,
}

#[derive(Debug, Clone)]
struct StoredBlock {
    at: BlockRef,
    parent: BlockHash,
    time: u64,
    is_canonical: bool,
    /// The events that an orphan needs to come back.
    orphan: Vec<ChainEvent>,
}

#[derive(Debug, Clone)]
struct StoredEntry {
    kind: ChainEntryKind,
    void_at: Option<Seq>,
}

#[derive(Debug, Clone)]
struct StoredValue {
    block: BlockNumber,
    value: Body,
    effect: Effect,
}

/// What an ingestion did.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) news: ChainNews,
    /// Blocks that aren't canonical any more.
    pub(super) revoked: usize,
    /// Blocks that are canonical again.
    pub(super) adopted: usize,
}

impl FeedModel {
    /// A feed without a block.
    pub(super) fn new(chain: ChainId, now: Timestamp) -> Self {
        let info = ChainInfo {
            epoch: Epoch::of_creation(now),
            head: Seq::ZERO,
            min_seq: Seq::FIRST,
            block: None,
            finalized: None,
            rewound: None,
            anew_after: None,
        };
        Self {
            chain,
            info,
            tree: BlockTree::default(),
            blocks: BTreeMap::new(),
            entries: BTreeMap::new(),
            values: BTreeMap::new(),
        }
    }

    pub(super) fn info(&self) -> ChainInfo {
        self.info
    }

    /// The lowest block that a reorg may leave as the last that holds.
    pub(super) fn floor(&self) -> BlockNumber {
        let canonical = self.blocks.values().filter(|block| block.is_canonical);
        let oldest = canonical.map(|block| block.at.number).min().unwrap_or_default();
        oldest.max(self.info.finalized.unwrap_or_default())
    }

    /// Takes blocks, all of them or none.
    pub(super) fn ingest(
        &mut self,
        ingestion: Ingestion,
        fault: Option<ChainFault>,
    ) -> Result<Taken, BlockRefusal> {
        let lower = ingestion.head.and_then(|head| self.blocks.get(&head)).map(|block| block.at);
        let (mut tree, mut stretches) = plan(self.tree.clone(), ingestion.blocks, ingestion.head)?;
        if let Some(lower) =
            lower.filter(|at| fault == Some(ChainFault::LowerHeadIsReorg) && tree.is_canonical(*at))
        {
            tree.revoke_above(lower.number);
            stretches = vec![Stretch { revoke_to: Some(lower), adopt: Vec::new(), blocks: Vec::new() }];
        }
        if let Some(finalized) = ingestion.finalized {
            tree.finalize(finalized);
        }
        let block = tree.head().ok_or(BlockRefusal::UnknownHead)?;
        let (mut head, mut revoked, mut adopted, mut entries) = (self.info.head, 0, 0, Vec::new());
        let mut stretches = stretches.into_iter().peekable();
        while let Some(stretch) = stretches.next() {
            adopted += stretch.adopt.len();
            let orphans = stretch.adopt.iter().map(|hash| self.orphan(*hash)).collect();
            let stretch = stretch.with_adopted(orphans);
            let voided = stretch.revoke_to.map(|ancestor| self.look_up_void(ancestor));
            if let (Some(ancestor), Some(voided)) = (stretch.revoke_to, voided) {
                revoked += self.revoke(ancestor, head.next(), voided);
            }
            let past = tree.finalized().filter(|_| stretches.peek().is_none());
            let written = self.write(&stretch, head, voided, past);
            for ChainEntry { seq, kind } in &written.entries {
                self.entries.insert(*seq, StoredEntry { kind: kind.clone(), void_at: None });
                head = *seq;
            }
            entries.extend(written.entries);
        }
        let oldest = block.number.below(ingestion.window);
        tree.forget_below(oldest);
        self.blocks.retain(|_, block| block.at.number >= oldest);
        self.info = ChainInfo { head, block: Some(block), finalized: tree.finalized(), ..self.info };
        self.tree = tree;
        let news = ChainNews { chain: self.chain, info: self.info, entries };
        Ok(Taken { news, revoked, adopted })
    }

    /// Writes a stretch but for its entries. Of the values up to `past`, only the newest.
    fn write(
        &mut self,
        stretch: &Stretch,
        head: Seq,
        voided: Option<Voided>,
        past: Option<BlockNumber>,
    ) -> ChainWrite {
        let values = stretch.values().into_iter();
        let values = values.filter_map(|name| Some((name.clone(), self.newest(&name)?))).collect();
        let mut written = stretch.write(head, voided, values).expect("the model's events are in order");
        if let Some(past) = past {
            written.forget_past(past);
        }
        for version in std::mem::take(&mut written.versions) {
            let value =
                StoredValue { block: version.block.number, value: version.value, effect: version.effect };
            self.values.entry(version.name).or_default().insert(version.seq, value);
        }
        for block in &stretch.blocks {
            let (at, Block { parent, time, .. }) = (block.at(), block);
            let orphan = Vec::new();
            let kept = StoredBlock { at, parent: *parent, time: *time, is_canonical: true, orphan };
            self.blocks.insert(at.hash, kept);
        }
        written
    }

    /// Deletes the log below a seq, but nothing that a reorg may still need.
    pub(super) fn trim(&mut self, below: Seq, fault: Option<ChainFault>) {
        let goal = below.min(self.first_needed(fault).unwrap_or(self.info.head.next()));
        let goal = self.torn_stretch(goal).unwrap_or(goal);
        if goal <= self.info.min_seq {
            return;
        }
        for versions in self.values.values_mut() {
            if let Some((newest, _)) = versions.range(..goal).next_back() {
                let newest = *newest;
                *versions = versions.split_off(&newest);
            }
        }
        self.entries = self.entries.split_off(&goal);
        self.info.min_seq = goal;
    }

    /// The first event that a trim would tear from the revoke that took it back.
    fn torn_stretch(&self, end: Seq) -> Option<Seq> {
        let firsts = self.entries.range(end..).filter_map(|(_, entry)| match entry.kind {
            ChainEntryKind::Revoke { first, .. } if first < end => Some(first),
            ChainEntryKind::Revoke { .. } | ChainEntryKind::Event { .. } => None,
        });
        firsts.min()
    }

    /// The first event that a reorg may still take back, or whose place a revoke may name as the last that holds.
    fn first_needed(&self, fault: Option<ChainFault>) -> Option<Seq> {
        let floor = self.floor();
        let is_needed = |block: &BlockRef| match fault {
            Some(ChainFault::TrimForkPoint) => block.number > floor,
            Some(_) | None => block.number >= floor,
        };
        self.live(floor).find(|(_, block, _)| is_needed(block)).map(|(seq, ..)| seq)
    }

    /// Begins a new life of the log, after a restore.
    pub(super) fn raise_epoch(&mut self, now: Timestamp) -> ChainNews {
        let head = self.info.head;
        let after = self.info.rewound.map_or(head, |earlier| earlier.after.min(head));
        let to = Seq::new(now.get()).unwrap_or(head).max(head.next());
        let rewound = Some(Rewound { after, to });
        self.info = ChainInfo { epoch: self.info.epoch.raised(now), head: to, rewound, ..self.info };
        ChainNews { chain: self.chain, info: self.info, entries: Vec::new() }
    }

    /// Begins the feed anew.
    pub(super) fn restart(&mut self, fault: Option<ChainFault>, now: Timestamp) -> ChainNews {
        let before = self.info;
        *self = Self::new(self.chain, now);
        let (head, anew_after) = match fault {
            Some(ChainFault::RestartWithoutGap) => (before.head, None),
            Some(_) | None => (before.head.next(), Some(before.head)),
        };
        self.info = ChainInfo {
            epoch: before.epoch.raised(now),
            head,
            min_seq: head.next(),
            rewound: before.rewound,
            anew_after,
            ..self.info
        };
        ChainNews { chain: self.chain, info: self.info, entries: Vec::new() }
    }

    fn newest(&self, name: &ValueName) -> Option<Body> {
        let (_, newest) = self.values.get(name)?.last_key_value()?;
        Some(newest.value.clone())
    }

    fn orphan(&self, hash: BlockHash) -> Block {
        let StoredBlock { at, parent, time, orphan, .. } = &self.blocks[&hash];
        Block { number: at.number, hash, parent: *parent, time: *time, events: orphan.clone() }
    }

    /// The events that hold and are above a height or at it.
    fn live(&self, from: BlockNumber) -> impl Iterator<Item = (Seq, BlockRef, u32)> {
        self.entries.iter().filter(|(_, entry)| entry.void_at.is_none()).filter_map(move |(seq, entry)| {
            match &entry.kind {
                ChainEntryKind::Event { block, log, .. } if block.number >= from => {
                    Some((*seq, *block, *log))
                }
                ChainEntryKind::Event { .. } | ChainEntryKind::Revoke { .. } => None,
            }
        })
    }

    fn look_up_void(&self, ancestor: BlockRef) -> Voided {
        let live: Vec<_> = self.live(ancestor.number).collect();
        let above = live.iter().filter(|(_, block, _)| block.number > ancestor.number);
        let first = above.min_by_key(|(seq, block, log)| (block.number, *log, *seq)).map(|(seq, ..)| *seq);
        let within = live.iter().filter(|(_, block, _)| block.number == ancestor.number);
        let log = within.map(|(_, _, log)| *log).max().unwrap_or_default();
        Voided { to: ChainPoint { block: ancestor.number, log }, first }
    }

    fn revoke(&mut self, ancestor: BlockRef, revoke: Seq, voided: Voided) -> usize {
        let mut events = voided.first.map(|first| self.void_events(first)).unwrap_or_default();
        let above = |block: &&mut StoredBlock| block.is_canonical && block.at.number > ancestor.number;
        let mut revoked = 0;
        for block in self.blocks.values_mut().filter(above) {
            block.is_canonical = false;
            block.orphan = events.remove(&block.at.hash).unwrap_or_default();
            revoked += 1;
        }
        if let Some(first) = voided.first {
            for (_, entry) in self.entries.range_mut(first..) {
                if matches!(entry.kind, ChainEntryKind::Event { .. }) {
                    entry.void_at.get_or_insert(revoke);
                }
            }
            for versions in self.values.values_mut() {
                drop(versions.split_off(&first));
            }
        }
        revoked
    }

    /// The events from a seq on that hold, by their blocks, with what they did to values.
    fn void_events(&self, first: Seq) -> BTreeMap<BlockHash, Vec<ChainEvent>> {
        let mut events: BTreeMap<BlockHash, Vec<ChainEvent>> = BTreeMap::new();
        for (seq, entry) in self.entries.range(first..).filter(|(_, entry)| entry.void_at.is_none()) {
            let ChainEntryKind::Event { block, log, topic, payload, .. } = &entry.kind else { continue };
            events.entry(block.hash).or_default().push(ChainEvent {
                log: *log,
                topic: topic.clone(),
                payload: payload.clone(),
                changes: self.changes(topic, *seq),
            });
        }
        events
    }

    fn changes(&self, topic: &Topic, seq: Seq) -> Vec<Change> {
        let of_topic = self.values.iter().filter(|((of, _), _)| of == topic);
        let changed = of_topic.filter_map(|((_, key), versions)| Some((key, versions.get(&seq)?)));
        changed.map(|(key, version)| Change { key: key.clone(), effect: version.effect.clone() }).collect()
    }

    /// The blocks that are kept of these hashes.
    pub(super) fn kept(&self, hashes: &[BlockHash]) -> Vec<KeptBlock> {
        let kept = hashes.iter().filter_map(|hash| self.blocks.get(hash));
        kept.map(|block| KeptBlock { at: block.at, parent: block.parent, is_canonical: block.is_canonical })
            .collect()
    }
}
