//! Subscriptions to the topics of a chain.

use std::time::Duration;

use futures_util::future::join_all;
use gapless_proto::{
    Block, BlockHash, BlockNumber, Body, ChainEvent, ChainId, Change, ClientMessage, Cursor, Effect,
    ErrorCode, Mode, Rid, ServerMessage, Subscribe, Subscribed, Topic, TopicResetReason, ValueKey,
};
use gapless_server::Scopes;
use gapless_store::Ingestion;

use crate::client::{Client, within};
use crate::test_server::TestServer;

on_both_stores!(
    events_are_told_as_they_become_true_and_taken_back,
    who_comes_back_is_told_what_they_missed,
    who_never_saw_what_was_revoked_sees_neither_it_nor_the_revoke,
    an_event_on_either_side_of_the_snapshot_is_told_once,
    who_waits_for_confirmation_is_told_late_and_never_of_a_revoke,
    who_waits_for_confirmation_on_a_young_chain_is_told_of_its_first_block,
    a_position_that_can_not_be_served_is_one_reset,
    a_feed_that_begins_anew_is_a_reset_for_all,
    a_cursor_of_a_life_that_is_no_more_is_named_even_when_the_log_has_overtaken_it,
    several_subscriptions_of_one_connection_go_their_own_ways,
    a_topic_is_told_only_to_those_who_may_read_it,
    a_token_that_may_read_less_does_not_renew_what_follows_more,
    commits_that_come_at_once_are_told_in_order,
);

const CHAIN: ChainId = ChainId::new(1);

// Chain behaviour 7
async fn events_are_told_as_they_become_true_and_taken_back(server: TestServer) {
    take(&server, &[block("a1", "a0", 1)]).await;
    let mut reader = Reader::connect(&server).await;
    assert_eq!(reader.subscribe(None, None, false).await.cursor.as_str(), "1:00000000000001:0000:1");
    take(&server, &[block("a2", "a1", 2)]).await;
    assert_eq!(reader.told(2).await, ["a2-0 1:00000000000002:0000:2", "a2-1 1:00000000000002:0001:3"]);
    take(&server, &[block("b2", "a1", 1)]).await;
    assert_eq!(reader.told(2).await, ["revoke 1:00000000000001:0000:4", "b2-0 1:00000000000002:0000:5"]);
}

// Chain behaviour 2
async fn who_comes_back_is_told_what_they_missed(mut server: TestServer) {
    take(&server, &[block("a1", "a0", 1), block("a2", "a1", 1)]).await;
    let mut reader = Reader::connect(&server).await;
    reader.subscribe(Some("1:0:0:0"), None, false).await;
    assert_eq!(reader.words(2).await, ["a1-0", "a2-0"]);
    let cursor = reader.cursor.clone();
    drop(reader);
    take(&server, &[block("b2", "a1", 1), block("b3", "b2", 3)]).await;
    server.restart().await;
    take(&server, &[block("b4", "b3", 1)]).await;
    let mut reader = Reader::connect(&server).await;
    reader.subscribe(Some(&cursor), None, false).await;
    assert_eq!(reader.words(6).await, ["revoke", "b2-0", "b3-0", "b3-1", "b3-2", "b4-0"]);
}

// Chain behaviour 7
async fn who_never_saw_what_was_revoked_sees_neither_it_nor_the_revoke(server: TestServer) {
    take(&server, &[block("a1", "a0", 1), block("a2", "a1", 3), block("b2", "a1", 1)]).await;
    let mut reader = Reader::connect(&server).await;
    reader.subscribe(Some("1:1:0"), None, false).await;
    assert_eq!(reader.words(1).await, ["b2-0"]);
    let mut reader = Reader::connect(&server).await;
    reader.subscribe(Some("1:0:0:0"), None, false).await;
    assert_eq!(reader.words(2).await, ["a1-0", "b2-0"]);
}

// Chain behaviour 6
async fn an_event_on_either_side_of_the_snapshot_is_told_once(server: TestServer) {
    take(&server, &[block("a1", "a0", 1)]).await;
    for height in 2..=20 {
        take(&server, &[block(&format!("a{height}"), &format!("a{}", height - 1), 1)]).await;
    }
    let mut reader = Reader::connect(&server).await;
    let begun = reader.subscribe(None, None, true).await;
    // What is confirmed is in the snapshot: 12 blocks lie above it.
    assert_eq!(begun.cursor.as_str(), "1:00000000000008:0000:8");
    let ServerMessage::Snapshot(snapshot) = reader.client.next().await else {
        panic!("a snapshot comes first")
    };
    assert_eq!(snapshot.cursor, begun.cursor);
    assert_eq!(snapshot.state[&topic("transfers")][&key("alice")].as_str(), "\"8\"");
    take(&server, &[block("a21", "a20", 1)]).await;
    let expected: Vec<_> = (9..=21).map(|height| format!("a{height}-0")).collect();
    assert_eq!(reader.words(13).await, expected);
    assert_eq!(reader.value.as_deref(), Some("\"21\""));
}

