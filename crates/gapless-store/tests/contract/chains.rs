//! The feeds of chains: blocks come in, are taken back, and are read.

use gapless_core::{BlockRefusal, ChainEntry};
use gapless_proto::{Body, ChainId, ChainPoint, Change, Effect, Seq};
use gapless_store::{
    CHAIN_SLICE_BYTES_MAX, ChainLogRequest, ChainNews, ChainValuesRequest, CommitNews, IngestError,
    Ingestion, StoreError,
};

use crate::chain_feed::{CHAIN, Feed, MANY, at, block, hash, number, topic, value_key, words};
use crate::world::{World, seq};

contract!(
    blocks_come_in_order_and_their_events_are_numbered_from_1,
    an_ingestion_may_be_repeated,
    a_reorg_is_one_revoke_and_then_the_new_branch,
    who_never_saw_what_was_revoked_sees_neither_it_nor_the_revoke,
    a_revoke_concerns_only_topics_that_lose_something,
    a_branch_that_comes_back_brings_its_events_and_values,
    a_block_without_parent_is_refused_and_nothing_of_its_batch_is_stored,
    an_event_that_is_refused_leaves_nothing_of_its_batch,
    a_failed_ingestion_stores_nothing_and_may_be_repeated,
    many_events_at_once_are_stored_as_few_are,
    a_reorg_across_what_is_finalized_is_refused,
    what_is_said_to_be_finalized_above_the_head_counts_only_up_to_the_head,
    blocks_older_than_the_window_are_forgotten,
    a_feed_goes_on_after_a_restart,
    a_log_is_read_in_pages,
    a_page_has_no_more_bytes_than_a_reader_can_hold,
    what_is_not_confirmed_is_not_read,
    values_are_those_after_a_block,
    of_what_is_final_values_are_right_from_there_on,
    what_is_final_in_the_end_may_be_revoked_on_the_way,
    values_are_read_in_pages,
    a_cursor_without_seq_finds_its_place,
    a_confirmed_stretch_tells_how_far_it_reaches,
    the_chains_that_have_feeds_are_listed,
    a_feed_that_begins_anew_has_no_place_for_old_cursors,
    a_feed_whose_new_beginning_was_cut_short_heals,
    seqs_of_a_life_that_is_no_more_are_left_out,
    chains_do_not_touch_each_other,
    a_commit_is_told_with_all_that_it_appended,
);

// Chain behaviour 14
async fn blocks_come_in_order_and_their_events_are_numbered_from_1(world: World) {
    let feed = Feed::of(&world);
    assert_eq!(feed.store.chain(CHAIN).await.unwrap(), None);
    let ingested = feed.take(&[block("a0", "x", 2), block("a1", "a0", 0), block("a7", "a1", 1)]).await;
    assert_eq!((ingested.taken, ingested.revoked), (3, 0));
    assert_eq!(ingested.chain.block, Some(at("a7")));
    assert_eq!((ingested.chain.head, ingested.chain.min_seq), (seq(3), Seq::FIRST));
    assert_eq!(feed.said(0).await, ["1 a0-0", "2 a0-1", "3 a7-0"]);
    assert_eq!(feed.info().await, ingested.chain);
}

async fn an_ingestion_may_be_repeated(world: World) {
    let feed = Feed::of(&world);
    let blocks = [block("a1", "a0", 1), block("a2", "a1", 1)];
    let first = feed.take(&blocks).await;
    let again = feed.take(&blocks).await;
    assert_eq!((again.taken, again.revoked, again.chain), (0, 0, first.chain));
    assert_eq!(feed.said(0).await, ["1 a1-0", "2 a2-0"]);
}

// Chain behaviour 7
async fn a_reorg_is_one_revoke_and_then_the_new_branch(world: World) {
    let feed = Feed::of(&world);
    feed.take(&[block("a1", "a0", 2), block("a2", "a1", 1), block("a3", "a2", 2)]).await;
    let ingested = feed.take(&[block("b2", "a1", 1)]).await;
    assert_eq!((ingested.taken, ingested.revoked, ingested.chain.block), (1, 2, Some(at("b2"))));
    assert_eq!(feed.said(5).await, ["6 revoke to 1:1 from 3", "7 b2-0"]);
    assert_eq!(feed.said(3).await, ["6 revoke to 1:1 from 3", "7 b2-0"]);
}

