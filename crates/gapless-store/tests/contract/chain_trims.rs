//! What a trim of a chain's log leaves.

use gapless_proto::ChainId;
use gapless_store::Ingestion;

use crate::chain_feed::{CHAIN, Feed, block, hash, number, words};
use crate::world::{World, seq};

contract!(
    a_trim_keeps_the_newest_of_each_value,
    a_trim_leaves_what_a_reorg_may_still_take_back,
    a_revoke_and_what_it_took_back_are_trimmed_together,
    a_reorg_to_the_oldest_block_leaves_its_events_though_the_log_was_trimmed,
    a_log_with_seqs_left_out_is_trimmed_in_steps,
);

async fn a_trim_keeps_the_newest_of_each_value(world: World) {
    let feed = Feed::of(&world);
    feed.take(&[block("a1", "a0", 2), block("a2", "a1", 1), block("a3", "a2", 1)]).await;
    feed.finalize(3).await;
    assert_eq!(feed.store.trim_chain(CHAIN, seq(4)).await.unwrap(), Some(seq(4)));
    assert_eq!(feed.info().await.min_seq, seq(4));
    assert_eq!(feed.said(3).await, ["4 a3-0"]);
    assert_eq!(feed.values(None).await, ["holder-0 \"3\"", "holder-1 \"1\""]);
    assert_eq!(feed.store.trim_chain(CHAIN, seq(99)).await.unwrap(), Some(seq(4)));
    feed.take(&[block("a4", "a3", 1)]).await;
    assert_eq!(feed.values(None).await, ["holder-0 \"4\"", "holder-1 \"1\""]);
    assert_eq!(feed.said(4).await, ["5 a4-0"]);
    assert_eq!(feed.store.trim_chain(ChainId::new(7), seq(1)).await.unwrap(), None);
}

// Chain behaviours 9, 15
async fn a_trim_leaves_what_a_reorg_may_still_take_back(world: World) {
    let feed = Feed::of(&world);
    let blocks = (1..=6).map(|n| block(&format!("a{n}"), &format!("a{}", n - 1), 1)).collect();
    feed.store.ingest(CHAIN, Ingestion { blocks, window: 4, ..Ingestion::default() }).await.unwrap();
    assert_eq!(
        feed.store.trim_chain(CHAIN, seq(99)).await.unwrap(),
        Some(seq(2)),
        "down to a2 it may go back"
    );
    let branch: Vec<_> = (3..=7)
        .map(|n| block(&format!("b{n}"), &if n == 3 { "a2".into() } else { format!("b{}", n - 1) }, 0))
        .collect();
    feed.take(&branch).await;
    assert_eq!(feed.values(None).await, ["holder-0 \"2\""], "the values before the fork are known");
    let back = Ingestion { head: Some(hash("a6")), ..Ingestion::default() };
    feed.store.ingest(CHAIN, back).await.unwrap();
    assert_eq!(
        feed.values(None).await,
        ["holder-0 \"6\""],
        "and the events of the branch, when it comes back"
    );
    feed.finalize(4).await;
    let min_seq = feed.store.trim_chain(CHAIN, seq(99)).await.unwrap().unwrap();
    assert_eq!(feed.said(min_seq.get() - 1).await, ["9 a4-0", "10 a5-0", "11 a6-0"]);
}

// Chain behaviour 7
async fn a_revoke_and_what_it_took_back_are_trimmed_together(world: World) {
    let feed = Feed::of(&world);
    feed.take(&[block("a1", "a0", 1), block("a2", "a1", 1_500), block("b2", "a1", 1), block("c2", "a1", 1)])
        .await;
    feed.take(&[block("c3", "c2", 1)]).await;
    feed.finalize(3).await;
    for (below, min_seq) in [(2, 2), (3, 2), (1_502, 2), (1_503, 1_503), (1_504, 1_503), (1_505, 1_505)] {
        assert_eq!(feed.store.trim_chain(CHAIN, seq(below)).await.unwrap(), Some(seq(min_seq)), "{below}");
        let slice = feed.slice(&["transfers"], min_seq - 1, Some(number(3)), 10).await;
        assert_eq!(words(&slice.entries), ["1505 c2-0", "1506 c3-0"], "{below}");
    }
}

// Chain behaviours 7, 15
async fn a_reorg_to_the_oldest_block_leaves_its_events_though_the_log_was_trimmed(world: World) {
    let feed = Feed::of(&world);
    feed.take(&[block("a1", "a0", 3), block("a2", "a1", 2)]).await;
    feed.store.trim_chain(CHAIN, seq(99)).await.unwrap();
    feed.take(&[block("b2", "a1", 1)]).await;
    assert_eq!(feed.said(5).await, ["6 revoke to 1:2 from 4", "7 b2-0"]);
}

async fn a_log_with_seqs_left_out_is_trimmed_in_steps(world: World) {
    let feed = Feed::of(&world);
    feed.take(&[block("a1", "a0", 900), block("a2", "a1", 900)]).await;
    feed.store.raise_chain_epochs().await.unwrap();
    let head = feed.take(&[block("a3", "a2", 1)]).await.chain.head;
    feed.finalize(3).await;
    assert_eq!(feed.store.trim_chain(CHAIN, head).await.unwrap(), Some(head));
    assert_eq!(feed.said(0).await, [format!("{head} a3-0")]);
}