// Chain behaviour 13
async fn who_waits_for_confirmation_is_told_late_and_never_of_a_revoke(mut server: TestServer) {
    take(&server, &[block("a1", "a0", 1), block("a2", "a1", 1), block("b2", "a1", 1)]).await;
    let mut reader = Reader::connect(&server).await;
    reader.subscribe(Some("1:0:0:0"), Some(Mode::Confirmed), false).await;
    let mut parent = "b2".to_owned();
    for height in 3..=14 {
        let name = format!("b{height}");
        take(&server, &[block(&name, &parent, 0)]).await;
        parent = name;
    }
    assert_eq!(reader.words(2).await, ["a1-0", "b2-0"]);
    let cursor = reader.cursor.clone();
    server.restart().await;
    take(&server, &[block("b15", "b14", 1)]).await;
    for height in 16..=27 {
        take(&server, &[block(&format!("b{height}"), &format!("b{}", height - 1), 0)]).await;
    }
    let mut reader = Reader::connect(&server).await;
    reader.subscribe(Some(&cursor), Some(Mode::Confirmed), false).await;
    assert_eq!(reader.words(1).await, ["b15-0"]);
}

// Chain behaviours 13, 14
async fn who_waits_for_confirmation_on_a_young_chain_is_told_of_its_first_block(server: TestServer) {
    take(&server, &[block("a0", "x", 1), block("a1", "a0", 1)]).await;
    let mut reader = Reader::connect(&server).await;
    reader.subscribe(None, Some(Mode::Confirmed), false).await;
    for height in 2..=12 {
        take(&server, &[block(&format!("a{height}"), &format!("a{}", height - 1), 0)]).await;
    }
    assert_eq!(reader.words(1).await, ["a0-0"]);
}

// Chain behaviour 3
async fn a_position_that_can_not_be_served_is_one_reset(server: TestServer) {
    take_final(&server, &[block("a1", "a0", 2), block("a2", "a1", 2)], 2).await;
    server.store().trim_chain(CHAIN, gapless_proto::Seq::new(3).unwrap()).await.unwrap();
    for (cursor, reason) in [
        ("1:1:0:1", TopicResetReason::CursorExpired),
        ("1:1:0", TopicResetReason::CursorExpired),
        ("1:2:0:99", TopicResetReason::CursorAhead),
        ("1:9:0", TopicResetReason::CursorAhead),
    ] {
        let mut reader = Reader::connect(&server).await;
        let begun = reader.subscribe(Some(cursor), None, false).await;
        let ServerMessage::Reset(reset) = reader.client.next().await else { panic!("a reset follows") };
        assert_eq!((reset.sub, reset.reason), (begun.sub, reason), "{cursor}");
        take(&server, &[block("a3", "a2", 1)]).await;
        let rid = reader.client.next_rid();
        reader.client.tell(&ClientMessage::Unsubscribe { rid, sub: begun.sub }).await;
        assert_eq!(reader.client.expect_error_code(rid).await, ErrorCode::NotFound, "it has ended");
    }
    for (cursor, word) in
        [("2:1:0:1", "of the chain 2"), ("garbage", "a cursor of a chain is"), ("1:1:0:x", "a cursor")]
    {
        let mut reader = Reader::connect(&server).await;
        let rid = reader.ask(&["chain:1:transfers"], Some(cursor), None, false).await;
        let error = reader.client.expect_error(rid).await;
        assert_eq!(error.code, ErrorCode::BadRequest);
        assert!(error.message.contains(word), "{}", error.message);
    }
}

