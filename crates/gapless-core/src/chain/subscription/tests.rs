use std::collections::HashMap;

use proptest::prelude::*;

use super::super::tests::{Held, Model, block, hash, ingested, number, topic};
use super::*;

/// A gateway that remembers little, and one reader of it.
struct Bench {
    model: Model,
    tail: ChainTail<()>,
    depth: u64,
    subscription: Subscription,
    now: Instant,
    /// What the reader was told, in words.
    told: Vec<String>,
    held: Held,
    /// What was read for others or before, by the question.
    kept: HashMap<(Seq, Option<BlockNumber>), Slice<ChainEntry>>,
}

const REMEMBERED: usize = 4;

impl Bench {
    fn begin(model: Model, mode: Mode, passed: u64, depth: u64) -> Self {
        let now = Instant::now();
        let head = model.chain_head(depth);
        let topics = BTreeSet::from([topic("transfers")]);
        let subscription = Subscription::new(topics, mode, head.epoch, Seq::new(passed).unwrap(), now);
        let tail = ChainTail::new(head, REMEMBERED, 1_000);
        Self {
            model,
            tail,
            depth,
            subscription,
            now,
            told: Vec::new(),
            held: Vec::new(),
            kept: HashMap::new(),
        }
    }

    fn ingest(&mut self, blocks: &[gapless_proto::Block]) {
        self.model.ingest(blocks, None).unwrap();
        self.publish();
    }

    /// Tells the gateway what it doesn't know yet.
    fn publish(&mut self) {
        let news = self.model.entries_after(self.tail.head().seq);
        let news = news.into_iter().map(|entry| (entry, (), 10)).collect();
        self.tail.handle_news(self.model.chain_head(self.depth), news);
    }

    /// Tells the reader one thing; `false` when there is nothing, or nothing more.
    fn step(&mut self, limit: usize) -> bool {
        match self.subscription.next(&self.tail, self.now) {
            Step::Event(remembered) => {
                let entry = remembered.entry.clone();
                self.tell(&entry);
            }
            Step::Revoke { to, seq } => {
                self.tell(&ChainEntry { seq, kind: ChainEntryKind::Revoke { to, first: seq } });
            }
            Step::Progress { block, seq } => self.told.push(format!("progress {block}:{seq}")),
            Step::Read { after, up_to } => {
                let slice = self.read(after, up_to, limit);
                match self.subscription.handle_slice(&slice, self.now) {
                    Ok(()) => slice.entries.iter().for_each(|(_, entry)| self.tell(entry)),
                    Err(reason) => self.told.push(format!("reset {reason:?}")),
                }
            }
            Step::Wait { .. } => return false,
            Step::Reset(reason) => {
                self.told.push(format!("reset {reason:?}"));
                return false;
            }
        }
        true
    }

    /// Takes what was read once, as long as that is an answer.
    fn read(&mut self, after: Seq, up_to: Option<BlockNumber>, limit: usize) -> Slice<ChainEntry> {
        let known = self.tail.head();
        let kept = self.kept.get(&(after, up_to)).filter(|kept| kept.answers(after, known));
        let slice = kept.cloned().unwrap_or_else(|| self.model.slice(after, up_to, limit, self.depth));
        self.kept.insert((after, up_to), slice.clone());
        slice
    }

    fn run(&mut self) -> Vec<String> {
        while self.step(3) {}
        std::mem::take(&mut self.told)
    }

    fn tell(&mut self, entry: &ChainEntry) {
        match &entry.kind {
            ChainEntryKind::Event { block, log, payload, .. } => {
                let point = ChainPoint { block: block.number, log: *log };
                self.held.push((point, block.hash, payload.as_str().to_owned()));
                self.told.push(payload.as_str().trim_matches('"').to_owned());
            }
            ChainEntryKind::Revoke { to, .. } => {
                self.held.retain(|(point, _, _)| point <= to);
                self.told.push(format!("revoke to {}:{}", to.block, to.log));
            }
        }
    }
}

fn chain() -> Model {
    ingested(&[block("a1", "a0", 1), block("a2", "a1", 1), block("a3", "a2", 2)])
}

