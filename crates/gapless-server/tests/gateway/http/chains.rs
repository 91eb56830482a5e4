//! Blocks in, and server-sent events out.

use std::collections::HashSet;
use std::time::Duration;

use gapless_server::AuthConfig;
use reqwest::Method;
use serde_json::{Value, json};

use super::api::{Api, Caller};
use super::event_source::EventSource;
use crate::client::within;
use crate::test_server::TestServer;

const BLOCKS: &str = "/v1/chains/1/blocks";

#[tokio::test]
async fn blocks_are_taken_whole_and_may_be_sent_again() {
    let server = Api::start().await;
    let backend = server.service();
    backend.get("/v1/chains/1").await.refused(404, "NOT_FOUND");
    let request = json!({"blocks": [block(1, "a", "0", 2), block(2, "a", "a", 1)], "finalized": 1});
    for taken in [2, 0] {
        let answer = backend.post(BLOCKS, &request).await.done();
        assert_eq!((&answer["taken"], &answer["revoked"]), (&json!(taken), &json!(0)));
        assert_eq!(answer["block"], json!({"number": 2, "hash": hash(2, "a")}));
        assert_eq!((&answer["head"], &answer["chain"]), (&json!(3), &json!("1")));
    }
    let reorg = json!({"blocks": [block(2, "b", "a", 0), block(3, "b", "b", 0)]});
    assert_eq!(backend.post(BLOCKS, &reorg).await.done()["revoked"], 1);
    assert_eq!(server.user("alice").get("/v1/chains/1").await.done()["finalized"], 1);
}

#[tokio::test]
async fn blocks_that_can_not_be_taken_are_named_and_nothing_of_them_is_stored() {
    let server = Api::start().await;
    let backend = server.service();
    server.user("alice").post(BLOCKS, &json!({"blocks": []})).await.refused(403, "FORBIDDEN");
    let first = json!({"blocks": [block(1, "a", "0", 1), block(2, "a", "a", 0)], "finalized": 2});
    backend.post(BLOCKS, &first).await.done();

    let gap = json!({"blocks": [block(3, "a", "a", 0), block(5, "a", "a", 0)]});
    let message = backend.post(BLOCKS, &gap).await.refused(409, "MISSING_PARENT");
    assert!(message.contains(&hash(3, "a")), "{message}");
    let deep = json!({"blocks": [block(2, "b", "a", 0)]});
    backend.post(BLOCKS, &deep).await.refused(409, "DEEP_REORG");
    let unknown = json!({"head": hash(9, "z")});
    backend.post(BLOCKS, &unknown).await.refused(409, "MISSING_PARENT");
    let mut twice = block(3, "a", "a", 2);
    twice["events"][1]["log"] = json!(0);
    backend.post(BLOCKS, &json!({"blocks": [twice]})).await.refused(400, "BAD_REQUEST");
    let mut unreadable = block(3, "a", "a", 1);
    unreadable["events"][0]["topic"] = json!("a,b");
    let message = backend.post(BLOCKS, &json!({"blocks": [unreadable]})).await.refused(400, "BAD_REQUEST");
    assert!(message.contains("neither comma nor star"), "{message}");
    for field in ["number", "time"] {
        let mut beyond = block(3, "a", "a", 0);
        beyond[field] = json!(1_u64 << 53);
        backend.post(BLOCKS, &json!({"blocks": [beyond]})).await.refused(400, "BAD_REQUEST");
    }
    backend.post("/v1/chains/18446744073709551616/blocks", &first).await.refused(400, "BAD_REQUEST");
    let mistyped = json!({"blocks": [block(3, "a", "a", 0)], "finalised": 1});
    let message = backend.post(BLOCKS, &mistyped).await.refused(400, "BAD_REQUEST");
    assert!(message.contains("finalised"), "{message}");
    assert_eq!(backend.get("/v1/chains/1").await.done()["block"]["number"], 2);
}

#[tokio::test]
async fn an_operator_begins_a_feed_anew() {
    let server = Api::start().await;
    server.service().post(BLOCKS, &json!({"blocks": [block(1, "a", "0", 1)]})).await.done();
    server.service().post("/v1/admin/chains/1/restart", &json!({})).await.refused(403, "FORBIDDEN");
    let anew = server.admin().post("/v1/admin/chains/1/restart", &json!({})).await.done();
    assert_eq!((&anew["head"], &anew["min_seq"]), (&json!(2), &json!(3)));
    let page = "/v1/chains/1/events?topics=chain:1:transfers&cursor=1:1:0:1";
    server.service().get(page).await.refused(409, "DEEP_REORG");
    server.admin().post("/v1/admin/chains/9/restart", &json!({})).await.refused(404, "NOT_FOUND");
}