// Chain behaviour 7
async fn who_never_saw_what_was_revoked_sees_neither_it_nor_the_revoke(world: World) {
    let feed = Feed::of(&world);
    feed.take(&[block("a1", "a0", 1), block("a2", "a1", 1), block("b2", "a1", 1)]).await;
    assert_eq!(feed.said(0).await, ["1 a1-0", "4 b2-0"]);
    assert_eq!(feed.said(1).await, ["4 b2-0"]);
    assert_eq!(feed.said(2).await, ["3 revoke to 1:0 from 2", "4 b2-0"]);
}

async fn a_revoke_concerns_only_topics_that_lose_something(world: World) {
    let feed = Feed::of(&world);
    let mut other = block("a2", "a1", 1);
    other.events[0].topic = topic("approvals");
    feed.take(&[block("a1", "a0", 1), other, block("b2", "a1", 0)]).await;
    assert_eq!(feed.said_of(&["transfers"], 2).await, Vec::<String>::new());
    assert_eq!(feed.said_of(&["approvals"], 2).await, ["3 revoke to 1:0 from 2"]);
    assert_eq!(feed.said_of(&["transfers", "approvals"], 2).await, ["3 revoke to 1:0 from 2"]);
}

// Chain behaviours 9, 15
async fn a_branch_that_comes_back_brings_its_events_and_values(world: World) {
    let feed = Feed::of(&world);
    feed.take(&[block("a1", "a0", 2), block("a2", "a1", 2), block("b2", "a1", 1)]).await;
    assert_eq!(feed.values(None).await, ["holder-0 \"2\"", "holder-1 \"1\""]);
    let ingestion = Ingestion { head: Some(hash("a2")), ..Ingestion::default() };
    let back = feed.store.ingest(CHAIN, ingestion).await.unwrap();
    assert_eq!((back.taken, back.revoked, back.chain.block), (0, 1, Some(at("a2"))));
    assert_eq!(feed.said(6).await, ["7 revoke to 1:1 from 6", "8 a2-0", "9 a2-1"]);
    assert_eq!(feed.values(None).await, ["holder-0 \"2\"", "holder-1 \"2\""]);

    feed.take(&[block("b3", "b2", 1)]).await;
    feed.take(&[block("a3", "a2", 1)]).await;
    assert_eq!(feed.said(0).await, ["1 a1-0", "2 a1-1", "14 a2-0", "15 a2-1", "16 a3-0"]);
    assert_eq!(feed.values(None).await, ["holder-0 \"3\"", "holder-1 \"2\""]);
}

async fn a_block_without_parent_is_refused_and_nothing_of_its_batch_is_stored(world: World) {
    let feed = Feed::of(&world);
    feed.take(&[block("a1", "a0", 1)]).await;
    let refused = feed.try_take(&[block("a2", "a1", 1), block("a4", "a3", 1)]).await;
    let Err(IngestError::Block(BlockRefusal::MissingParent { have })) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(have, at("a2"));
    assert_eq!(feed.info().await.block, Some(at("a1")));
    assert_eq!(feed.said(0).await, ["1 a1-0"]);
    feed.take(&[block("a2", "a1", 1)]).await;
    assert_eq!(feed.said(0).await, ["1 a1-0", "2 a2-0"]);
}

async fn an_event_that_is_refused_leaves_nothing_of_its_batch(world: World) {
    let feed = Feed::of(&world);
    feed.take(&[block("a1", "a0", 1), block("a2", "a1", 1)]).await;
    let mut wrong = block("b3", "b2", 2);
    wrong.events[1].log = 0;
    let refused = feed.try_take(&[block("b2", "a1", 1), wrong]).await;
    assert!(matches!(refused, Err(IngestError::Event(_))), "{refused:?}");
    assert_eq!(feed.said(0).await, ["1 a1-0", "2 a2-0"]);
    assert_eq!(feed.info().await.block, Some(at("a2")));
    feed.take(&[block("a3", "a2", 1)]).await;
    assert_eq!(feed.values(None).await, ["holder-0 \"3\""]);
}