#[test]
fn a_reader_from_the_beginning_reads_the_store_and_then_follows_the_tail() {
    let mut bench = Bench::begin(chain(), Mode::Instant, 0, 0);
    assert_eq!(bench.run(), ["a1-0", "a2-0", "a3-0", "a3-1"]);
    bench.ingest(&[block("a4", "a3", 1)]);
    assert_eq!(bench.run(), ["a4-0"]);
}

// Chain behaviour 7
#[test]
fn a_reader_is_told_of_a_reorg_and_then_of_the_new_branch() {
    let mut bench = Bench::begin(chain(), Mode::Instant, 0, 0);
    bench.run();
    bench.ingest(&[block("b2", "a1", 1)]);
    assert_eq!(bench.run(), ["revoke to 1:0", "b2-0"]);
}

// Chain behaviour 7
#[test]
fn what_is_revoked_before_the_reader_saw_it_is_not_told_at_all() {
    for lost in [false, true] {
        let mut bench = Bench::begin(ingested(&[block("a1", "a0", 1)]), Mode::Instant, 1, 0);
        bench.model.ingest(&[block("a2", "a1", 1), block("b2", "a1", 1)], None).unwrap();
        if !lost {
            bench.publish();
        }
        bench.ingest(&[block("b3", "b2", 1)]);
        assert_eq!(bench.run(), ["b2-0", "b3-0"]);
    }
}

// Chain behaviour 13
#[test]
fn a_block_is_confirmed_when_the_head_is_so_many_blocks_above_it() {
    let mut bench = Bench::begin(ingested(&[block("a1", "a0", 1)]), Mode::Confirmed, 0, 2);
    assert_eq!(bench.run(), Vec::<String>::new());
    bench.ingest(&[block("a2", "a1", 1)]);
    assert_eq!(bench.run(), Vec::<String>::new());
    bench.ingest(&[block("a3", "a2", 0)]);
    assert_eq!(bench.run(), ["a1-0"]);
    bench.ingest(&[block("a4", "a3", 0)]);
    assert_eq!(bench.run(), ["a2-0"]);
}

// Chain behaviour 13
#[test]
fn what_was_never_confirmed_is_never_told_and_what_was_confirmed_and_revoked_is_an_alarm() {
    let mut bench = Bench::begin(ingested(&[block("a1", "a0", 1)]), Mode::Confirmed, 0, 1);
    bench.ingest(&[block("a2", "a1", 1)]);
    assert_eq!(bench.run(), ["a1-0"]);
    bench.ingest(&[block("b2", "a1", 1), block("b3", "b2", 0)]);
    assert_eq!(bench.run(), ["b2-0"]);
    bench.ingest(&[block("c2", "a1", 1), block("c3", "c2", 0)]);
    assert_eq!(bench.run(), ["reset DeepReorg"]);
}

// Chain behaviour 13
#[test]
fn who_waits_for_confirmation_moves_on_with_the_feed_though_its_topics_are_quiet() {
    let mut first = block("a1", "a0", 3);
    first.events.iter_mut().for_each(|event| event.topic = topic("approvals"));
    let mut bench = Bench::begin(ingested(&[first, block("a2", "a1", 1)]), Mode::Confirmed, 0, 1);
    assert_eq!(bench.run(), Vec::<String>::new());
    assert_eq!(bench.subscription.passed(), Seq::new(3).unwrap(), "what is confirmed is behind it");
    bench.ingest(&[block("a3", "a2", 0)]);
    assert_eq!(bench.run(), ["a2-0"]);
}

// Chain behaviours 12, 13
#[test]
fn what_takes_back_what_was_confirmed_is_noticed_though_the_tail_has_forgotten_it() {
    let mut bench = Bench::begin(chain(), Mode::Confirmed, 0, 1);
    assert_eq!(bench.run(), ["a1-0", "a2-0"]);
    let more = u32::try_from(REMEMBERED).unwrap() + 1;
    bench.ingest(&[block("b2", "a1", more), block("b3", "b2", 0)]);
    bench.step(3);
    assert_eq!(bench.told, ["reset DeepReorg"]);
}