#[tokio::test]
async fn an_operator_trims_a_feed_up_to_what_a_reorg_may_take_back() {
    let server = Api::start().await;
    let blocks = json!({"blocks": [block(1, "a", "0", 2), block(2, "a", "a", 1), block(3, "a", "a", 1)], "finalized": 2});
    server.service().post(BLOCKS, &blocks).await.done();
    let trim = "/v1/admin/chains/1/trim";
    server.service().post(trim, &json!({"below": 2})).await.refused(403, "FORBIDDEN");
    for (below, min_seq) in [(2, 2), (1, 2), (99, 3)] {
        let trimmed = server.admin().post(trim, &json!({ "below": below })).await.done();
        assert_eq!((&trimmed["min_seq"], &trimmed["head"]), (&json!(min_seq), &json!(4)));
    }
    server.admin().post("/v1/admin/chains/9/trim", &json!({"below": 2})).await.refused(404, "NOT_FOUND");
}

// Chain behaviours 2, 7
#[tokio::test]
async fn an_event_source_that_comes_back_misses_nothing() {
    let server = Api::start_open().await;
    let reader = server.anonymous().with_header("x-gapless-user", "alice");
    reader.post(BLOCKS, &json!({"blocks": [block(1, "a", "0", 1)]})).await.done();
    let mut source = EventSource::open(&reader, "topics=chain:1:transfers", None).await;
    assert_eq!(source.next().await.0, "subscribed");
    reader.post(BLOCKS, &json!({"blocks": [block(2, "a", "a", 1)]})).await.done();
    let (name, data) = source.next().await;
    assert_eq!((name.as_str(), &data["payload"]), ("event", &json!("2a-0")));
    assert_eq!(source.id, "1:00000000000002:0000:2");
    let id = source.id.clone();
    drop(source);

    reader.post(BLOCKS, &json!({"blocks": [block(2, "b", "a", 1), block(3, "b", "b", 1)]})).await.done();
    let mut source = EventSource::open(&reader, "topics=chain:1:transfers", Some(&id)).await;
    let told = [source.next().await, source.next().await, source.next().await, source.next().await];
    assert_eq!(told.each_ref().map(|(name, _)| name.as_str()), ["subscribed", "revoke", "event", "event"]);
    assert_eq!(told[1].1["fromCursor"], "1:00000000000001:0000:3");
    assert_eq!([&told[2].1["payload"], &told[3].1["payload"]], [&json!("2b-0"), &json!("3b-0")]);
}

// Chain behaviour 3
#[tokio::test]
async fn an_event_source_whose_position_is_of_no_use_comes_back_without_it() {
    let server = Api::start_open().await;
    let reader = server.anonymous().with_header("x-gapless-user", "alice");
    reader.post(BLOCKS, &json!({"blocks": [block(1, "a", "0", 1)]})).await.done();
    let query = "topics=chain:1:transfers&snapshot=true";
    let mut source = EventSource::open(&reader, query, Some("1:9:0:99")).await;
    assert_eq!(source.next().await.0, "subscribed");
    assert_eq!(source.next().await, ("reset".to_owned(), json!({"reason": "cursor_ahead"})));
    assert_eq!(source.id, "");
    let mut source = EventSource::open(&reader, query, Some(&source.id)).await;
    assert_eq!([source.next().await.0, source.next().await.0], ["subscribed", "snapshot"]);
}

// Chain behaviour 5
#[tokio::test]
async fn event_sources_are_told_to_come_back_at_different_times() {
    let server = Api::start_open().await;
    let reader = server.anonymous().with_header("x-gapless-user", "alice");
    reader.post(BLOCKS, &json!({"blocks": [block(1, "a", "0", 1)]})).await.done();
    let mut pauses = HashSet::new();
    for _ in 0..10 {
        let mut source = EventSource::open(&reader, "topics=chain:1:transfers", None).await;
        source.next().await;
        pauses.insert(source.retry.take().expect("it says when"));
    }
    assert!(pauses.len() > 5, "{pauses:?}");
    assert!(pauses.iter().all(|pause| (500..=5_000).contains(pause)), "{pauses:?}");
}