// Chain behaviour 9
async fn a_failed_ingestion_stores_nothing_and_may_be_repeated(mut world: World) {
    let feed = Feed::of(&world);
    let before = feed.take(&[block("a1", "a0", 1)]).await.chain;
    world.database.break_inserts().await;
    for events in [1, MANY] {
        let failed = feed.try_take(&[block("a2", "a1", events)]).await;
        assert!(matches!(failed, Err(IngestError::Store(_))), "{failed:?}");
    }
    assert_eq!(feed.info().await, before);
    world.database.mend().await;
    feed.take(&[block("a2", "a1", 1)]).await;
    assert_eq!(feed.said(0).await, ["1 a1-0", "2 a2-0"]);
    for expected in [["1 a1-0"], ["2 a2-0"]] {
        assert_eq!(words(&next(&mut world).await.entries), expected, "a failed ingestion is no news");
    }
}

async fn many_events_at_once_are_stored_as_few_are(world: World) {
    let feed = Feed::of(&world);
    let few = MANY / 3;
    let blocks = [block("a1", "a0", few), block("a2", "a1", few), block("a3", "a2", few)];
    let later = [block("b2", "a1", MANY), block("a4", "a3", 1)];
    let mut stored = Vec::new();
    for (chain, at_once) in [(ChainId::new(1), 1), (ChainId::new(2), blocks.len())] {
        for blocks in blocks.chunks(at_once).chain(later.chunks(1)) {
            let ingestion = Ingestion { blocks: blocks.to_vec(), ..Ingestion::default() };
            feed.store.ingest(chain, ingestion).await.unwrap();
        }
        let mut log = Vec::new();
        loop {
            let after = log.last().map_or(seq(0), |last: &ChainEntry| last.seq);
            let request =
                ChainLogRequest { chain, topics: vec![topic("transfers")], after, up_to: None, limit: 1_000 };
            let slice = feed.store.chain_log(request).await.unwrap().unwrap();
            log.extend(slice.entries);
            if !slice.has_more {
                break;
            }
        }
        let request = ChainValuesRequest {
            chain,
            topics: vec![topic("transfers")],
            up_to: None,
            after: None,
            limit: 100,
        };
        let values = feed.store.chain_values(request).await.unwrap().unwrap().values;
        stored.push((log, values));
    }
    assert_eq!(stored[0], stored[1]);
    assert_eq!(stored[0].0.len() as u32, 3 * few + 1, "the branch that was left is void");
}

// Chain behaviour 12
async fn a_reorg_across_what_is_finalized_is_refused(mut world: World) {
    let feed = Feed::of(&world);
    let blocks = vec![block("a1", "a0", 1), block("a2", "a1", 1), block("a3", "a2", 1)];
    let ingestion = Ingestion { blocks, finalized: Some(number(2)), ..Ingestion::default() };
    feed.store.ingest(CHAIN, ingestion).await.unwrap();
    world.reopen().await;
    let feed = Feed::of(&world);
    assert_eq!(feed.info().await.finalized, Some(number(2)));
    let refused = feed.try_take(&[block("b2", "a1", 1)]).await;
    let Err(IngestError::Block(BlockRefusal::DeepReorg { floor })) = refused else { panic!("{refused:?}") };
    assert_eq!(floor, number(2));
    feed.take(&[block("b3", "a2", 1)]).await;
    let lower = Ingestion { finalized: Some(number(1)), ..Ingestion::default() };
    assert_eq!(feed.store.ingest(CHAIN, lower).await.unwrap().chain.finalized, Some(number(2)));
}

// Chain behaviours 10, 12
async fn what_is_said_to_be_finalized_above_the_head_counts_only_up_to_the_head(mut world: World) {
    let feed = Feed::of(&world);
    feed.take(&[block("a1", "a0", 1)]).await;
    feed.finalize((1 << 53) - 1).await;
    for _ in 0..2 {
        let feed = Feed::of(&world);
        assert_eq!(feed.info().await.finalized, Some(number(1)));
        let refused = feed.try_take(&[block("a5", "a4", 1)]).await;
        let Err(IngestError::Block(BlockRefusal::MissingParent { have })) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(have, at("a1"));
        world.reopen().await;
    }
    let feed = Feed::of(&world);
    feed.take(&[block("a2", "a1", 1), block("b2", "a1", 1)]).await;
    feed.finalize(2).await;
    assert_eq!(feed.info().await.finalized, Some(number(2)));
}

