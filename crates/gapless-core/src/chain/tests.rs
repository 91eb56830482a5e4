use std::collections::{BTreeMap, HashMap};

use gapless_proto::{
    AmountError, Block, BlockHash, BlockNumber, BlockRef, Body, ChainEvent, ChainPoint, Change, Effect,
    Epoch, Seq, Topic, ValueKey,
};
use proptest::prelude::*;

use super::*;

/// A store without a disk: keeps what is written, and folds it as a client would.
#[derive(Default)]
pub(super) struct Model {
    pub(super) tree: BlockTree,
    blocks: HashMap<BlockHash, Block>,
    entries: Vec<ChainEntry>,
    versions: Vec<ValueVersion>,
}

/// What a client holds: the events that it was told of and that weren't taken back.
pub(super) type Held = Vec<(ChainPoint, BlockHash, String)>;

impl Model {
    pub(super) fn ingest(&mut self, blocks: &[Block], head: Option<BlockHash>) -> Result<(), BlockRefusal> {
        let (tree, stretches) = plan(self.tree.clone(), blocks.to_vec(), head)?;
        for stretch in stretches {
            let orphans = stretch.adopt.iter().map(|hash| self.blocks[hash].clone()).collect();
            self.apply(&stretch.with_adopted(orphans));
        }
        self.tree = tree;
        Ok(())
    }

    fn apply(&mut self, stretch: &Stretch) {
        let voided = stretch.revoke_to.map(|ancestor| self.void(ancestor));
        let values = self.values();
        let values =
            stretch.values().into_iter().filter_map(|name| Some((name.clone(), values.get(&name)?.clone())));
        let written = stretch.write(self.head(), voided, values.collect()).unwrap();
        self.entries.extend(written.entries);
        self.versions.extend(written.versions);
        for block in &stretch.blocks {
            self.blocks.insert(block.hash, block.clone());
        }
    }

    fn void(&mut self, ancestor: BlockRef) -> Voided {
        self.versions.retain(|version| version.block.number <= ancestor.number);
        let held = self.entries_held();
        let (kept, void): (Vec<_>, Vec<_>) =
            held.into_iter().partition(|(_, point)| point.block <= ancestor.number);
        let last = kept.last().filter(|(_, point)| point.block == ancestor.number);
        let log = last.map_or(0, |(_, point)| point.log);
        Voided { to: ChainPoint { block: ancestor.number, log }, first: void.first().map(|(seq, _)| *seq) }
    }

    fn entries_held(&self) -> Vec<(Seq, ChainPoint)> {
        let mut held: Vec<(Seq, ChainPoint)> = Vec::new();
        for entry in &self.entries {
            match &entry.kind {
                ChainEntryKind::Event { block, log, .. } => {
                    held.push((entry.seq, ChainPoint { block: block.number, log: *log }));
                }
                ChainEntryKind::Revoke { first, .. } => held.retain(|(seq, _)| seq < first),
            }
        }
        held
    }

    /// What a client holds that reads the log from its beginning, and only knows what the protocol says of a revoke.
    fn fold(&self) -> Held {
        let mut held: Held = Vec::new();
        for entry in &self.entries {
            match &entry.kind {
                ChainEntryKind::Event { block, log, payload, .. } => {
                    let point = ChainPoint { block: block.number, log: *log };
                    held.push((point, block.hash, payload.as_str().to_owned()));
                }
                ChainEntryKind::Revoke { to, .. } => held.retain(|(point, _, _)| point <= to),
            }
        }
        held
    }

    /// What a client should hold: the events of the canonical blocks.
    pub(super) fn canonical(&self) -> Held {
        let mut held = Vec::new();
        let mut next = self.tree.head();
        while let Some(block) = next.and_then(|at| self.blocks.get(&at.hash)) {
            held.extend(block.events.iter().rev().map(|event| {
                let point = ChainPoint { block: block.number, log: event.log };
                (point, block.hash, event.payload.as_str().to_owned())
            }));
            next = self.blocks.get(&block.parent).map(|parent| parent.at());
        }
        held.reverse();
        held
    }

    /// The newest version of each value.
    fn values(&self) -> BTreeMap<ValueName, Body> {
        self.versions.iter().map(|version| (version.name.clone(), version.value.clone())).collect()
    }