// An `EventSource` would never come back after a 503.
#[tokio::test]
async fn an_event_source_is_told_to_come_back_while_the_store_is_away() {
    let (server, store) = TestServer::start_faulty_with(|config| config.auth = AuthConfig::Open).await;
    let api = Api::of(server).await;
    let reader = api.anonymous().with_header("x-gapless-user", "alice");
    reader.post(BLOCKS, &json!({"blocks": [block(1, "a", "0", 1)]})).await.done();
    let events = "/v1/events?topics=chain:1:transfers";
    store.fail_reads(true);
    reader.get(events).await.refused(503, "UNAVAILABLE");
    let source = reader.with_header("accept", "text/event-stream");
    let answer = source.send(source.request(Method::GET, events)).await;
    assert_eq!(answer.status, 200);
    assert!(answer.body.starts_with("retry:") && answer.body.trim().lines().count() == 1, "{}", answer.body);
}

#[tokio::test]
async fn an_event_source_is_refused_what_it_may_not_read_and_what_can_not_be() {
    let server = Api::start().await;
    server.service().post(BLOCKS, &json!({"blocks": [block(1, "a", "0", 1)]})).await.done();
    server.user("alice").get("/v1/events?topics=chain:1:transfers").await.refused(403, "FORBIDDEN");
    let backend = server.service();
    for (query, code) in [
        ("topics=", "BAD_REQUEST"),
        ("topics=transfers", "BAD_REQUEST"),
        ("topics=chain:1:a&mode=sometimes", "BAD_REQUEST"),
        ("topics=chain:1:a&cursor=2:0:0:0", "BAD_REQUEST"),
        ("topics=chain:1:a&since=1", "BAD_REQUEST"),
    ] {
        backend.get(&format!("/v1/events?{query}")).await.refused(400, code);
    }
    backend.get("/v1/events?topics=chain:7:a").await.refused(404, "NOT_FOUND");
}

#[tokio::test]
async fn an_event_source_ends_with_its_token() {
    let server = Api::start().await;
    server.service().post(BLOCKS, &json!({"blocks": [block(1, "a", "0", 1)]})).await.done();
    let token = server.short_token("alice", "read:chain:1:*", Duration::from_secs(2));
    let mut source = EventSource::open(&server.with_token(&token), "topics=chain:1:transfers", None).await;
    assert_eq!(source.next().await.0, "subscribed");
    assert_eq!(source.try_next().await, None);
    let again = server.with_token(&token).get("/v1/events?topics=chain:1:transfers").await;
    again.refused(401, "UNAUTHENTICATED");
}

// Chain behaviour 4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_source_that_takes_nothing_delays_nobody_and_goes_on_when_it_comes_back() {
    const EVENTS: usize = 3_900;
    let server = Api::start_with(|config| {
        config.auth = AuthConfig::Open;
        config.session.write_stall_max = Duration::from_secs(1);
    })
    .await;
    let backend = server.anonymous().with_header("x-gapless-user", "alice");
    backend.post(BLOCKS, &json!({"blocks": [block(1, "a", "0", 1)]})).await.done();
    let mut stuck = EventSource::open(&backend, "topics=chain:1:transfers", None).await;
    let mut other = EventSource::open(&backend, "topics=chain:1:transfers", None).await;
    assert_eq!((stuck.next().await.0, other.next().await.0), ("subscribed".into(), "subscribed".into()));
    for height in 2..=40 {
        let mut large = block(height, "a", "a", 100);
        for event in large["events"].as_array_mut().unwrap() {
            event["payload"] = json!("x".repeat(4_000));
        }
        backend.post(BLOCKS, &json!({"blocks": [large]})).await.done();
        for _ in 0..100 {
            assert_eq!(other.next().await.0, "event");
        }
    }

    // The server gives the one up that takes nothing.
    let one_is_left = async {
        while !backend.get("/metrics").await.body.contains("gapless_event_streams 1\n") {
            tokio::task::yield_now().await;
        }
    };
    within(one_is_left).await;
    let mut read = 0;
    while let Some((name, _)) = stuck.try_next().await {
        assert_eq!(name, "event");
        read += 1;
    }
    assert!(read < EVENTS, "all was told, though it was given up");
    let id = stuck.id.clone();
    let mut back = EventSource::open(&backend, "topics=chain:1:transfers", Some(&id)).await;
    assert_eq!(back.next().await.0, "subscribed");
    for _ in read..EVENTS {
        assert_eq!(back.next().await.0, "event");
    }
    assert_eq!(back.id, other.id);
}