// Chain behaviour 3
#[tokio::test]
async fn who_was_away_longer_than_entries_are_kept_is_told_once_and_begins_with_a_snapshot() {
    let mut server = TestServer::start_with(|config| {
        (config.chains.confirmations, config.chains.replay_entries) = (2, 5);
        config.chains.trim_interval = Duration::from_millis(20);
    })
    .await;
    take(&server, &[block("a1", "a0", 1)]).await;
    let mut away = Reader::connect(&server).await;
    away.subscribe(Some("1:0:0:0"), None, false).await;
    assert_eq!(away.words(1).await, ["a1-0"]);
    let cursor = away.cursor.clone();
    drop(away);
    let blocks: Vec<_> = (2..=10).map(|n| block(&format!("a{n}"), &format!("a{}", n - 1), 1)).collect();
    take_final(&server, &blocks, 10).await;
    is_kept_from(&server, 6).await;
    // What it remembers of the log goes back further.
    server.restart().await;

    let mut late = Reader::connect(&server).await;
    let begun = late.subscribe(Some(&cursor), None, false).await;
    let ServerMessage::Reset(reset) = late.client.next().await else { panic!("a reset comes") };
    assert_eq!((reset.sub, reset.reason), (begun.sub, TopicResetReason::CursorExpired));
    late.subscribe(None, None, true).await;
    let ServerMessage::Snapshot(snapshot) = late.client.next().await else { panic!("a snapshot comes") };
    assert_eq!(snapshot.state[&topic("transfers")][&key("alice")].as_str(), "\"10\"");
    take(&server, &[block("a11", "a10", 1)]).await;
    assert_eq!(late.words(1).await, ["a11-0"]);
    assert_eq!(late.value.as_deref(), Some("\"11\""));

    let mut in_time = Reader::connect(&server).await;
    in_time.subscribe(Some("1:7:0:7"), None, false).await;
    assert_eq!(in_time.words(4).await, ["a8-0", "a9-0", "a10-0", "a11-0"]);
}

// Chain behaviours 3, 13
#[tokio::test]
async fn what_waits_to_be_confirmed_is_kept_however_little_is() {
    let server = TestServer::start_with(|config| {
        (config.chains.confirmations, config.chains.replay_entries) = (3, 1);
        config.chains.trim_interval = Duration::from_millis(20);
    })
    .await;
    let first: Vec<_> = (1..=10).map(|n| block(&format!("a{n}"), &format!("a{}", n - 1), 1)).collect();
    // No reorg reaches more than one block down, but to be confirmed takes three.
    let take = async |blocks: &[Block]| {
        let ingestion = Ingestion { blocks: blocks.to_vec(), window: 1, ..Ingestion::default() };
        server.store().ingest(CHAIN, ingestion).await.unwrap();
    };
    take(&first).await;
    let mut reader = Reader::connect(&server).await;
    is_kept_from(&server, 8).await;
    reader.subscribe(Some("1:7:0:7"), Some(Mode::Confirmed), false).await;
    take(&[block("a11", "a10", 1)]).await;
    is_kept_from(&server, 9).await;
    assert_eq!(reader.words(1).await, ["a8-0"]);
    let blocks: Vec<_> = (12..=14).map(|n| block(&format!("a{n}"), &format!("a{}", n - 1), 1)).collect();
    take(&blocks).await;
    assert_eq!(reader.words(3).await, ["a9-0", "a10-0", "a11-0"]);
}

// Chain behaviour 12
async fn a_feed_that_begins_anew_is_a_reset_for_all(server: TestServer) {
    take(&server, &[block("a1", "a0", 1), block("a2", "a1", 1)]).await;
    let mut readers = [Reader::connect(&server).await, Reader::connect(&server).await];
    readers[0].subscribe(None, None, false).await;
    readers[1].subscribe(None, Some(Mode::Confirmed), false).await;
    server.store().restart_chain(CHAIN).await.unwrap();
    for reader in &mut readers {
        let ServerMessage::Reset(reset) = reader.client.next().await else { panic!("a reset comes") };
        assert_eq!(reset.reason, TopicResetReason::DeepReorg);
    }
    // A position of the new life, where nothing is yet.
    let [mut reader, mut other] = readers;
    let newest = other.subscribe(None, None, false).await.cursor;
    take(&server, &[block("c9", "c8", 1)]).await;
    assert_eq!(other.words(1).await, ["c9-0"]);
    for (cursor, reason) in [
        ("1:1:0:1", TopicResetReason::DeepReorg),
        // That which held all of it, too.
        ("1:2:0:2", TopicResetReason::DeepReorg),
        ("1:1:0", TopicResetReason::CursorExpired),
    ] {
        reader.subscribe(Some(cursor), None, false).await;
        let ServerMessage::Reset(reset) = reader.client.next().await else { panic!("it was given up") };
        assert_eq!(reset.reason, reason, "{cursor}");
    }
    reader.subscribe(Some("1:0:0"), None, false).await;
    assert_eq!(reader.words(1).await, ["c9-0"], "the beginning is what is kept");
    reader.subscribe(Some(newest.as_str()), None, false).await;
    assert_eq!(reader.words(1).await, ["c9-0"]);
}