    pub(super) fn head(&self) -> Seq {
        self.entries.last().map_or(Seq::ZERO, |entry| entry.seq)
    }
}

/// What a store answers to a subscription to transfers that reads it.
impl Model {
    pub(super) fn chain_head(&self, depth: u64) -> ChainHead {
        let block = self.tree.head().map(|block| block.number);
        let safe = block.and_then(|block| block.get().checked_sub(depth)).map(number);
        ChainHead { epoch: Epoch::new(1).unwrap(), seq: self.head(), block, safe, anew_after: None }
    }

    pub(super) fn slice(
        &self,
        after: Seq,
        up_to: Option<BlockNumber>,
        limit: usize,
        depth: u64,
    ) -> Slice<ChainEntry> {
        let revokes = || {
            self.entries.iter().filter_map(|entry| match entry.kind {
                ChainEntryKind::Revoke { first, .. } => Some((first, entry.seq)),
                ChainEntryKind::Event { .. } => None,
            })
        };
        let is_void = |seq| revokes().any(|(first, revoke)| first <= seq && seq < revoke);
        let is_wanted = |entry: &&ChainEntry| match &entry.kind {
            ChainEntryKind::Event { block, topic: of, .. } => {
                *of == topic("transfers")
                    && !is_void(entry.seq)
                    && up_to.is_none_or(|up_to| block.number <= up_to)
            }
            ChainEntryKind::Revoke { first, .. } => *first <= after,
        };
        let wanted = self.entries.iter().filter(|entry| entry.seq > after).filter(is_wanted);
        let mut entries: Vec<_> = wanted.take(limit + 1).cloned().collect();
        let has_more = entries.len() > limit;
        entries.truncate(limit);
        let entries = entries.into_iter().map(|entry| (SliceEntry::from(&entry), entry)).collect();
        let head = self.chain_head(depth);
        let confirmed = |up_to| self.entries_held().into_iter().rfind(|(_, point)| point.block <= up_to);
        let covered = up_to.map_or(head.seq, |up_to| confirmed(up_to).map_or(Seq::ZERO, |(seq, _)| seq));
        Slice { head, min_seq: Seq::FIRST, entries, has_more, covered, up_to }
    }

    /// What was appended behind a seq.
    pub(super) fn entries_after(&self, seq: Seq) -> Vec<ChainEntry> {
        self.entries.iter().filter(|entry| entry.seq > seq).cloned().collect()
    }
}

pub(super) fn number(number: u64) -> BlockNumber {
    BlockNumber::new(number).unwrap()
}

fn value_key(name: &str) -> ValueKey {
    ValueKey::new(name).unwrap()
}

pub(super) fn topic(name: &str) -> Topic {
    Topic::new(name).unwrap()
}

pub(super) fn hash(name: &str) -> BlockHash {
    let mut bytes = [0; 32];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    BlockHash(bytes)
}

/// A block that is named by its branch and height, as in `a7`, with so many events. Each moves one unit to a holder.
pub(super) fn block(name: &str, parent: &str, events: u32) -> Block {
    let height: u64 = name[1..].parse().unwrap();
    let event = |log: u32| ChainEvent {
        log,
        topic: topic("transfers"),
        payload: Body::from_text(format!("\"{name}-{log}\"")).unwrap(),
        changes: vec![Change {
            key: value_key(&format!("holder-{}", log % 2)),
            effect: Effect::Add("1".parse().unwrap()),
        }],
    };
    Block {
        number: number(height),
        hash: hash(name),
        parent: hash(parent),
        time: height,
        events: (0..events).map(event).collect(),
    }
}

pub(super) fn ingested(blocks: &[Block]) -> Model {
    let mut model = Model::default();
    model.ingest(blocks, None).unwrap();
    model
}

fn kinds(model: &Model) -> Vec<String> {
    let entries = model.entries.iter();
    let kinds = entries.map(|entry| match &entry.kind {
        ChainEntryKind::Event { payload, .. } => payload.as_str().trim_matches('"').to_owned(),
        ChainEntryKind::Revoke { to, first } => format!("revoke to {}:{} from {first}", to.block, to.log),
    });
    kinds.collect()
}

fn holder(model: &Model, which: u32) -> String {
    model.values()[&(topic("transfers"), value_key(&format!("holder-{which}")))].as_str().to_owned()
}