// Chain behaviours 1, 2, 7
#[tokio::test]
async fn who_pages_through_reorgs_holds_what_who_stays_holds() {
    for mode in ["instant", "confirmed"] {
        let server = Api::start_with(|config| {
            config.auth = AuthConfig::Open;
            config.chains.confirmations = 2;
        })
        .await;
        let backend = server.anonymous().with_header("x-gapless-user", "alice");
        backend.post(BLOCKS, &json!({"blocks": [block(1, "a", "0", 1)]})).await.done();
        let query = format!("topics=chain:1:transfers&mode={mode}&cursor=1:0:0");
        let mut source = EventSource::open(&backend, &query, None).await;
        assert_eq!(source.next().await.0, "subscribed");
        let mut poller = Poller { cursor: "1:0:0".to_owned(), mode, ..Poller::default() };
        poller.page(&backend, 1).await;
        for blocks in [
            json!([block(2, "a", "a", 2), block(3, "a", "a", 1)]),
            json!([block(3, "b", "a", 2)]),
            json!([block(4, "b", "b", 0), block(5, "b", "b", 3)]),
            json!([block(4, "c", "b", 1), block(5, "c", "c", 1), block(6, "c", "c", 1)]),
            json!([block(7, "c", "c", 0), block(8, "c", "c", 1)]),
        ] {
            backend.post(BLOCKS, &json!({ "blocks": blocks })).await.done();
            poller.page(&backend, 2).await;
        }
        while poller.page(&backend, 3).await {}

        let canonical = ["1a-0", "2a-0", "2a-1", "3b-0", "3b-1", "4c-0", "5c-0", "6c-0", "8c-0"];
        let expected = if mode == "instant" { &canonical[..] } else { &canonical[..8] };
        assert_eq!(poller.held(), expected);
        let mut subscriber = Poller::default();
        while subscriber.held() != expected {
            let (name, data) = source.next().await;
            subscriber.take(&name, &data);
        }
        for revokes in [poller.revokes, subscriber.revokes] {
            assert_eq!(revokes > 0, mode == "instant", "{revokes} revokes in {mode} mode");
        }

        let before = poller.cursor.clone();
        assert!(!poller.page(&backend, 1).await);
        assert_eq!(poller.cursor, before, "an empty page changes nothing");
    }
}

#[tokio::test]
async fn a_quiet_topic_moves_the_cursor_of_who_pages_and_no_cursor_is_the_newest_position() {
    let server = Api::start().await;
    let backend = server.service();
    backend.post(BLOCKS, &json!({"blocks": [block(1, "a", "0", 3)]})).await.done();
    let page = |query: &str| {
        let (backend, path) = (backend.clone(), format!("/v1/chains/1/events?{query}"));
        async move { backend.get(&path).await.done() }
    };
    let quiet = page("topics=chain:1:other&cursor=1:0:0").await;
    assert_eq!((&quiet["events"], &quiet["has_more"]), (&json!([]), &json!(false)));
    assert_eq!(quiet["cursor"], "1:00000000000001:0000:3");
    let newest = page("topics=chain:1:transfers").await;
    assert_eq!((&newest["events"], &newest["cursor"]), (&json!([]), &json!("1:00000000000001:0000:3")));
    backend.post(BLOCKS, &json!({"blocks": [block(2, "a", "a", 1)]})).await.done();
    let next = page("topics=chain:1:transfers&cursor=1:00000000000001:0000:3").await;
    assert_eq!(next["events"][0]["payload"], "2a-0");
    assert_eq!((&next["events"][0]["t"], &next["events"][0]["sub"]), (&json!("event"), &Value::Null));
    let unconfirmed = page("topics=chain:1:transfers&cursor=1:0:0&mode=confirmed").await;
    assert_eq!(
        (&unconfirmed["events"], &unconfirmed["cursor"]),
        (&json!([]), &json!("1:00000000000000:0000:0"))
    );
}