// Chain behaviour 3
async fn a_cursor_of_a_life_that_is_no_more_is_named_even_when_the_log_has_overtaken_it(server: TestServer) {
    take(&server, &[block("a1", "a0", 2)]).await;
    server.store().raise_chain_epochs().await.unwrap();
    take(&server, &[block("a2", "a1", 5)]).await;
    for (cursor, words) in [("1:1:1:2", Some("a2-0")), ("1:2:0:3", None), ("1:2:4:7", None)] {
        let mut reader = Reader::connect(&server).await;
        reader.subscribe(Some(cursor), None, false).await;
        match words {
            Some(words) => assert_eq!(reader.words(1).await, [words]),
            None => {
                let ServerMessage::Reset(reset) = reader.client.next().await else {
                    panic!("a reset follows")
                };
                assert_eq!(reset.reason, TopicResetReason::EpochChanged);
            }
        }
    }
}

async fn several_subscriptions_of_one_connection_go_their_own_ways(server: TestServer) {
    take(&server, &[block("a1", "a0", 1)]).await;
    let mut reader = Reader::connect(&server).await;
    let first = reader.subscribe(None, None, false).await.sub;
    let second = reader.subscribe(Some("1:0:0:0"), None, false).await.sub;
    assert_ne!(first, second);
    let ServerMessage::TopicEvent(event) = reader.client.next().await else { panic!("an event comes") };
    assert_eq!((event.sub, event.topic), (second, topic("transfers")));
    let rid = reader.client.next_rid();
    reader.client.tell(&ClientMessage::Unsubscribe { rid, sub: second }).await;
    assert_eq!(reader.client.next().await, ServerMessage::Unsubscribed { rid, sub: second });
    take(&server, &[block("a2", "a1", 1)]).await;
    let ServerMessage::TopicEvent(event) = reader.client.next().await else { panic!("an event comes") };
    assert_eq!(event.sub, first);

    let rid = reader.ask(&["chain:1:transfers", "chain:2:transfers"], None, None, false).await;
    assert_eq!(reader.client.expect_error_code(rid).await, ErrorCode::BadRequest);
    let rid = reader.ask(&["chain:7:transfers"], None, None, false).await;
    assert_eq!(reader.client.expect_error_code(rid).await, ErrorCode::NotFound);
}

async fn a_topic_is_told_only_to_those_who_may_read_it(server: TestServer) {
    take(&server, &[block("a1", "a0", 1)]).await;
    for (scope, is_allowed) in [
        ("", false),
        ("read:chain:1:other", false),
        ("read:chain:1:transfers", true),
        ("read:chain:*", true),
        ("service", true),
    ] {
        let mut reader = Reader::connect_as(&server, scope).await;
        let rid = reader.ask(&["chain:1:transfers"], None, None, false).await;
        if is_allowed {
            reader.expect_subscribed(rid).await;
        } else {
            assert_eq!(reader.client.expect_error_code(rid).await, ErrorCode::Forbidden, "{scope}");
        }
    }
}

async fn a_token_that_may_read_less_does_not_renew_what_follows_more(server: TestServer) {
    take(&server, &[block("a1", "a0", 1)]).await;
    let mut reader = Reader::connect(&server).await;
    let begun = reader.subscribe(None, None, false).await;
    let narrow = server.scoped_token("alice", Scopes::parse("read:chain:1:others").unwrap());
    let rid = reader.client.next_rid();
    reader.client.tell(&ClientMessage::Renew { rid, token: narrow.clone() }).await;
    let error = reader.client.expect_error(rid).await;
    assert_eq!(error.code, ErrorCode::Forbidden);
    assert!(error.message.contains("chain:1:transfers"), "{}", error.message);

    let rid = reader.client.next_rid();
    reader.client.tell(&ClientMessage::Unsubscribe { rid, sub: begun.sub }).await;
    let ServerMessage::Unsubscribed { .. } = reader.client.next().await else { panic!("it ends") };
    // Asked for with the wide token, which may be gone when it begins: one of the two is refused.
    let asked = reader.ask(&["chain:1:transfers"], None, None, false).await;
    let renewal = reader.client.next_rid();
    reader.client.tell(&ClientMessage::Renew { rid: renewal, token: narrow }).await;
    let refused = loop {
        match reader.client.next().await {
            ServerMessage::Error(error) => break error.rid.unwrap(),
            ServerMessage::Subscribed(_) | ServerMessage::Renewed { .. } => {}
            other => panic!("{other:?}"),
        }
    };
    assert!([asked, renewal].contains(&refused));
}