// Chain behaviour 3
#[test]
fn a_position_that_is_not_kept_or_not_there_yet_is_named() {
    let mut bench = Bench::begin(chain(), Mode::Instant, 1, 0);
    let mut slice = bench.model.slice(Seq::FIRST, None, 10, 0);
    slice.min_seq = Seq::new(3).unwrap();
    assert_eq!(bench.subscription.handle_slice(&slice, bench.now), Err(TopicResetReason::CursorExpired));
    slice.head.seq = Seq::ZERO;
    assert_eq!(bench.subscription.handle_slice(&slice, bench.now), Err(TopicResetReason::CursorAhead));
    slice.head.epoch = Epoch::new(2).unwrap();
    assert_eq!(bench.subscription.handle_slice(&slice, bench.now), Err(TopicResetReason::EpochChanged));
}

#[test]
fn what_was_read_for_another_answers_as_long_as_its_reader_gets_on() {
    let model = chain();
    let known = model.chain_head(0);
    let later = ChainHead { seq: Seq::new(9).unwrap(), ..known };
    let seq = |number| Seq::new(number).unwrap();
    let with_more = model.slice(Seq::FIRST, None, 2, 0);
    assert!(with_more.has_more && with_more.answers(Seq::FIRST, later));
    assert!(!with_more.answers(seq(5), later), "the position wasn't there yet");
    let last = model.slice(Seq::FIRST, None, 10, 0);
    assert!(last.answers(Seq::FIRST, known));
    assert!(!last.answers(Seq::FIRST, later), "what has come since would be asked for again and again");
    let other_life = ChainHead { epoch: Epoch::new(2).unwrap(), seq: Seq::ZERO, ..known };
    assert!(!with_more.answers(Seq::FIRST, other_life));
}

#[test]
fn a_feed_that_begins_anew_ends_its_subscriptions() {
    let mut bench = Bench::begin(chain(), Mode::Instant, 5, 0);
    let head = ChainHead { epoch: Epoch::new(2).unwrap(), ..bench.tail.head() };
    bench.tail.handle_news(head, Vec::new());
    assert_eq!(bench.run(), ["reset EpochChanged"]);
}

// Chain behaviour 12
#[test]
fn a_feed_that_was_given_up_after_a_deep_reorg_is_told_as_that_to_those_who_followed_it() {
    for (passed, reason) in [(5, TopicResetReason::DeepReorg), (6, TopicResetReason::EpochChanged)] {
        let mut bench = Bench::begin(chain(), Mode::Instant, passed, 0);
        let epoch = Epoch::new(2).unwrap();
        let head = ChainHead { epoch, anew_after: Seq::new(5).ok(), ..bench.tail.head() };
        let mut slice = bench.model.slice(Seq::FIRST, None, 10, 0);
        slice.head = head;
        assert_eq!(bench.subscription.handle_slice(&slice, bench.now), Err(reason));
        bench.tail.handle_news(head, Vec::new());
        assert_eq!(bench.run(), [format!("reset {reason:?}")]);
    }
}

#[test]
fn a_quiet_subscription_moves_on_with_the_feed() {
    let mut bench = Bench::begin(chain(), Mode::Instant, 4, 0);
    let mut other = block("a4", "a3", 2);
    other.events.iter_mut().for_each(|event| event.topic = topic("approvals"));
    bench.ingest(&[other]);
    assert_eq!(bench.run(), Vec::<String>::new());
    let Step::Wait { until: Some(until) } = bench.subscription.next(&bench.tail, bench.now) else {
        panic!("it waits for its time");
    };
    bench.now = until;
    assert_eq!(bench.run(), ["progress 4:6"]);
    assert!(matches!(bench.subscription.next(&bench.tail, until), Step::Wait { until: None }));
}

// Chain behaviour 13
#[test]
fn who_waits_for_confirmation_moves_on_only_as_far_as_is_confirmed() {
    let mut bench = Bench::begin(chain(), Mode::Confirmed, 0, 2);
    bench.run();
    for name in [["a4", "a3"], ["a5", "a4"], ["a6", "a5"]] {
        let mut other = block(name[0], name[1], 1);
        other.events.iter_mut().for_each(|event| event.topic = topic("approvals"));
        bench.ingest(&[other]);
    }
    bench.run();
    bench.now += PROGRESS_PAUSE;
    let told = bench.run();
    assert!(told.len() == 1 && told[0].starts_with("progress 4:"), "{told:?}");
}