// Chain behaviour 3
#[tokio::test]
async fn a_page_from_where_none_can_be_is_refused_with_the_reason() {
    let server = Api::start().await;
    let backend = server.service();
    let blocks = json!({"blocks": [block(1, "a", "0", 2), block(2, "a", "a", 1)], "finalized": 2});
    backend.post(BLOCKS, &blocks).await.done();
    server.admin().post("/v1/admin/chains/1/trim", &json!({"below": 3})).await.done();
    for (query, status, code) in [
        ("topics=chain:1:transfers&cursor=1:1:0:1", 410, "CURSOR_EXPIRED"),
        ("topics=chain:1:transfers&cursor=1:1:0", 410, "CURSOR_EXPIRED"),
        ("topics=chain:1:transfers&cursor=1:2:0:9", 409, "CURSOR_AHEAD"),
        ("topics=chain:1:transfers&cursor=1:9:0", 409, "CURSOR_AHEAD"),
        ("topics=chain:1:transfers&cursor=2:1:0:1", 400, "BAD_REQUEST"),
        ("topics=chain:1:transfers&cursor=garbage", 400, "BAD_REQUEST"),
        ("topics=chain:2:transfers", 400, "BAD_REQUEST"),
        ("topics=", 400, "BAD_REQUEST"),
        ("topics=chain:1:transfers&limit=0", 400, "BAD_REQUEST"),
        ("topics=chain:1:transfers&snapshot=true", 400, "BAD_REQUEST"),
    ] {
        backend.get(&format!("/v1/chains/1/events?{query}")).await.refused(status, code);
    }
    backend.get("/v1/chains/7/events?topics=chain:7:a").await.refused(404, "NOT_FOUND");
    let path = "/v1/chains/1/events?topics=chain:1:transfers";
    server.user("alice").get(path).await.refused(403, "FORBIDDEN");
    server.admin().post("/v1/admin/epoch", &json!({})).await.done();
    backend.post(BLOCKS, &json!({"blocks": [block(3, "a", "a", 1)]})).await.done();
    backend.get(&format!("{path}&cursor=1:3:0:4")).await.refused(409, "EPOCH_CHANGED");
}

/// Holds what it is told, in pages or otherwise, and knows only what the protocol says of a revoke.
#[derive(Default)]
struct Poller {
    cursor: String,
    mode: &'static str,
    events: Vec<(String, String)>,
    revokes: usize,
}

impl Poller {
    /// Asks for one page, and takes it. Returns whether there is more.
    async fn page(&mut self, reader: &Caller, limit: u32) -> bool {
        let Self { cursor, mode, .. } = self;
        let query = format!("topics=chain:1:transfers&mode={mode}&cursor={cursor}&limit={limit}");
        let page = reader.get(&format!("/v1/chains/1/events?{query}")).await.done();
        let events = page["events"].as_array().unwrap();
        assert!(events.len() <= limit as usize);
        for event in events {
            self.take(event["t"].as_str().unwrap(), event);
        }
        self.cursor = page["cursor"].as_str().unwrap().to_owned();
        page["has_more"].as_bool().unwrap()
    }

    fn take(&mut self, name: &str, told: &Value) {
        /// The block and log of a cursor, which are written so that they can be compared as texts.
        fn place(cursor: &Value) -> String {
            cursor.as_str().unwrap().rsplit_once(':').unwrap().0.to_owned()
        }
        match name {
            "event" => {
                self.events.push((place(&told["cursor"]), told["payload"].as_str().unwrap().to_owned()));
            }
            "revoke" => {
                let void = place(&told["fromCursor"]);
                self.events.retain(|(place, _)| *place <= void);
                self.revokes += 1;
            }
            _ => {}
        }
    }

    fn held(&self) -> Vec<&str> {
        self.events.iter().map(|(_, payload)| payload.as_str()).collect()
    }
}

fn block(number: u64, branch: &str, parent: &str, events: u64) -> Value {
    let event = |log: u64| {
        json!({"log": log, "topic": "transfers", "payload": format!("{number}{branch}-{log}"),
               "changes": [{"key": "alice", "add": "1"}]})
    };
    json!({"number": number, "hash": hash(number, branch), "parent": hash(number - 1, parent), "time": 1_767_225_600,
           "events": (0..events).map(event).collect::<Vec<_>>()})
}

fn hash(number: u64, branch: &str) -> String {
    format!("0x{number:062x}{:02x}", branch.as_bytes()[0])
}