async fn commits_that_come_at_once_are_told_in_order(server: TestServer) {
    take(&server, &[block("a1", "a0", 1)]).await;
    let mut reader = Reader::connect(&server).await;
    reader.subscribe(None, None, false).await;
    let (first, second) = ([block("a2", "a1", 1)], [block("a3", "a2", 1)]);
    tokio::join!(take(&server, &first), take(&server, &second));
    assert_eq!(reader.words(2).await, ["a2-0", "a3-0"]);
}

#[tokio::test]
async fn what_nobody_told_of_is_found_in_the_store() {
    let (server, _store) =
        TestServer::start_deaf_with(|config| config.upkeep.heads_interval = Duration::from_millis(20)).await;
    take(&server, &[block("a1", "a0", 1)]).await;
    let mut reader = Reader::connect(&server).await;
    reader.subscribe(None, None, false).await;
    take(&server, &[block("a2", "a1", 1), block("b2", "a1", 2)]).await;
    assert_eq!(reader.words(2).await, ["b2-0", "b2-1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_that_comes_back_at_one_place_costs_the_store_few_reads() {
    const READERS: usize = 100;
    let (server, store) = TestServer::start_faulty().await;
    let mut expected = Vec::new();
    for height in 1..=25 {
        let name = format!("a{height}");
        take(&server, &[block(&name, &format!("a{}", height - 1), 100)]).await;
        expected.extend((0..100).map(|log| format!("{name}-{log}")));
    }
    let mut readers = Vec::new();
    for _ in 0..READERS {
        readers.push(Reader::connect(&server).await);
    }
    let before = store.chain_reads();
    let follow = |mut reader: Reader| async move {
        reader.subscribe(Some("1:0:0:0"), None, false).await;
        reader.words(2_500).await
    };
    for words in join_all(readers.into_iter().map(follow)).await {
        assert_eq!(words, expected);
    }
    let reads = store.chain_reads() - before;
    // Three stretches of the log, where the feed is for those who come first, and where it is every 3 s.
    assert!(reads < READERS / 5, "{reads} reads for {READERS} readers");
}

// Chain behaviour 4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_stops_reading_is_reset_once_and_delays_nobody() {
    let server = TestServer::start_with(|config| {
        config.session.write_stall_max = Duration::from_secs(3_600);
        config.session.heartbeat.ping_after = Duration::from_secs(3_600);
    })
    .await;
    take(&server, &[block("a1", "a0", 1)]).await;
    let mut stuck = Reader::connect(&server).await;
    stuck.subscribe(None, None, false).await;
    let mut other = Reader::connect(&server).await;
    other.subscribe(None, None, false).await;
    let mut told = 0;
    for height in 2..=40 {
        let mut large = block(&format!("a{height}"), &format!("a{}", height - 1), 100);
        for event in &mut large.events {
            event.payload = Body::from_text(format!("\"{}\"", "x".repeat(4_000))).unwrap();
        }
        take(&server, &[large]).await;
        told += other.told(100).await.len();
    }
    assert_eq!(told, 3_900);

    let mut read = 0;
    let reason = loop {
        match stuck.client.next().await {
            ServerMessage::TopicEvent(event) => {
                read += 1;
                stuck.cursor = event.cursor.to_string();
            }
            ServerMessage::Reset(reset) => break reset.reason,
            other => panic!("unexpected {other:?}"),
        }
    };
    assert_eq!(reason, TopicResetReason::SlowConsumer);
    assert!(read < 3_900, "the kernel took everything");
    let cursor = stuck.cursor.clone();
    stuck.subscribe(Some(&cursor), None, false).await;
    assert_eq!(stuck.told(3_900 - read).await.len(), 3_900 - read);
}

/// A reader and the position that it was told of.
struct Reader {
    client: Client,
    cursor: String,
    /// The newest value of `alice`.
    value: Option<String>,
}

impl Reader {
    async fn connect(server: &TestServer) -> Self {
        Self::connect_as(server, "read:*").await
    }

    async fn connect_as(server: &TestServer, scope: &str) -> Self {
        let token = server.scoped_token("alice", Scopes::parse(scope).unwrap());
        let mut client = Client::connect(server.address(), &token).await.unwrap();
        client.expect_welcome().await;
        Self { client, cursor: String::new(), value: None }
    }

    async fn ask(
        &mut self,
        topics: &[&str],
        cursor: Option<&str>,
        mode: Option<Mode>,
        snapshot: bool,
    ) -> Rid {
        let rid = self.client.next_rid();
        let topics = topics.iter().map(|name| Topic::new(name).unwrap()).collect();
        let cursor = cursor.map(|cursor| Cursor::new(cursor).unwrap());
        let subscribe = Subscribe { rid, topics, cursor, mode, snapshot: snapshot.then_some(true) };
        self.client.tell(&ClientMessage::Subscribe(subscribe)).await;
        rid
    }

    async fn subscribe(&mut self, cursor: Option<&str>, mode: Option<Mode>, snapshot: bool) -> Subscribed {
        let rid = self.ask(&["chain:1:transfers"], cursor, mode, snapshot).await;
        self.expect_subscribed(rid).await
    }

    async fn expect_subscribed(&mut self, rid: Rid) -> Subscribed {
        match self.client.next().await {
            ServerMessage::Subscribed(subscribed) if subscribed.rid == rid => subscribed,
            other => panic!("expected the subscription to begin, got {other:?}"),
        }
    }

    /// The next things that are told, with their cursors.
    async fn told(&mut self, count: usize) -> Vec<String> {
        let mut told = Vec::new();
        while told.len() < count {
            match self.client.next().await {
                ServerMessage::TopicEvent(event) => {
                    self.cursor = event.cursor.to_string();
                    self.value = event.values.get(&key("alice")).map(|value| value.as_str().to_owned());
                    told.push(format!("{} {}", event.payload.as_str().trim_matches('"'), event.cursor));
                }
                ServerMessage::Revoke(revoke) => {
                    self.cursor = revoke.from_cursor.to_string();
                    told.push(format!("revoke {}", revoke.from_cursor));
                }
                other => panic!("expected an event or a revoke, got {other:?}"),
            }
        }
        told
    }

    async fn words(&mut self, count: usize) -> Vec<String> {
        let told = self.told(count).await;
        told.iter().map(|told| told.split(' ').next().unwrap().to_owned()).collect()
    }
}

async fn take(server: &TestServer, blocks: &[Block]) {
    let ingestion = Ingestion { blocks: blocks.to_vec(), ..Ingestion::default() };
    server.store().ingest(CHAIN, ingestion).await.unwrap();
}

async fn take_final(server: &TestServer, blocks: &[Block], finalized: u64) {
    let finalized = Some(BlockNumber::new(finalized).unwrap());
    let ingestion = Ingestion { blocks: blocks.to_vec(), finalized, ..Ingestion::default() };
    server.store().ingest(CHAIN, ingestion).await.unwrap();
}

/// Waits until the log begins with a seq.
async fn is_kept_from(server: &TestServer, min_seq: u64) {
    let trimmed = async {
        let mut looks = tokio::time::interval(Duration::from_millis(5));
        while server.store().chain(CHAIN).await.unwrap().unwrap().min_seq.get() < min_seq {
            looks.tick().await;
        }
    };
    within(trimmed).await;
    assert_eq!(server.store().chain(CHAIN).await.unwrap().unwrap().min_seq.get(), min_seq);
}

/// A block that is named by its branch and height, as in `a7`, with so many events, each of which adds 1 to what alice has.
fn block(name: &str, parent: &str, events: u32) -> Block {
    let event = |log: u32| ChainEvent {
        log,
        topic: Topic::new("transfers").unwrap(),
        payload: Body::from_text(format!("\"{name}-{log}\"")).unwrap(),
        changes: vec![Change { key: key("alice"), effect: Effect::Add("1".parse().unwrap()) }],
    };
    Block {
        number: BlockNumber::new(name[1..].parse().unwrap()).unwrap(),
        hash: hash(name),
        parent: hash(parent),
        time: 0,
        events: (0..events).map(event).collect(),
    }
}

fn hash(name: &str) -> BlockHash {
    let mut bytes = [0; 32];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    BlockHash(bytes)
}

fn topic(name: &str) -> Topic {
    Topic::new(&format!("chain:1:{name}")).unwrap()
}

fn key(name: &str) -> ValueKey {
    ValueKey::new(name).unwrap()
}