async fn blocks_older_than_the_window_are_forgotten(world: World) {
    let feed = Feed::of(&world);
    let blocks = (1..=9).map(|n| block(&format!("a{n}"), &format!("a{}", n - 1), 1)).collect();
    feed.store.ingest(CHAIN, Ingestion { blocks, window: 3, ..Ingestion::default() }).await.unwrap();
    let kept = feed.store.chain_blocks(CHAIN, &[hash("a5"), hash("a6"), hash("a9")]).await.unwrap();
    assert_eq!(
        kept.iter().map(|block| (block.at, block.parent, block.is_canonical)).collect::<Vec<_>>(),
        [(at("a6"), hash("a5"), true), (at("a9"), hash("a8"), true)]
    );
    assert_eq!(feed.said(0).await.len(), 9, "what happened in them is still there");
    let refused = feed.try_take(&[block("b5", "a4", 1)]).await;
    assert!(matches!(refused, Err(IngestError::Block(BlockRefusal::TooOld { .. }))), "{refused:?}");
}

async fn a_feed_goes_on_after_a_restart(mut world: World) {
    Feed::of(&world).take(&[block("a1", "a0", 1), block("a2", "a1", 1), block("b2", "a1", 1)]).await;
    let before = Feed::of(&world).info().await;
    world.reopen().await;
    let feed = Feed::of(&world);
    assert_eq!(feed.info().await, before);
    feed.take(&[block("a3", "a2", 1)]).await;
    assert_eq!(feed.said(0).await, ["1 a1-0", "6 a2-0", "7 a3-0"]);
}

async fn a_log_is_read_in_pages(world: World) {
    let feed = Feed::of(&world);
    feed.take(&[block("a1", "a0", 3), block("a2", "a1", 3)]).await;
    let mut said = Vec::new();
    let mut after = 0;
    loop {
        let slice = feed.slice(&["transfers"], after, None, 4).await;
        assert!(slice.entries.len() <= 4);
        said.extend(words(&slice.entries));
        after = slice.entries.last().unwrap().seq.get();
        if !slice.has_more {
            break;
        }
    }
    assert_eq!(said, ["1 a1-0", "2 a1-1", "3 a1-2", "4 a2-0", "5 a2-1", "6 a2-2"]);
}

async fn a_page_has_no_more_bytes_than_a_reader_can_hold(world: World) {
    let feed = Feed::of(&world);
    let (mut large, mut larger) = (block("a1", "a0", 5), block("a2", "a1", 2));
    let text = |bytes: usize| Body::from_text(format!("\"{}\"", "x".repeat(bytes))).unwrap();
    large.events.iter_mut().for_each(|event| event.payload = text(CHAIN_SLICE_BYTES_MAX / 3));
    large.events[4].topic = topic("zz");
    larger.events.iter_mut().for_each(|event| event.payload = text(CHAIN_SLICE_BYTES_MAX * 2));
    feed.take(&[large, larger]).await;
    let (mut pages, mut after) = (Vec::new(), 0);
    loop {
        let slice = feed.slice(&["transfers", "zz"], after, None, 1_000).await;
        after = slice.entries.last().unwrap().seq.get();
        pages.push(slice.entries.len());
        if !slice.has_more {
            break;
        }
    }
    assert_eq!(pages, [3, 3, 1], "each ends with the entry that reaches the bound");
}

// Chain behaviour 13
async fn what_is_not_confirmed_is_not_read(world: World) {
    let feed = Feed::of(&world);
    feed.take(&[block("a1", "a0", 1), block("a2", "a1", 1), block("a3", "a2", 1)]).await;
    let confirmed = feed.slice(&["transfers"], 0, Some(number(2)), 10).await;
    assert_eq!(words(&confirmed.entries), ["1 a1-0", "2 a2-0"]);
    assert!(!confirmed.has_more);
}

