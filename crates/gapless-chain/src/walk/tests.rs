use super::*;

// Chain behaviour 9
#[test]
fn a_block_on_the_head_is_ingested_at_once() {
    let mut store = Store::of("a1 a2");
    assert_eq!(store.walk("a3<a2"), Outcome::Arrived);
    assert_eq!(store.told, ["blocks a3", "ingest a3 head a3"]);
}

// Chain behaviour 10
#[test]
fn a_gap_is_filled_in_order() {
    let mut store = Store::of("a1 a2");
    store.node("a3<a2 a4<a3 a5<a4");
    assert_eq!(store.walk("a6<a5"), Outcome::Arrived);
    assert_eq!(
        store.told[store.told.len() - 4..],
        ["blocks a3 a4 a5", "ingest a3 a4 a5", "blocks a6", "ingest a6 head a6"]
    );
}

// Chain behaviour 10
#[test]
fn a_lower_head_is_no_reorg() {
    let mut store = Store::of("a1 a2 a3");
    assert_eq!(store.walk("a3<a2"), Outcome::Arrived);
    assert_eq!(store.told, Vec::<String>::new());
    assert_eq!(store.walk("a1<a0"), Outcome::Lags);
    assert_eq!(store.told, ["kept a1 a0"]);
}

// Chain behaviour 10
#[test]
fn a_head_below_what_is_final_is_no_reorg_if_the_store_has_it() {
    let mut store = Store::of("a1 a2 a3");
    store.finalized = Some(number(2));
    assert_eq!(store.walk("a1<a0"), Outcome::Lags);
    assert_eq!(store.told, ["kept a1 a0"]);
}

// Chain behaviours 10, 12
#[test]
fn a_lower_head_of_which_the_store_keeps_nothing_is_no_reorg_and_is_named() {
    let behind = |head| Outcome::Behind { have: BlockRef { number: height(head), hash: hash(head) } };
    let mut store = Store::of("a20 a30");
    assert_eq!(store.walk("b19<b18"), behind("a30"));
    let mut store = Store::of("a10 a11 a12 a13");
    store.window = 3;
    store.node("b11<b10 b10<b9");
    assert_eq!(store.walk("b12<b11"), behind("a13"));
    store.finalized = Some(number(12));
    assert_eq!(store.walk("b11<b10"), behind("a13"));
    assert!(store.told.iter().all(|told| !told.starts_with("ingest")), "{:?}", store.told);
}

// Chain behaviour 12
#[test]
fn a_lower_head_on_a_block_that_is_final_is_left_to_the_store_to_refuse() {
    let mut store = Store::of("a1 a2 a3");
    store.finalized = Some(number(2));
    store.refusal = Some(BlockRefusal::DeepReorg { floor: number(2) });
    assert_eq!(store.walk("b2<a1"), Outcome::DeepReorg { floor: number(2) });
}

// Chain behaviours 9, 10
#[test]
fn a_sibling_of_the_same_height_is_a_reorg_and_so_is_a_lower_contradiction() {
    for head in ["b3<a2", "b2<a1"] {
        let mut store = Store::of("a1 a2 a3");
        assert_eq!(store.walk(head), Outcome::Arrived);
        let hash = &head[..2];
        assert_eq!(store.told[1..], [format!("blocks {hash}"), format!("ingest {hash} head {hash}")]);
    }
}

// Chain behaviour 9
#[test]
fn an_orphan_that_is_the_head_again_is_ingested_as_head() {
    let mut store = Store::of("a1 a2 a3");
    store.orphans = vec!["b3".to_owned()];
    assert_eq!(store.walk("b3<b2"), Outcome::Arrived);
    assert_eq!(store.told, ["kept b3 b2", "ingest head b3"]);
}

// Chain behaviour 9
#[test]
fn blocks_on_an_orphan_are_ingested_on_top_of_it() {
    let mut store = Store::of("a1 a2 a3");
    store.orphans = vec!["b2".to_owned()];
    store.node("b3<b2");
    assert_eq!(store.walk("b4<b3"), Outcome::Arrived);
    assert_eq!(store.told[3..], ["blocks b3 b4", "ingest b3 b4 head b4"]);
}

// Chain behaviour 14
#[test]
fn parents_are_found_by_hash_over_heights_that_are_left_out() {
    let mut store = Store::of("a1 a2");
    store.node("a5<a2");
    assert_eq!(store.walk("a9<a5"), Outcome::Arrived);
    assert_eq!(store.told[3..], ["blocks a5 a9", "ingest a5 a9 head a9"]);
}

// Chain behaviour 12
#[test]
fn what_contradicts_the_oldest_block_kept_or_a_finalized_one_is_named_and_not_guessed_at() {
    for finalized in [None, Some(number(11))] {
        let mut store = Store::of("a10 a11 a12 a13");
        store.finalized = finalized;
        store.window = 3;
        store.node("b12<b11 b11<b10 b10<b9");
        let floor = number(finalized.map_or(10, BlockNumber::get));
        assert_eq!(store.walk("b13<b12"), Outcome::DeepReorg { floor });
        assert!(store.told.iter().all(|told| !told.starts_with("ingest")), "{:?}", store.told);
    }
}