// Chain behaviour 4
#[test]
fn a_reader_is_overrun_by_what_concerns_it_alone() {
    let mut bench = Bench::begin(chain(), Mode::Instant, 4, 0);
    let mut other = block("a4", "a3", 3);
    other.events.iter_mut().for_each(|event| event.topic = topic("approvals"));
    bench.ingest(&[other, block("a5", "a4", 1)]);
    assert!(!bench.subscription.is_overrun(&bench.tail, 1, 1_000));
    assert!(bench.subscription.is_overrun(&bench.tail, 0, 1_000));
    assert!(bench.subscription.is_overrun(&bench.tail, 1, 9));
    bench.ingest(&[block("a6", "a5", 1)]);
    assert!(bench.subscription.is_overrun(&bench.tail, 9, 1_000), "what it waits for is forgotten");
}

#[derive(Debug, Clone, Copy)]
enum Act {
    /// A block on one of the newest.
    Mine { below_head: u64, events: u32 },
    /// The gateway hears of what was ingested.
    Publish,
    /// The gateway hears of it late, so that some is lost.
    Lose,
    /// The reader takes so many steps.
    Read(u8),
    /// The reader loses its connection and comes back.
    Resume,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        5 => (0..4_u64, 0..3_u32).prop_map(|(below_head, events)| Act::Mine { below_head, events }),
        4 => Just(Act::Publish),
        1 => Just(Act::Lose),
        4 => (0..9_u8).prop_map(Act::Read),
        1 => Just(Act::Resume),
    ]
}

fn play(acts: &[Act], mode: Mode) -> Bench {
    /// Deeper than any reorg.
    const DEPTH: u64 = 4;
    /// More than there can be to tell.
    const STEPS_MAX: usize = 10_000;
    let first = block("a1", "a0", 1);
    let mut bench = Bench::begin(ingested(std::slice::from_ref(&first)), mode, 0, DEPTH);
    let mut canonical = vec![first];
    for (nth, act) in acts.iter().enumerate() {
        match *act {
            Act::Mine { below_head, events } => {
                let kept =
                    (canonical.len() - usize::try_from(below_head).unwrap().min(canonical.len() - 1)).max(1);
                // Nothing is lower than before, so that what is confirmed stays so.
                let missing = canonical.len() + 1 - kept;
                canonical.truncate(kept);
                for upwards in 0..missing {
                    let parent = canonical.last().unwrap();
                    let mut mined = block(&format!("a{}", parent.number.get() + 1), "", events);
                    (mined.hash, mined.parent) = (hash(&format!("{nth} {upwards}")), parent.hash);
                    bench.model.ingest(std::slice::from_ref(&mined), None).unwrap();
                    canonical.push(mined);
                }
            }
            Act::Publish => bench.publish(),
            Act::Lose => bench.tail.handle_news(bench.model.chain_head(DEPTH), Vec::new()),
            Act::Read(steps) => {
                for _ in 0..steps {
                    bench.step(2);
                }
            }
            Act::Resume => {
                let Subscription { topics, epoch, told, .. } = &bench.subscription;
                bench.subscription = Subscription::new(topics.clone(), mode, *epoch, *told, bench.now);
            }
        }
    }
    bench.publish();
    let steps = (0..STEPS_MAX).take_while(|_| bench.step(2)).count();
    assert!(steps < STEPS_MAX, "the reader gets no further than {}", bench.subscription.passed());
    bench
}

proptest! {
    // Chain behaviour 1
    #[test]
    fn a_reader_holds_what_is_canonical(acts in prop::collection::vec(act(), 1..60)) {
        let bench = play(&acts, Mode::Instant);
        prop_assert_eq!(bench.held, bench.model.canonical());
    }

    // Chain behaviours 1, 13
    #[test]
    fn who_waits_for_confirmation_holds_the_beginning_of_it_and_is_never_told_of_a_revoke(
        acts in prop::collection::vec(act(), 1..60)
    ) {
        let bench = play(&acts, Mode::Confirmed);
        prop_assert!(!bench.told.iter().any(|told| told.starts_with("re")), "{:?}", bench.told);
        let safe = bench.model.chain_head(bench.depth).safe.unwrap_or(number(0));
        let mut confirmed = bench.model.canonical();
        confirmed.retain(|(point, _, _)| point.block <= safe);
        prop_assert_eq!(bench.held, confirmed);
    }
}