// Chain behaviour 15
async fn values_are_those_after_a_block(world: World) {
    let feed = Feed::of(&world);
    feed.take(&[block("a1", "a0", 2), block("a2", "a1", 1), block("a3", "a2", 2)]).await;
    assert_eq!(feed.values(None).await, ["holder-0 \"3\"", "holder-1 \"2\""]);
    assert_eq!(feed.values(Some(2)).await, ["holder-0 \"2\"", "holder-1 \"1\""]);
    assert_eq!(feed.values(Some(0)).await, Vec::<String>::new());
    let values = feed.values_page(Some(2), None, 100).await;
    assert_eq!((values.seq, values.point), (seq(3), ChainPoint { block: number(2), log: 0 }));
    let newest = feed.values_page(None, None, 100).await;
    assert_eq!((newest.seq, newest.point), (seq(5), ChainPoint { block: number(3), log: 1 }));
}

// Chain behaviour 15
async fn of_what_is_final_values_are_right_from_there_on(world: World) {
    let feed = Feed::of(&world);
    let blocks = [block("a1", "a0", 2), block("a2", "a1", 1), block("a3", "a2", 2), block("a4", "a3", 1)];
    let ingestion = Ingestion { blocks: blocks.to_vec(), finalized: Some(number(2)), ..Ingestion::default() };
    feed.store.ingest(CHAIN, ingestion).await.unwrap();
    assert_eq!(feed.values(Some(2)).await, ["holder-0 \"2\"", "holder-1 \"1\""]);
    assert_eq!(feed.values(Some(3)).await, ["holder-0 \"3\"", "holder-1 \"2\""]);
    assert_eq!(feed.values(None).await, ["holder-0 \"4\"", "holder-1 \"2\""]);
    feed.take(&[block("b3", "a2", 1), block("b4", "b3", 0), block("b5", "b4", 0)]).await;
    assert_eq!(feed.values(None).await, ["holder-0 \"3\"", "holder-1 \"1\""]);
    feed.take(&[block("a5", "a4", 0), block("a6", "a5", 1)]).await;
    assert_eq!(feed.values(None).await, ["holder-0 \"5\"", "holder-1 \"2\""]);
    assert_eq!(feed.values(Some(2)).await, ["holder-0 \"2\"", "holder-1 \"1\""]);
}

// Chain behaviour 15
async fn what_is_final_in_the_end_may_be_revoked_on_the_way(world: World) {
    let feed = Feed::of(&world);
    let blocks = [block("a1", "a0", 2), block("a2", "a1", 1), block("b2", "a1", 0), block("b3", "b2", 2)];
    let ingestion = Ingestion { blocks: blocks.to_vec(), finalized: Some(number(3)), ..Ingestion::default() };
    feed.store.ingest(CHAIN, ingestion).await.unwrap();
    assert_eq!(feed.values(None).await, ["holder-0 \"2\"", "holder-1 \"2\""]);
}

async fn values_are_read_in_pages(world: World) {
    let feed = Feed::of(&world);
    let mut first = block("a1", "a0", 1);
    first.events[0].changes = (0..7)
        .map(|n| Change {
            key: value_key(&format!("k{n}")),
            effect: Effect::Set(Body::from_text(n.to_string()).unwrap()),
        })
        .collect();
    let mut other = block("a2", "a1", 1);
    other.events[0].topic = topic("zz");
    feed.take(&[first, other]).await;
    let mut held = Vec::new();
    let mut after = None;
    loop {
        let page = feed.values_page(Some(2), after, 3).await;
        assert!(page.values.len() <= 3);
        held.extend(page.values.iter().map(|(topic, key, _)| format!("{topic} {key}")));
        after = page.values.last().map(|(topic, key, _)| (topic.clone(), key.clone()));
        if !page.has_more {
            break;
        }
    }
    let expected = [
        "transfers k0",
        "transfers k1",
        "transfers k2",
        "transfers k3",
        "transfers k4",
        "transfers k5",
        "transfers k6",
        "zz holder-0",
    ];
    assert_eq!(held, expected);
}

