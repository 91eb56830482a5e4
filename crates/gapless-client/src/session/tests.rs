//! Each test is a rule of [`Session`].

mod bench;
mod topics;

use std::time::Duration;

use gapless_proto::{Notice, NoticeCode, UserId};

use self::bench::*;
use super::*;

#[test]
fn it_connects_at_once_and_syncs_what_it_knows() {
    let mut bench = Bench::with_positions(&[("demo", 3)]);
    assert_eq!(bench.drain(), ["connect 0"]);

    bench.welcome(0);
    assert_eq!(bench.drain(), ["connected", "0: sync demo after 3"]);
}

#[test]
fn that_there_is_nothing_new_is_told() {
    let mut bench = Bench::with_positions(&[("demo", 3)]);
    bench.welcome(0);
    bench.drain();
    let head = 3;
    bench.page(0, bench.last_rid(), head + 1..=head);
    assert_eq!(bench.drain(), ["demo is up to date"]);
}

// Behaviour 12
#[test]
fn a_message_is_persisted_before_it_is_transmitted() {
    let mut bench = Bench::live();

    bench.send("a");
    assert_eq!(bench.drain(), ["persist 0: enqueue a"]);
    bench.persisted(0);
    assert_eq!(bench.drain(), ["0: send a"]);
}

// Behaviours 10, 12
#[test]
fn after_a_lost_connection_the_outbox_goes_first_then_syncs_then_what_is_new() {
    let mut bench = Bench::live_with_positions(&[("demo", 3)]);
    for (index, key) in ["a", "b"].into_iter().enumerate() {
        bench.send(key);
        bench.persisted(index as u64);
    }
    bench.cut(0);
    bench.send("new");
    bench.reconnect();
    bench.drain();

    bench.welcome(1);
    bench.persisted(2);
    assert_eq!(bench.drain(), ["connected", "1: send a", "1: send b", "1: sync demo after 3", "1: send new"]);
}

// Behaviour 12
#[test]
fn after_a_restart_the_stored_outbox_goes_first() {
    let mut before = Bench::live();
    for (index, key) in ["a", "b"].into_iter().enumerate() {
        before.send(key);
        before.persisted(index as u64);
    }
    let outbox = before.session.outbox().cloned().collect();

    let mut after = Bench::from_snapshot(Snapshot { outbox, ..snapshot() });
    after.send("new");
    after.persisted(0);
    after.drain();
    after.welcome(0);
    assert_eq!(after.drain(), ["connected", "0: send a", "0: send b", "0: send new"]);
}

#[test]
fn an_answered_send_leaves_the_outbox_and_is_reported() {
    let mut bench = Bench::live();
    let rid = bench.send_persisted("a", 0);

    bench.sent(0, rid, 7);
    assert_eq!(bench.drain(), ["persist 1: dequeue 0", "sent a as 7"]);
    bench.sent(0, rid, 7);
    assert_eq!(bench.drain(), [""; 0]);
}

// Behaviour 12
#[test]
fn a_send_that_fails_for_now_ends_the_connection_so_that_nothing_overtakes_it() {
    for code in [ErrorCode::Unavailable, ErrorCode::RateLimited, ErrorCode::Internal] {
        let mut bench = Bench::live();
        let a = bench.send_persisted("a", 0);
        let b = bench.send_persisted("b", 1);

        bench.refuse(0, a, code, Some(200));
        assert_eq!(bench.drain(), ["close 0", "disconnected for 200ms"]);
        bench.sent(0, b, 8);
        bench.pass(200);
        bench.welcome(1);
        assert_eq!(bench.drain(), ["connect 1", "connected", "1: send a", "1: send b"]);
    }
}

#[test]
fn a_send_that_is_refused_for_good_is_reported_and_what_is_behind_it_goes_on() {
    for code in [
        ErrorCode::BadRequest,
        ErrorCode::Forbidden,
        ErrorCode::NotFound,
        ErrorCode::KeyConflict,
        ErrorCode::TooLarge,
        ErrorCode::Unknown,
    ] {
        let mut bench = Bench::live();
        let a = bench.send_persisted("a", 0);
        bench.send_persisted("b", 1);

        bench.refuse(0, a, code, None);
        assert_eq!(bench.drain(), ["persist 2: dequeue 0"]);
        // Told before, it could be sent again after a crash, and taken.
        bench.persisted(2);
        assert_eq!(bench.drain(), [format!("refused a {code:?}")]);
        bench.cut(0);
        bench.reconnect();
        bench.drain();
        bench.welcome(1);
        assert_eq!(bench.drain(), ["connected", "1: send b"]);
    }
}