#[test]
fn a_block_on_the_head_is_appended_and_one_that_is_known_changes_nothing() {
    let mut model = ingested(&[block("a1", "a0", 2), block("a2", "a1", 0), block("a3", "a2", 1)]);
    assert_eq!(kinds(&model), ["a1-0", "a1-1", "a3-0"]);
    model.ingest(&[block("a2", "a1", 0), block("a3", "a2", 1)], None).unwrap();
    assert_eq!(kinds(&model), ["a1-0", "a1-1", "a3-0"]);
}

// Chain behaviour 7
#[test]
fn a_reorg_is_one_revoke_and_then_the_new_branch() {
    let mut model = ingested(&[block("a1", "a0", 1), block("a2", "a1", 1), block("a3", "a2", 2)]);
    model.ingest(&[block("b2", "a1", 1)], None).unwrap();
    assert_eq!(kinds(&model), ["a1-0", "a2-0", "a3-0", "a3-1", "revoke to 1:0 from 2", "b2-0"]);
    assert_eq!(model.tree.head().unwrap().hash, hash("b2"));
    assert_eq!(model.fold(), model.canonical());
}

// Chain behaviour 9
#[test]
fn a_chain_comes_back_to_the_branch_that_it_had_left() {
    let mut model = ingested(&[block("a1", "a0", 1), block("a2", "a1", 1), block("b2", "a1", 1)]);
    model.ingest(&[block("a3", "a2", 1)], None).unwrap();
    assert_eq!(
        kinds(&model),
        ["a1-0", "a2-0", "revoke to 1:0 from 2", "b2-0", "revoke to 1:0 from 4", "a2-0", "a3-0"]
    );
    assert_eq!(model.fold(), model.canonical());
    assert_eq!(holder(&model, 0), "\"3\"");
}

// Chain behaviour 9
#[test]
fn the_head_alone_brings_a_branch_back_though_it_has_no_new_block() {
    let mut model = ingested(&[block("a1", "a0", 1), block("a2", "a1", 1), block("b2", "a1", 1)]);
    model.ingest(&[block("a2", "a1", 1)], None).unwrap();
    assert_eq!(model.tree.head().unwrap().hash, hash("b2"), "a repetition is no reorg");
    model.ingest(&[], Some(hash("a2"))).unwrap();
    assert_eq!(model.tree.head().unwrap().hash, hash("a2"));
    assert_eq!(model.fold(), model.canonical());
    assert_eq!(model.ingest(&[], Some(hash("c9"))), Err(BlockRefusal::UnknownHead));
}

// Chain behaviour 10
#[test]
fn a_lower_head_is_no_reorg() {
    let mut model = ingested(&[block("a1", "a0", 1), block("a2", "a1", 1)]);
    model.ingest(&[], Some(hash("a1"))).unwrap();
    assert_eq!(model.tree.head().unwrap().hash, hash("a2"));
}

// Chain behaviour 9
#[test]
fn a_reorg_of_empty_blocks_takes_nothing_back() {
    let mut model = ingested(&[block("a1", "a0", 1), block("a2", "a1", 0)]);
    model.ingest(&[block("b2", "a1", 0), block("b3", "b2", 1)], None).unwrap();
    assert_eq!(kinds(&model), ["a1-0", "b3-0"]);
}

#[test]
fn a_block_whose_parent_is_missing_is_refused_and_so_is_all_that_came_with_it() {
    let mut model = ingested(&[block("a1", "a0", 1)]);
    let have = BlockRef { number: number(1), hash: hash("a1") };
    let refused = model.ingest(&[block("a2", "a1", 1), block("a4", "a3", 1)], None);
    assert_eq!(
        refused,
        Err(BlockRefusal::MissingParent { have: BlockRef { number: number(2), hash: hash("a2") } })
    );
    assert_eq!(kinds(&model), ["a1-0"]);
    assert_eq!(model.ingest(&[block("a3", "a2", 0)], None), Err(BlockRefusal::MissingParent { have }));
}

// Chain behaviour 14
#[test]
fn heights_may_be_left_out_but_not_fall() {
    let mut model = ingested(&[block("a0", "x", 1), block("a5", "a0", 1)]);
    assert_eq!(kinds(&model), ["a0-0", "a5-0"]);
    let refused = model.ingest(&[block("b5", "a5", 0)], None);
    assert_eq!(refused, Err(BlockRefusal::NotAboveParent { parent: number(5) }));
}