#[test]
fn a_store_without_blocks_takes_the_head_as_its_first() {
    let mut store = Store::of("");
    assert_eq!(store.walk("a9<a8"), Outcome::Arrived);
    assert_eq!(store.told, ["blocks a9", "ingest a9 head a9"]);
}

// Chain behaviour 10
#[test]
fn a_branch_that_vanishes_on_the_way_is_left_alone() {
    let mut store = Store::of("a1 a2");
    assert_eq!(store.walk("b4<b3"), Outcome::Moved);
    assert_eq!(store.told, ["kept b4 b3", "header b3"]);
}

// Chain behaviour 11
#[test]
fn an_answer_that_is_not_the_parent_is_nonsense() {
    for lie in ["b3<a2", "a7<a2"] {
        let mut store = Store::of("a1 a2");
        store.node(lie);
        store.lie = Some(header(lie));
        assert_eq!(store.walk("a4<a3"), Outcome::Nonsense, "{lie}");
    }
}

// Chain behaviour 12
#[test]
fn what_the_store_refuses_ends_the_walk_by_its_reason() {
    let at = BlockRef { number: number(1), hash: hash("a1") };
    for (refusal, outcome) in [
        (BlockRefusal::MissingParent { have: at }, Outcome::Moved),
        (BlockRefusal::UnknownHead, Outcome::Moved),
        (BlockRefusal::DeepReorg { floor: number(1) }, Outcome::DeepReorg { floor: number(1) }),
        (BlockRefusal::TooOld { oldest: number(1) }, Outcome::DeepReorg { floor: number(1) }),
        (BlockRefusal::NotAboveParent { parent: number(1) }, Outcome::Nonsense),
    ] {
        let mut store = Store::of("a1 a2");
        store.refusal = Some(refusal);
        assert_eq!(store.walk("b2<a1"), outcome);
    }
}

/// A store and a node in few words: `a3<a2` is block a3 of height 3 on a2.
#[derive(Default)]
struct Store {
    canonical: Vec<String>,
    orphans: Vec<String>,
    finalized: Option<BlockNumber>,
    window: u64,
    node: Vec<Header>,
    lie: Option<Header>,
    refusal: Option<BlockRefusal>,
    told: Vec<String>,
}

impl Store {
    fn of(canonical: &str) -> Self {
        let canonical = canonical.split_whitespace().map(str::to_owned).collect();
        Self { canonical, window: 10, ..Self::default() }
    }

    fn node(&mut self, headers: &str) {
        self.node.extend(headers.split_whitespace().map(header));
    }

    fn walk(&mut self, head: &str) -> Outcome {
        let have = self.canonical.last();
        let have = have.map(|name| BlockRef { number: height(name), hash: hash(name) });
        let bounds = WalkBounds { have, finalized: self.finalized, window: self.window, batch_blocks: 3 };
        let mut walk = Walk::new(bounds, header(head));
        loop {
            match walk.want() {
                Want::Kept(hashes) => {
                    self.tell("kept", &hashes, None);
                    let all = [(&self.canonical, true), (&self.orphans, false)];
                    let kept = all.into_iter().flat_map(|(names, is_canonical)| {
                        names.iter().map(move |name| (hash(name), is_canonical))
                    });
                    walk.handle_kept(&kept.filter(|(hash, _)| hashes.contains(hash)).collect::<Vec<_>>());
                }
                Want::Header(wanted) => {
                    self.tell("header", &[wanted], None);
                    let found = self.node.iter().find(|header| header.at.hash == wanted).cloned();
                    walk.handle_header(self.lie.clone().or(found));
                }
                Want::Blocks(headers) => {
                    let hashes: Vec<_> = headers.iter().map(|header| header.at.hash).collect();
                    self.tell("blocks", &hashes, None);
                    walk.handle_blocks(headers.iter().map(block).collect());
                }
                Want::Ingest { blocks, head } => {
                    let hashes: Vec<_> = blocks.iter().map(|block| block.hash).collect();
                    self.tell("ingest", &hashes, head);
                    match self.refusal {
                        Some(refusal) => walk.handle_refusal(refusal),
                        None => walk.handle_ingested(),
                    }
                }
                Want::Nothing(outcome) => return outcome,
            }
        }
    }

    fn tell(&mut self, what: &str, hashes: &[BlockHash], head: Option<BlockHash>) {
        let mut words = vec![what.to_owned()];
        words.extend(hashes.iter().map(name));
        words.extend(head.map(|head| format!("head {}", name(&head))));
        self.told.push(words.join(" "));
    }
}

fn number(number: u64) -> BlockNumber {
    BlockNumber::new(number).unwrap()
}

fn height(name: &str) -> BlockNumber {
    number(name[1..].parse().unwrap())
}

fn hash(name: &str) -> BlockHash {
    let mut bytes = [0; 32];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    BlockHash(bytes)
}

fn name(hash: &BlockHash) -> String {
    String::from_utf8_lossy(&hash.0).trim_end_matches('\0').to_owned()
}

fn header(text: &str) -> Header {
    let (name, parent) = text.split_once('<').unwrap();
    let at = BlockRef { number: height(name), hash: hash(name) };
    Header { at, parent: hash(parent), time: 0, bloom: None }
}

fn block(header: &Header) -> Block {
    Block { number: header.at.number, hash: header.at.hash, parent: header.parent, time: 0, events: vec![] }
}