// Behaviour 19
#[test]
fn a_stored_message_over_the_servers_limit_is_refused_instead_of_ending_every_connection() {
    let mut bench = Bench::new();
    bench.session.send(conv("demo"), key("large"), Body::from_value(&"x".repeat(2_000)).unwrap()).unwrap();
    bench.persisted(0);
    bench.drain();

    bench.welcome(0);
    assert_eq!(bench.drain(), ["connected", "persist 1: dequeue 0"]);
    bench.persisted(1);
    assert_eq!(bench.drain(), ["refused large TooLarge"]);
    let again = bench.session.send(conv("demo"), key("large"), Body::from_value(&"x".repeat(2_000)).unwrap());
    assert_eq!(again, Err(SendError::TooLarge { bytes: 2_002, bytes_max: 1_000 }));
}

// G3
#[test]
fn a_position_is_acknowledged_only_after_it_is_persisted() {
    let mut bench = Bench::live_with_positions(&[("demo", 3)]);

    bench.event("demo", 4);
    assert_eq!(bench.drain(), ["persist 0: demo at 4"]);
    bench.pass(1_000);
    assert_eq!(bench.drain(), [""; 0]);

    bench.persisted(0);
    assert_eq!(bench.drain(), ["demo 4..4"]);
    bench.pass(100);
    assert_eq!(bench.drain(), ["0: ack demo 4"]);
}

#[test]
fn one_ack_tells_about_many_entries() {
    let mut bench = Bench::live_with_positions(&[("demo", 3)]);
    for seq in 4..=100 {
        bench.event("demo", seq);
    }
    bench.persisted(96);
    bench.drain();

    bench.pass(100);
    assert_eq!(bench.drain(), ["0: ack demo 100"]);
}

// Behaviour 17
#[test]
fn a_hint_of_what_is_persisted_is_acknowledged_again() {
    let mut bench = Bench::live_with_positions(&[("demo", 3)]);

    bench.hint("demo", 3);
    bench.pass(100);
    assert_eq!(bench.drain(), ["0: ack demo 3"]);
}

#[test]
fn a_hint_of_what_is_not_persisted_yet_acknowledges_only_what_is() {
    let mut bench = Bench::live_with_positions(&[("demo", 3)]);
    bench.event("demo", 4);
    bench.drain();

    bench.hint("demo", 4);
    bench.pass(100);
    assert_eq!(bench.drain(), ["0: ack demo 3"]);
}

// Behaviour 8
#[test]
fn a_rewound_log_voids_what_was_on_its_way_to_the_disk() {
    let mut bench = Bench::live_with_positions(&[("demo", 3)]);
    bench.event("demo", 4);
    bench.event("demo", 6);
    let rid = bench.last_rid();
    bench.drain();

    bench.refuse(0, rid, ErrorCode::EpochChanged, None);
    assert_eq!(bench.drain(), ["persist 1: reset demo", "0: sync demo after 0"]);
    bench.persisted(1);
    assert_eq!(bench.drain(), ["demo 4..4", "reset demo EpochChanged"]);
    bench.pass(1_000);
    assert_eq!(bench.drain(), [""; 0]);
}

#[test]
fn news_of_an_unknown_conversation_makes_it_followed() {
    let mut bench = Bench::live();

    bench.event("new", 9);
    assert_eq!(bench.drain(), ["0: sync new after 0"]);
    bench.hint("newer", 9);
    assert_eq!(bench.drain(), ["0: sync newer after 0"]);
}

#[test]
fn a_session_that_follows_only_what_it_watches_passes_over_the_rest() {
    let config = SessionConfig { follow: Follow::Watched, ..SessionConfig::default() };
    let mut bench = Bench::with_config(config, positions(&[("demo", 3), ("other", 5)]));
    bench.drain();
    bench.welcome(0);
    bench.event("other", 9);
    assert_eq!(bench.drain(), ["connected"]);

    bench.session.watch(&conv("demo"), seq(1), bench.now).unwrap();
    bench.session.watch(&conv("new"), seq(7), bench.now).unwrap();
    bench.session.handle_timeout(bench.now);
    assert_eq!(bench.drain(), ["0: sync demo after 3", "0: sync new after 7"]);
}

#[test]
fn more_conversations_than_the_bound_are_reported_and_not_followed() {
    let config = SessionConfig { conversations_max: 1, ..SessionConfig::default() };
    let mut bench = Bench::with_config(config, positions(&[("demo", 3)]));
    bench.drain();

    bench.welcome(0);
    bench.event("other", 1);
    assert_eq!(bench.drain(), ["connected", "0: sync demo after 3", "fault"]);
    assert_eq!(
        bench.session.watch(&conv("other"), Seq::ZERO, bench.now),
        Err(WatchError::TooMany { conversations_max: 1 })
    );
}

