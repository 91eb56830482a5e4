//! `gapless tail --topic`: events are printed as they become true, and so is what takes them back.

use crate::chain_blocks::{block, take};
use crate::command::{gapless, run, said};
use crate::send::demo;
use crate::tail::Tail;

const TAIL: [&str; 6] = ["--user", "bob", "--topic", "chain:1:transfers", "--cursor", "1:0:0"];

// Chain behaviours 2, 7
#[test]
fn events_and_what_takes_them_back_are_printed_across_a_restart() {
    let (_folder, mut server) = demo();
    take(server.address(), &[block(1, 'a', 'x'), block(2, 'a', 'a')]);
    let mut tail = Tail::start(&server, &TAIL);
    assert_eq!(tail.next_line(), r#"1:00000000000001:0000:1 chain:1:transfers {"to":"1a"}"#);
    assert!(tail.next_line().ends_with(r#"{"to":"2a"}"#));

    server.restart().unwrap();
    take(server.address(), &[block(2, 'b', 'a'), block(3, 'b', 'b')]);
    assert!(tail.next_line().starts_with("1:00000000000001:0000:3 REVOKED"));
    assert!(tail.next_line().ends_with(r#"{"to":"2b"}"#));
    assert!(tail.next_line().ends_with(r#"{"to":"3b"}"#));
}

#[test]
fn json_lines_are_frames_of_the_protocol_and_their_cursor_is_where_to_go_on() {
    let (_folder, server) = demo();
    take(server.address(), &[block(1, 'a', 'x'), block(2, 'a', 'a')]);
    let mut json = TAIL.to_vec();
    json.push("--json");
    let mut tail = Tail::start(&server, &json);
    let mut line = || -> serde_json::Value { serde_json::from_str(&tail.next_line()).unwrap() };
    assert_eq!(line()["t"], "subscribed");
    let first = line();
    assert_eq!((&first["t"], &first["payload"]["to"]), (&"event".into(), &"1a".into()));

    json[5] = first["cursor"].as_str().unwrap();
    let mut tail = Tail::start(&server, &json);
    tail.next_line();
    assert!(tail.next_line().contains("\"2a\""));
}

#[test]
fn the_newest_values_come_first_if_they_are_asked_for() {
    let (_folder, server) = demo();
    let mut blocks = vec![block(1, 'a', 'x')];
    blocks.extend((2..=13).map(|number| block(number, 'a', 'a')));
    take(server.address(), &blocks);
    let arguments = ["--user", "bob", "--topic", "chain:1:transfers", "--snapshot"];
    let mut tail = Tail::start(&server, &arguments);
    assert!(tail.next_line().ends_with(r#"chain:1:transfers[alice] = "1""#));
    assert!(tail.next_line().ends_with(r#"{"to":"2a"}"#), "12 blocks aren't confirmed");
}

#[test]
fn what_is_for_conversations_is_refused_beside_topics() {
    for flags in [&["demo"][..], &["--after", "1"], &["--no-follow"], &["--timeout", "1s"], &["--state", "x"]]
    {
        let mut arguments = vec!["tail"];
        arguments.extend(TAIL);
        arguments.extend(flags);
        let refused = run(&arguments);
        assert_eq!(refused.code, Some(2), "{refused}");
        assert!(refused.stderr.contains("cannot be used with"), "{refused}");
    }
}

#[test]
fn a_chain_that_is_not_there_is_named() {
    let (_folder, server) = demo();
    let url = server.url();
    let mut arguments = vec!["tail", "--url", &url];
    arguments.extend(TAIL);
    let refused = said(&mut gapless(&arguments));
    assert!(refused.complained().contains("no feed of the chain 1"), "{refused}");
}