async fn a_cursor_without_seq_finds_its_place(world: World) {
    let feed = Feed::of(&world);
    feed.take(&[block("a1", "a0", 2), block("a2", "a1", 1), block("b2", "a1", 2)]).await;
    let seq_at = async |block, log| {
        let point = ChainPoint { block: number(block), log };
        feed.store.chain_seq_at(CHAIN, point).await.unwrap().map(Seq::get)
    };
    assert_eq!(seq_at(0, 9).await, Some(0));
    assert_eq!(seq_at(1, 0).await, Some(1));
    assert_eq!(seq_at(1, 9).await, Some(2));
    assert_eq!(seq_at(2, 0).await, Some(5));
    feed.finalize(2).await;
    feed.store.trim_chain(CHAIN, seq(3)).await.unwrap();
    assert_eq!(seq_at(1, 9).await, None, "what is before it is trimmed");
}

// Chain behaviour 13
async fn a_confirmed_stretch_tells_how_far_it_reaches(world: World) {
    let feed = Feed::of(&world);
    feed.take(&[block("a1", "a0", 2), block("a2", "a1", 2), block("b2", "a1", 2), block("b4", "b2", 1)])
        .await;
    for (up_to, covered) in [(None, 8), (Some(4), 8), (Some(3), 7), (Some(1), 2), (Some(0), 0)] {
        let slice = feed.slice(&["zz"], 0, up_to.map(number), 10).await;
        assert_eq!((slice.entries.len(), slice.covered.get()), (0, covered), "{up_to:?}");
    }
}

async fn the_chains_that_have_feeds_are_listed(world: World) {
    let feed = Feed::of(&world);
    let ids = [3, 10, u64::MAX].map(ChainId::new);
    for chain in ids {
        let ingestion = Ingestion { blocks: vec![block("a1", "a0", 0)], ..Ingestion::default() };
        feed.store.ingest(chain, ingestion).await.unwrap();
    }
    let listed = feed.store.chains(None, 2).await.unwrap();
    assert_eq!(listed, [ids[1], ids[2]], "in the order of their texts");
    assert_eq!(feed.store.chains(Some(ids[2]), 2).await.unwrap(), [ids[0]]);
}

// Chain behaviour 12
async fn a_feed_that_begins_anew_has_no_place_for_old_cursors(world: World) {
    let feed = Feed::of(&world);
    let before = feed.take(&[block("a1", "a0", 2), block("a2", "a1", 1)]).await.chain;
    let anew = feed.store.restart_chain(CHAIN).await.unwrap().unwrap();
    assert!(anew.epoch > before.epoch);
    assert_eq!((anew.head, anew.min_seq, anew.anew_after), (seq(4), seq(5), Some(seq(3))));
    assert_eq!((anew.block, anew.finalized), (None, None));
    assert_eq!(feed.info().await, anew);
    feed.take(&[block("c9", "c8", 1)]).await;
    assert_eq!(feed.said(0).await, ["5 c9-0"]);
    assert_eq!(feed.values(None).await, ["holder-0 \"1\""]);
}

// Chain behaviours 9, 12
async fn a_feed_whose_new_beginning_was_cut_short_heals(mut world: World) {
    let feed = Feed::of(&world);
    for height in 1..=5 {
        feed.take(&[block(&format!("a{height}"), &format!("a{}", height - 1), 900)]).await;
        next(&mut world).await;
    }
    let restart = feed.store.restart_chain(CHAIN);
    // It is told of the new life before all of the old one is deleted; nothing after that comes to pass.
    tokio::select! {
        biased;
        _ = next(&mut world) => {}
        _ = restart => panic!("it ended with its first step"),
    }
    world.reopen().await;
    let feed = Feed::of(&world);
    let info = feed.info().await;
    assert_eq!((info.head, info.min_seq, info.block), (seq(4_501), seq(4_502), None));
    assert_eq!(feed.said(0).await, Vec::<String>::new());
    assert_eq!(feed.values(None).await, Vec::<String>::new());
    let point = ChainPoint { block: number(5), log: 0 };
    assert_eq!(feed.store.chain_seq_at(CHAIN, point).await.unwrap(), None);
    assert_eq!(feed.slice(&["transfers"], 0, Some(number(9)), 10).await.covered, Seq::ZERO);
    assert_eq!(feed.store.chain_blocks(CHAIN, &[hash("a5")]).await.unwrap(), []);

    let mut refused = 0;
    while let Err(error) = feed.try_take(&[block("c5", "c4", 1)]).await {
        assert!(matches!(error, IngestError::Store(StoreError::Busy)), "{error:?}");
        refused += 1;
        assert!(refused < 100, "it gets nowhere");
    }
    assert!(refused > 0, "all was deleted at once");
    assert_eq!(feed.said(0).await, ["4502 c5-0"]);
    assert_eq!(feed.values(None).await, ["holder-0 \"1\""]);
    assert_eq!(feed.store.trim_chain(CHAIN, seq(1)).await.unwrap(), Some(seq(4_502)));
}