#[test]
fn only_some_conversations_sync_at_the_same_time() {
    let config = SessionConfig { syncs_in_flight_max: 2, ..SessionConfig::default() };
    let mut bench = Bench::with_config(config, positions(&[("a", 1), ("b", 1), ("c", 1)]));
    bench.drain();
    bench.welcome(0);
    assert_eq!(bench.drain(), ["connected", "0: sync a after 1", "0: sync b after 1"]);

    bench.page(0, 0, 2..=2);
    assert_eq!(bench.drain(), ["persist 0: a at 2", "0: sync c after 1"]);
}

// Behaviour 16
#[test]
fn a_network_that_died_without_a_word_is_noticed_within_35_s() {
    let mut bench = Bench::live();

    bench.pass(25_000);
    assert_eq!(bench.drain(), ["0: ping"]);
    bench.pass(9_999);
    assert_eq!(bench.drain(), [""; 0]);
    bench.pass(1);
    let [close, disconnected] = &bench.drain()[..] else { panic!("it gives up") };
    assert_eq!(close, "close 0");
    assert!(disconnected.starts_with("disconnected"));
}

// Behaviour 16
#[test]
fn an_old_connection_never_disturbs_its_successor() {
    let mut bench = Bench::live_with_positions(&[("demo", 3)]);
    bench.event("demo", 5);
    let old_rid = bench.last_rid();
    bench.cut(0);
    bench.reconnect();
    bench.welcome(1);
    bench.drain();

    bench.page(0, old_rid, 4..=5);
    bench.event_over(0, "demo", 4);
    bench.cut(0);
    assert_eq!(bench.drain(), [""; 0]);
    bench.page(1, old_rid, 4..=5);
    assert_eq!(bench.drain(), [""; 0]);
    bench.page(1, old_rid + 1, 4..=5);
    assert_eq!(bench.drain(), ["persist 0: demo at 5"]);
}

// Behaviour 16
#[test]
fn five_reconnects_within_seconds_converge_with_one_sync_each() {
    let mut bench = Bench::live_with_positions(&[("demo", 3)]);
    for connection in 0..5 {
        bench.cut(connection);
        bench.reconnect();
        bench.drain();
        bench.welcome(connection + 1);
        assert_eq!(bench.drain(), ["connected".to_owned(), format!("{}: sync demo after 3", connection + 1)]);
    }
    let rid = bench.last_rid();
    bench.page(5, rid, 4..=9);
    assert_eq!(bench.drain(), ["persist 0: demo at 9"]);
}

#[test]
fn waits_grow_until_a_connection_has_proved_healthy() {
    let mut bench = Bench::new();
    let mut waits = Vec::new();
    for connection in 0..6 {
        bench.welcome(connection);
        bench.cut(connection);
        waits.push(bench.wait());
        bench.reconnect();
    }
    assert!(waits[5] > 4 * waits[0], "{waits:?}");

    bench.welcome(6);
    for _ in 0..2 {
        bench.pass(5_000);
    }
    bench.cut(6);
    assert!(bench.wait() < Duration::from_millis(750));
}

#[test]
fn a_connection_without_a_welcome_is_given_up() {
    let mut bench = Bench::new();
    bench.drain();

    bench.pass(15_000);
    assert_eq!(bench.drain()[0], "close 0");
}

#[test]
fn a_request_that_is_never_answered_replaces_the_connection() {
    let mut bench = Bench::live();
    bench.send_persisted("a", 0);
    for _ in 0..3 {
        bench.pass(20_000);
        bench.message(0, ServerMessage::Pong);
    }
    bench.reconnect();
    bench.drain();

    bench.welcome(1);
    assert_eq!(bench.drain(), ["connected", "1: send a"]);
}

#[test]
fn a_page_that_may_be_too_large_for_the_network_is_asked_for_in_smaller_pieces() {
    let mut bench = Bench::with_positions(&[("demo", 3)]);
    bench.welcome(0);
    assert_eq!(bench.last_limit(), 50);
    bench.pass(25_000);
    bench.pass(10_000);
    bench.reconnect();
    bench.welcome(1);
    assert_eq!(bench.last_limit(), 25);

    let rid = bench.last_rid();
    bench.page(1, rid, 4..=5);
    bench.hint("demo", 9);
    assert_eq!(bench.last_limit(), 50);
}

#[test]
fn after_a_sleep_the_connection_is_tested_at_once() {
    let mut bench = Bench::live();

    bench.session.handle_wake(bench.now);
    assert_eq!(bench.drain(), ["0: ping"]);
    bench.pass(10_000);
    assert_eq!(bench.drain()[0], "close 0");
}