// Chain behaviour 12
#[test]
fn what_is_finalized_or_older_than_what_is_kept_is_not_taken_back() {
    let mut model =
        ingested(&[block("a1", "a0", 1), block("a2", "a1", 1), block("a3", "a2", 1), block("b2", "a1", 0)]);
    model.ingest(&[], Some(hash("a3"))).unwrap();
    model.tree.finalize(number(2));
    let deep = Err(BlockRefusal::DeepReorg { floor: number(2) });
    assert_eq!(model.ingest(&[block("b3", "b2", 0)], None), deep, "an orphan below what is finalized");
    assert_eq!(model.ingest(&[], Some(hash("b2"))), deep);
    assert_eq!(model.ingest(&[block("c2", "c1", 0)], None), deep, "a sibling of what is finalized");
    model.ingest(&[block("c3", "a2", 0)], None).unwrap();

    model.tree.forget_below(number(2));
    assert_eq!(model.ingest(&[block("d1", "d0", 0)], None), Err(BlockRefusal::TooOld { oldest: number(2) }));
    assert_eq!(model.ingest(&[block("a3", "a2", 1)], None), Ok(()));
}

// Chain behaviours 10, 12
#[test]
fn what_is_said_to_be_finalized_above_the_head_counts_only_up_to_the_head() {
    let mut model = ingested(&[block("a1", "a0", 1)]);
    let have = model.tree.head().unwrap();
    model.tree.finalize(number((1 << 53) - 1));
    assert_eq!(model.tree.finalized(), Some(number(1)));
    assert_eq!(model.ingest(&[block("a5", "a4", 0)], None), Err(BlockRefusal::MissingParent { have }));
    model.ingest(&[block("a2", "a1", 1), block("b2", "a1", 1)], None).unwrap();
    assert_eq!(model.fold(), model.canonical());
}

// Chain behaviour 15
#[test]
fn a_revoked_value_is_what_it_was_before() {
    let mut model = ingested(&[block("a1", "a0", 2), block("a2", "a1", 3)]);
    assert_eq!((holder(&model, 0), holder(&model, 1)), ("\"3\"".to_owned(), "\"2\"".to_owned()));
    model.ingest(&[block("b2", "a1", 1)], None).unwrap();
    assert_eq!((holder(&model, 0), holder(&model, 1)), ("\"2\"".to_owned(), "\"1\"".to_owned()));
}

#[test]
fn a_value_that_an_event_changes_twice_has_one_version() {
    let mut block = block("a1", "a0", 1);
    let add = |amount: &str| Change { key: value_key("alice"), effect: Effect::Add(amount.parse().unwrap()) };
    block.events[0].changes = vec![add("-5"), add("5")];
    let (_, stretches) = plan(BlockTree::default(), vec![block], None).unwrap();
    let written = stretches[0].write(Seq::ZERO, None, BTreeMap::new()).unwrap();
    let [version] = &written.versions[..] else { panic!("{written:?}") };
    assert_eq!((version.value.as_str(), &version.effect), ("\"0\"", &Effect::Add("0".parse().unwrap())));
    let ChainEntryKind::Event { values, .. } = &written.entries[0].kind else { panic!("{written:?}") };
    assert_eq!(values[&value_key("alice")], version.value);
}

// Chain behaviour 15
#[test]
fn of_what_is_final_only_the_newest_version_of_a_value_is_written() {
    let blocks = [block("a1", "a0", 2), block("a2", "a1", 1), block("a3", "a2", 2), block("a4", "a3", 1)];
    let (_, stretches) = plan(BlockTree::default(), blocks.to_vec(), None).unwrap();
    let all = stretches[0].write(Seq::ZERO, None, BTreeMap::new()).unwrap();
    for finalized in 0..=5 {
        let finalized = BlockNumber::new(finalized).unwrap();
        let mut written = all.clone();
        written.forget_past(finalized);
        assert_eq!(written.entries, all.entries);
        // What a snapshot shows from there on is the same, and what lies below is gone.
        for height in finalized.get()..=5 {
            assert_eq!(newest(&written, height), newest(&all, height), "{finalized} {height}");
        }
        let kept = |version: &&ValueVersion| {
            version.block.number > finalized
                || newest(&all, finalized.get()).get(&version.name) == Some(&version.value)
        };
        let expected: Vec<&ValueVersion> = all.versions.iter().filter(kept).collect();
        assert_eq!(written.versions.iter().collect::<Vec<_>>(), expected, "{finalized}");
    }
}