// Chain behaviour 3
async fn seqs_of_a_life_that_is_no_more_are_left_out(mut world: World) {
    let feed = Feed::of(&world);
    let before = feed.take(&[block("a1", "a0", 2)]).await.chain;
    assert_eq!(before.rewound, None);
    assert_eq!(feed.store.raise_chain_epochs().await.unwrap(), 1);
    let raised = feed.info().await;
    let rewound = raised.rewound.unwrap();
    assert!(raised.epoch > before.epoch);
    assert_eq!((rewound.after, rewound.to), (seq(2), raised.head));
    assert!(
        !rewound.has(seq(2))
            && rewound.has(seq(3))
            && rewound.has(raised.head.prev())
            && !rewound.has(raised.head)
    );
    assert!(raised.head > seq(1_000_000_000_000), "seqs go on at the time");
    next(&mut world).await;
    assert_eq!(next(&mut world).await.info, raised);

    let taken = feed.take(&[block("a2", "a1", 1), block("b2", "a1", 1)]).await.chain;
    assert_eq!((taken.rewound, taken.block), (raised.rewound, Some(at("b2"))));
    let newest = raised.head.get();
    assert_eq!(
        feed.said(0).await,
        ["1 a1-0".to_owned(), "2 a1-1".to_owned(), format!("{} b2-0", newest + 3)]
    );
    assert_eq!(feed.values(None).await, ["holder-0 \"2\"", "holder-1 \"1\""]);

    assert_eq!(feed.store.raise_chain_epochs().await.unwrap(), 1);
    let again = feed.info().await.rewound.unwrap();
    assert_eq!((again.after, again.has(seq(3))), (seq(2), true), "what was lost the first time stays lost");
}

// Chain behaviour 12
async fn chains_do_not_touch_each_other(world: World) {
    let feed = Feed::of(&world);
    feed.take(&[block("a1", "a0", 1), block("a2", "a1", 1)]).await;
    let other = ChainId::new(1);
    let blocks = vec![block("a1", "a0", 1), block("b2", "a1", 0)];
    let ingested = feed.store.ingest(other, Ingestion { blocks, ..Ingestion::default() }).await.unwrap();
    assert_eq!(ingested.chain.block, Some(at("b2")));
    feed.store.restart_chain(other).await.unwrap();
    assert_eq!(feed.said(0).await, ["1 a1-0", "2 a2-0"]);
    assert_eq!(feed.values(None).await, ["holder-0 \"2\""]);
}

async fn a_commit_is_told_with_all_that_it_appended(mut world: World) {
    let feed = Feed::of(&world);
    feed.take(&[block("a1", "a0", 1), block("a2", "a1", 1)]).await;
    assert_eq!(words(&next(&mut world).await.entries), ["1 a1-0", "2 a2-0"]);
    feed.take(&[block("b2", "a1", 1)]).await;
    let news = next(&mut world).await;
    assert_eq!(words(&news.entries), ["3 revoke to 1:0 from 2", "4 b2-0"]);
    assert_eq!((news.chain, news.info), (CHAIN, feed.info().await));
    feed.store.restart_chain(CHAIN).await.unwrap();
    let news = next(&mut world).await;
    assert_eq!((news.entries.len(), news.info), (0, feed.info().await));
}

async fn next(world: &mut World) -> ChainNews {
    match world.news.recv().await.expect("the store is open") {
        CommitNews::Chain(news) => news,
        CommitNews::Conversations(news) => panic!("{news:?}"),
    }
}
