use gapless_proto::{Cursor, ErrorCode, Mode, Rid, ServerMessage, Sub, Subscribed, Topic, TopicResetReason};

use super::bench::Bench;
use crate::{Topics, TopicsStart};

const EVENT: &str =
    r#"{"t":"event","sub":1,"cursor":"1:5:0:9","type":"log","topic":"chain:1:a","payload":1}"#;
const REVOKE: &str = r#"{"t":"revoke","sub":1,"fromCursor":"1:4:0:10"}"#;

fn topics(start: TopicsStart) -> Topics {
    Topics { names: vec![Topic::new("chain:1:a").unwrap()], mode: Mode::Instant, start }
}

fn cursor(text: &str) -> Cursor {
    Cursor::new(text).unwrap()
}

fn live(start: TopicsStart) -> Bench {
    let mut bench = Bench::live();
    bench.session.subscribe(topics(start), bench.now);
    bench.collect();
    bench
}

fn hear(bench: &mut Bench, connection: u64, frame: &str) {
    bench.message(connection, gapless_proto::decode_server_message(frame).unwrap());
}

fn begin(bench: &mut Bench, connection: u64, sub: u32, at: &str) {
    let rid = Rid::new(bench.last_rid()).unwrap();
    let subscribed = Subscribed { rid, sub: Sub::new(sub), cursor: cursor(at) };
    bench.message(connection, ServerMessage::Subscribed(subscribed));
}

// Chain behaviour 2
#[test]
fn a_subscription_goes_on_where_it_was_on_the_next_connection() {
    let mut bench = live(TopicsStart::Newest);
    assert_eq!(bench.drain(), ["0: subscribe chain:1:a"]);
    begin(&mut bench, 0, 1, "1:3:0:7");
    hear(&mut bench, 0, EVENT);
    hear(&mut bench, 0, REVOKE);
    assert_eq!(bench.drain(), ["topics begun 1:3:0:7", "topics event 1:5:0:9", "topics revoke 1:4:0:10"]);
    bench.cut(0);
    bench.reconnect();
    bench.drain();
    bench.welcome(1);
    assert_eq!(bench.drain(), ["connected", "1: subscribe chain:1:a after 1:4:0:10"]);
}

#[test]
fn what_comes_of_an_old_connection_moves_nothing() {
    let mut bench = live(TopicsStart::Newest);
    begin(&mut bench, 0, 1, "1:3:0:7");
    bench.cut(0);
    bench.reconnect();
    bench.welcome(1);
    bench.drain();
    hear(&mut bench, 0, EVENT);
    hear(&mut bench, 1, EVENT);
    assert_eq!(bench.drain(), Vec::<String>::new(), "the second connection has no such number yet");
}

// Chain behaviour 3
#[test]
fn a_snapshot_is_asked_for_again_until_it_is_whole_and_after_a_reset() {
    let part = r#"{"t":"snapshot","sub":1,"cursor":"1:3:0:7","state":{},"has_more":true}"#;
    let last = r#"{"t":"snapshot","sub":1,"cursor":"1:3:0:7","state":{}}"#;
    let mut bench = live(TopicsStart::Snapshot);
    assert_eq!(bench.drain(), ["0: subscribe chain:1:a with a snapshot"]);
    begin(&mut bench, 0, 1, "1:3:0:7");
    hear(&mut bench, 0, part);
    bench.cut(0);
    bench.reconnect();
    bench.drain();
    bench.welcome(1);
    assert_eq!(bench.drain(), ["connected", "1: subscribe chain:1:a with a snapshot"]);
    begin(&mut bench, 1, 1, "1:3:0:7");
    hear(&mut bench, 1, part);
    hear(&mut bench, 1, last);
    bench.drain();
    hear(&mut bench, 1, r#"{"t":"reset","sub":1,"reason":"cursor_expired"}"#);
    assert_eq!(bench.drain(), ["topics reset CursorExpired", "1: subscribe chain:1:a with a snapshot"]);
}

// Chain behaviour 4
#[test]
fn a_reader_that_was_too_slow_goes_on_where_it_was() {
    let mut bench = live(TopicsStart::After(cursor("1:0:0")));
    begin(&mut bench, 0, 1, "1:0:0");
    hear(&mut bench, 0, EVENT);
    bench.drain();
    hear(&mut bench, 0, r#"{"t":"reset","sub":1,"reason":"slow_consumer"}"#);
    assert_eq!(bench.drain(), ["topics reset SlowConsumer", "0: subscribe chain:1:a after 1:5:0:9"]);
}

// Chain behaviour 3
#[test]
fn resets_without_anything_between_do_not_loop_and_do_not_end_in_silence() {
    let mut bench = live(TopicsStart::After(cursor("1:0:0:5")));
    begin(&mut bench, 0, 1, "1:0:0:5");
    hear(&mut bench, 0, r#"{"t":"reset","sub":1,"reason":"cursor_ahead"}"#);
    begin(&mut bench, 0, 2, "1:0:0:2");
    bench.drain();
    hear(&mut bench, 0, r#"{"t":"reset","sub":2,"reason":"cursor_ahead"}"#);
    assert_eq!(bench.drain(), [format!("topics reset {:?}", TopicResetReason::CursorAhead)]);
    bench.pass(4_999);
    assert_eq!(bench.drain(), Vec::<String>::new());
    bench.pass(1);
    assert_eq!(bench.drain(), ["0: subscribe chain:1:a"]);
}

#[test]
fn what_is_refused_for_good_is_told_and_what_is_not_is_asked_again() {
    let mut bench = live(TopicsStart::Newest);
    bench.drain();
    let rid = bench.last_rid();
    bench.refuse(0, rid, ErrorCode::Forbidden, None);
    assert_eq!(bench.drain(), ["topics refused Forbidden"]);

    let mut bench = live(TopicsStart::Newest);
    bench.drain();
    let rid = bench.last_rid();
    bench.refuse(0, rid, ErrorCode::Unavailable, Some(200));
    assert_eq!(bench.drain(), ["close 0", "disconnected for 200ms"]);
    bench.pass(200);
    bench.welcome(1);
    assert_eq!(bench.drain(), ["connect 1", "connected", "1: subscribe chain:1:a"]);
}