/// The values after a block.
fn newest(written: &ChainWrite, height: u64) -> BTreeMap<ValueName, Body> {
    let versions = written.versions.iter().filter(|version| version.block.number.get() <= height);
    versions.map(|version| (version.name.clone(), version.value.clone())).collect()
}

#[test]
fn an_amount_is_added_only_to_an_amount() {
    let mut set = block("a1", "a0", 1);
    set.events[0].changes[0].effect = Effect::Set(Body::from_text("[1]".to_owned()).unwrap());
    let mut tree = BlockTree::default();
    tree.extend(block("a0", "x", 0).at(), hash("x"));
    let (_, stretches) = plan(tree, vec![set, block("a2", "a1", 1)], None).unwrap();
    let refused = stretches[0].write(Seq::ZERO, None, BTreeMap::new());
    let Err(EventRefusal::Amount { log, error, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!((log, error), (0, AmountError::NotANumber));
}

#[test]
fn events_of_a_block_come_in_the_order_of_their_logs() {
    let logs = |logs: &[(u32, &str)]| {
        let mut block = block("a1", "a0", u32::try_from(logs.len()).unwrap());
        for (event, (log, topic)) in block.events.iter_mut().zip(logs) {
            (event.log, event.topic) = (*log, self::topic(topic));
        }
        let (_, stretches) = plan(BlockTree::default(), vec![block], None).unwrap();
        stretches[0].write(Seq::ZERO, None, BTreeMap::new()).is_ok()
    };
    assert!(logs(&[(0, "a"), (0, "b"), (7, "a"), (10_000, "b")]));
    assert!(!logs(&[(3, "a"), (2, "a")]));
    assert!(!logs(&[(3, "a"), (3, "a")]));
    assert!(!logs(&[(0, "a"), (0, "a")]));
}

#[derive(Debug, Clone, Copy)]
enum Act {
    /// Mine on top of one of the blocks that there are, and send it with all that is below it.
    Mine { parent: prop::sample::Index, events: u32 },
    /// Send one of the blocks again.
    Repeat { which: prop::sample::Index },
    /// Say that one of the blocks is the head.
    Head { which: prop::sample::Index },
}

fn act() -> impl Strategy<Value = Act> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        6 => (index(), 0..3_u32).prop_map(|(parent, events)| Act::Mine { parent, events }),
        1 => index().prop_map(|which| Act::Repeat { which }),
        2 => index().prop_map(|which| Act::Head { which }),
    ]
}

proptest! {
    // Chain behaviour 1
    #[test]
    fn what_the_log_comes_to_is_what_is_canonical(acts in prop::collection::vec(act(), 1..60)) {
        let mut all = vec![block("a1", "a0", 1)];
        let mut model = ingested(&all);
        for (nth, act) in acts.into_iter().enumerate() {
            match act {
                Act::Mine { parent, events } => {
                    let parent = parent.get(&all).clone();
                    let mut mined = block(&format!("a{}", parent.number.get() + 1), "", events);
                    mined.hash = hash(&format!("{nth} on {}", parent.number));
                    mined.parent = parent.hash;
                    model.ingest(&[mined.clone()], None).unwrap();
                    prop_assert_eq!(model.tree.head(), Some(mined.at()));
                    all.push(mined);
                }
                Act::Repeat { which } => {
                    let before = model.tree.head();
                    model.ingest(&[which.get(&all).clone()], None).unwrap();
                    prop_assert_eq!(model.tree.head(), before);
                }
                Act::Head { which } => model.ingest(&[], Some(which.get(&all).hash)).unwrap(),
            }
            prop_assert_eq!(model.fold(), model.canonical());
            let seqs: Vec<_> = model.entries.iter().map(|entry| entry.seq.get()).collect();
            prop_assert_eq!(seqs, (1..=model.entries.len() as u64).collect::<Vec<_>>());
            let events = model.canonical().len();
            let held: u64 = model.values().values().map(|value| value.as_str().trim_matches('"').parse::<u64>().unwrap()).sum();
            prop_assert_eq!(held, events as u64);
        }
    }
}