#[test]
fn after_a_sleep_a_wait_is_over_at_once() {
    let mut bench = Bench::new();
    bench.cut(0);
    bench.drain();

    bench.session.handle_wake(bench.now);
    assert_eq!(bench.drain(), ["connect 1"]);
}

#[test]
fn a_draining_server_says_when_to_come_back() {
    let mut bench = Bench::live();
    bench.message(
        0,
        ServerMessage::Notice(Notice {
            code: NoticeCode::Draining,
            reconnect_after_ms: Some(3_200),
            expires_in_ms: None,
        }),
    );

    bench.close(0, CloseCode::ServiceRestart);
    assert_eq!(bench.drain(), ["disconnected for 3.2s"]);
}

#[test]
fn a_close_code_that_forbids_coming_back_stops_it() {
    for code in [CloseCode::ProtocolError, CloseCode::Kicked, CloseCode::TooLarge, CloseCode::Unauthenticated]
    {
        let mut bench = Bench::live();
        bench.close(0, code);
        assert_eq!(bench.drain(), ["close 0", "stopped"]);
        assert_eq!(bench.session.poll_timeout(), None);
        assert_eq!(bench.session.send(conv("demo"), key("a"), body()), Err(SendError::Stopped));
    }
}

// Behaviour 20
#[test]
fn a_refused_token_is_replaced_once_and_a_refused_replacement_stops_it() {
    let config = SessionConfig { token_is_renewable: true, ..SessionConfig::default() };
    let mut bench = Bench::with_config(config, snapshot());
    bench.welcome(0);
    bench.close(0, CloseCode::Unauthenticated);
    bench.drain();

    bench.reconnect();
    assert_eq!(bench.drain(), ["connect 1 with a fresh token"]);
    bench.close(1, CloseCode::Unauthenticated);
    assert_eq!(bench.drain(), ["close 1", "stopped"]);
}

// Behaviour 20
#[test]
fn a_token_that_expires_soon_is_renewed_over_the_same_connection() {
    let config = SessionConfig { token_is_renewable: true, ..SessionConfig::default() };
    let mut bench = Bench::with_config(config, snapshot());
    bench.welcome(0);
    bench.drain();

    bench.message(
        0,
        ServerMessage::Notice(Notice {
            code: NoticeCode::TokenExpiring,
            reconnect_after_ms: None,
            expires_in_ms: Some(30_000),
        }),
    );
    assert_eq!(bench.drain(), ["fetch token"]);
    bench.session.handle_token("fresh".to_owned(), bench.now);
    assert_eq!(bench.drain(), ["0: renew fresh"]);
}

#[test]
fn what_is_on_its_way_to_the_disk_is_told_before_the_farewell() {
    let mut bench = Bench::live_with_positions(&[("demo", 3)]);
    bench.event("demo", 4);
    bench.session.handle_stop();
    assert_eq!(bench.drain(), ["persist 0: demo at 4", "close 0"]);

    bench.persisted(0);
    assert_eq!(bench.drain(), ["demo 4..4", "stopped"]);
}

// G3
#[test]
fn a_local_state_that_fails_stops_it_without_an_ack() {
    let mut bench = Bench::live_with_positions(&[("demo", 3)]);
    bench.event("demo", 4);
    bench.drain();

    bench.session.handle_state_failed("disk full".to_owned());
    assert_eq!(bench.drain(), ["close 0", "stopped"]);
}

#[test]
fn a_new_state_belongs_to_the_first_user_who_connects() {
    let mut bench = Bench::from_snapshot(Snapshot::default());
    bench.drain();
    bench.welcome(0);
    assert_eq!(bench.drain(), ["persist 0: claim for alice", "connected"]);
}

// G11
#[test]
fn another_users_state_is_not_used() {
    let outbox =
        vec![OutboxMessage { id: OutboxId::new(0), conv: conv("demo"), key: key("a"), body: body() }];
    let bob = Snapshot { user: UserId::new("bob").ok(), outbox, ..positions(&[("demo", 3)]) };
    let mut bench = Bench::from_snapshot(bob);
    bench.drain();

    bench.welcome(0);
    assert_eq!(bench.drain(), ["close 0", "stopped"]);
}

#[test]
fn a_refused_conversation_is_reported_with_the_servers_words() {
    let mut bench = Bench::live_with_positions(&[("demo", 3)]);
    bench.hint("demo", 9);
    let rid = bench.last_rid();
    bench.drain();

    bench.refuse(0, rid, ErrorCode::NotFound, None);
    assert_eq!(bench.drain(), ["demo refused: do something about it"]);
}

#[test]
fn a_ping_is_answered() {
    let mut bench = Bench::live();
    bench.message(0, ServerMessage::Ping);
    assert_eq!(bench.drain(), ["0: pong"]);
}
