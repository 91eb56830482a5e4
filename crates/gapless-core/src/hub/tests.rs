use std::time::{Duration, Instant};

use gapless_proto::{Body, Timestamp};

use super::*;

type TestHub = Hub<&'static str, u64>;
type Command = HubCommand<&'static str, u64>;

fn conv() -> ConvId {
    ConvId::new("c").unwrap()
}

fn user(name: &str) -> UserId {
    UserId::new(name).unwrap()
}

fn seq(number: u64) -> Seq {
    Seq::new(number).unwrap()
}

fn at(epoch: u64, number: u64) -> Position {
    Position { epoch: Epoch::new(epoch).unwrap(), seq: seq(number) }
}

fn fresh(number: u64, kind: Kind, body: &str) -> Fresh<u64> {
    let entry = Entry {
        seq: seq(number),
        kind,
        sender: user("alice"),
        key: None,
        ts: Timestamp::default(),
        body: Body::from_text(body.to_owned()).unwrap(),
    };
    Fresh { entry, frame: number }
}

fn message(number: u64) -> Fresh<u64> {
    fresh(number, Kind::Message, "1")
}

fn join(number: u64, who: &str) -> Fresh<u64> {
    fresh(number, Kind::Join, &format!(r#"{{"user":"{who}"}}"#))
}

fn leave(number: u64, who: &str) -> Fresh<u64> {
    fresh(number, Kind::Leave, &format!(r#"{{"user":"{who}"}}"#))
}

fn news(entries: Vec<Fresh<u64>>) -> FeedNews<u64> {
    let head = entries.last().map_or(0, |last| last.entry.seq.get());
    FeedNews { conv: conv(), position: at(1, head), members: 2, entries }
}

fn standing(head: u64, from: u64, to: Option<u64>) -> Standing {
    let latest = Interval { from: seq(from), to: to.map(seq) };
    Standing { conv: conv(), position: at(1, head), members: 2, latest }
}

/// A hub with one session, which is a member since seq 1 and knows the feed up to `head`.
fn hub_with_bob(head: u64, now: Instant) -> TestHub {
    let mut hub = Hub::new(HubConfig::default());
    hub.handle_connected("bob-phone", user("bob"));
    hub.handle_standing(&"bob-phone", standing(head, 1, None), now);
    hub.handle_loaded(&"bob-phone");
    hub
}

/// Reads Bob's standings anew and finds this one.
fn reload(hub: &mut TestHub, found: Standing, now: Instant) {
    assert!(hub.handle_reloading(&"bob-phone"));
    hub.handle_standing(&"bob-phone", found, now);
    hub.handle_loaded(&"bob-phone");
}

fn commands(hub: &mut TestHub) -> Vec<Command> {
    std::iter::from_fn(|| hub.poll_command()).collect()
}

fn push(session: &'static str, number: u64) -> Command {
    HubCommand::Push { session, conv: conv(), position: at(1, number), frame: number }
}

fn hint(session: &'static str, epoch: u64, number: u64) -> Command {
    HubCommand::Hint { session, conv: conv(), position: at(epoch, number) }
}

#[test]
fn entries_are_pushed_to_every_session_of_every_member() {
    let now = Instant::now();
    let mut hub = hub_with_bob(1, now);
    hub.handle_connected("bob-laptop", user("bob"));
    hub.handle_standing(&"bob-laptop", standing(1, 1, None), now);
    hub.handle_news(news(vec![message(2)]), now);
    assert_eq!(commands(&mut hub), [push("bob-laptop", 2), push("bob-phone", 2)]);
}

#[test]
fn news_that_came_already_is_passed_over() {
    let now = Instant::now();
    let mut hub = hub_with_bob(1, now);
    hub.handle_news(news(vec![message(2), message(3)]), now);
    commands(&mut hub);
    hub.handle_news(news(vec![message(2)]), now);
    hub.handle_news(news(vec![message(3), message(4)]), now);
    assert_eq!(commands(&mut hub), [push("bob-phone", 4)]);
}

#[test]
fn missing_news_is_read_from_the_log_before_anything_else_is_told() {
    let now = Instant::now();
    let mut hub = hub_with_bob(1, now);
    hub.handle_news(news(vec![message(4)]), now);
    hub.handle_news(news(vec![message(5)]), now);
    assert_eq!(commands(&mut hub), [HubCommand::Fetch { conv: conv(), after: seq(1) }]);
    hub.handle_log(news(vec![message(2), leave(3, "bob"), message(4), message(5)]), now);
    assert_eq!(commands(&mut hub), [push("bob-phone", 2), push("bob-phone", 3)]);
}

#[test]
fn a_failed_read_of_the_log_is_tried_again_by_the_next_news() {
    let now = Instant::now();
    let mut hub = hub_with_bob(1, now);
    hub.handle_news(news(vec![message(3)]), now);
    commands(&mut hub);
    hub.handle_fetch_failed(&conv());
    hub.handle_news(news(vec![message(4)]), now);
    assert_eq!(commands(&mut hub), [HubCommand::Fetch { conv: conv(), after: seq(1) }]);
}

#[test]
fn a_log_that_comes_in_parts_is_read_to_its_end() {
    let now = Instant::now();
    let mut hub = hub_with_bob(1, now);
    let part = FeedNews { position: at(1, 3), ..news(vec![message(2)]) };
    hub.handle_log(part, now);
    assert_eq!(commands(&mut hub), [push("bob-phone", 2), HubCommand::Fetch { conv: conv(), after: seq(2) }]);
}

#[test]
fn what_the_log_lacks_is_trimmed_so_that_standings_are_looked_up_instead_of_reading_on_for_ever() {
    let now = Instant::now();
    let look_up = HubCommand::LookUp { session: "bob-phone", conv: conv() };
    for log in [vec![], vec![message(4)]] {
        let mut hub = hub_with_bob(1, now);
        hub.handle_news(news(vec![message(4)]), now);
        commands(&mut hub);

        hub.handle_log(FeedNews { position: at(1, 4), ..news(log) }, now);

        assert_eq!(commands(&mut hub), std::slice::from_ref(&look_up));
    }
}

// Behaviour 14
#[test]
fn a_removed_member_gets_their_leave_entry_and_nothing_later() {
    let now = Instant::now();
    let mut hub = hub_with_bob(1, now);
    hub.handle_news(news(vec![message(2), leave(3, "bob"), message(4)]), now);
    hub.handle_news(news(vec![message(5)]), now);
    assert_eq!(commands(&mut hub), [push("bob-phone", 2), push("bob-phone", 3)]);
}

// Behaviour 14, 15
#[test]
fn who_joins_while_connected_is_pushed_from_their_join_on() {
    let now = Instant::now();
    let mut hub = hub_with_bob(1, now);
    hub.handle_connected("carol-phone", user("carol"));
    hub.handle_loaded(&"carol-phone");
    hub.handle_news(news(vec![message(2), join(3, "carol"), message(4)]), now);
    assert_eq!(
        commands(&mut hub),
        [
            push("bob-phone", 2),
            push("bob-phone", 3),
            push("carol-phone", 3),
            push("bob-phone", 4),
            push("carol-phone", 4)
        ]
    );
}

#[test]
fn who_is_the_first_here_to_join_a_feed_is_pushed_from_their_join_on() {
    let now = Instant::now();
    let mut hub = Hub::new(HubConfig::default());
    hub.handle_connected("bob-phone", user("bob"));
    hub.handle_loaded(&"bob-phone");
    hub.handle_news(news(vec![message(7), join(8, "bob"), message(9)]), now);
    assert_eq!(commands(&mut hub), [push("bob-phone", 8), push("bob-phone", 9)]);
}

// Behaviour 14
#[test]
fn who_comes_back_is_pushed_again_and_not_what_was_said_meanwhile() {
    let now = Instant::now();
    let mut hub = hub_with_bob(1, now);
    hub.handle_news(news(vec![leave(2, "bob"), message(3), join(4, "bob"), message(5)]), now);
    assert_eq!(commands(&mut hub), [push("bob-phone", 2), push("bob-phone", 4), push("bob-phone", 5)]);
}

#[test]
fn a_leave_between_the_look_up_and_the_entering_is_not_missed() {
    let now = Instant::now();
    let mut hub: TestHub = Hub::new(HubConfig::default());
    hub.handle_connected("bob-phone", user("bob"));
    hub.handle_news(news(vec![leave(2, "bob")]), now);
    hub.handle_standing(&"bob-phone", standing(1, 1, None), now);
    hub.handle_loaded(&"bob-phone");
    hub.handle_news(news(vec![message(3)]), now);
    let told: Vec<_> =
        commands(&mut hub).into_iter().filter(|command| matches!(command, HubCommand::Push { .. })).collect();
    assert_eq!(told, []);
}

#[test]
fn an_older_look_up_does_not_undo_a_join_that_was_told() {
    let now = Instant::now();
    let mut hub: TestHub = Hub::new(HubConfig::default());
    hub.handle_connected("bob-phone", user("bob"));
    hub.handle_news(news(vec![join(5, "bob")]), now);
    hub.handle_standing(&"bob-phone", standing(4, 1, Some(3)), now);
    hub.handle_news(news(vec![message(6)]), now);
    assert_eq!(commands(&mut hub), [push("bob-phone", 5), push("bob-phone", 6)]);
}

#[test]
fn a_join_that_anothers_standing_was_ahead_of_is_not_missed() {
    let now = Instant::now();
    let mut hub = TestHub::new(HubConfig::default());
    for (session, name) in [("bob-phone", "bob"), ("carol-phone", "carol")] {
        hub.handle_connected(session, user(name));
    }
    hub.handle_loaded(&"bob-phone");
    hub.handle_standing(&"carol-phone", standing(4, 1, None), now);

    hub.handle_news(news(vec![join(4, "bob")]), now);
    assert_eq!(commands(&mut hub), [HubCommand::LookUp { session: "bob-phone", conv: conv() }]);
    hub.handle_looked_up(&"bob-phone", &conv(), Some(standing(4, 4, None)), now);
    hub.handle_news(news(vec![join(4, "bob")]), now);
    hub.handle_news(news(vec![message(5)]), now);
    assert_eq!(commands(&mut hub), [push("bob-phone", 5), push("carol-phone", 5)]);
}

#[test]
fn a_join_in_news_that_is_far_ahead_is_not_missed() {
    let now = Instant::now();
    let mut hub = hub_with_bob(1, now);
    hub.handle_connected("carol-phone", user("carol"));
    hub.handle_loaded(&"carol-phone");

    hub.handle_news(news(vec![join(3_000, "carol")]), now);
    let look_up = |session| HubCommand::LookUp { session, conv: conv() };
    assert_eq!(commands(&mut hub), [look_up("bob-phone"), look_up("carol-phone")]);
}

// Behaviour 14
#[test]
fn a_leave_that_was_heard_by_nobody_here_is_not_missed() {
    let now = Instant::now();
    let mut hub = TestHub::new(HubConfig::default());
    hub.handle_connected("bob-phone", user("bob"));
    // Bob's standing is read here, then he leaves with 5; the news is lost, and Carol's standing is read after that.
    hub.handle_connected("carol-phone", user("carol"));
    hub.handle_standing(&"carol-phone", standing(5, 1, None), now);
    hub.handle_standing(&"bob-phone", standing(4, 1, None), now);
    hub.handle_loaded(&"bob-phone");
    assert_eq!(commands(&mut hub), [HubCommand::LookUp { session: "bob-phone", conv: conv() }]);

    hub.handle_looked_up(&"bob-phone", &conv(), Some(standing(5, 1, Some(5))), now);
    hub.handle_news(news(vec![message(6)]), now);
    assert_eq!(commands(&mut hub), [push("carol-phone", 6)]);
}

// Behaviour 14
#[test]
fn a_leave_while_an_outdated_standing_is_looked_up_again_is_not_missed() {
    let now = Instant::now();
    let mut hub = hub_with_bob(1, now);
    hub.handle_news(FeedNews { position: at(2, 5), ..news(vec![]) }, now);
    hub.handle_looked_up(&"bob-phone", &conv(), Some(standing(1, 1, None)), now);
    let look_up = HubCommand::LookUp { session: "bob-phone", conv: conv() };
    assert_eq!(commands(&mut hub), [look_up.clone(), look_up]);

    hub.handle_news(FeedNews { position: at(2, 6), ..news(vec![leave(6, "bob")]) }, now);
    let before_the_leave = Standing { position: at(2, 5), ..standing(5, 1, None) };
    hub.handle_looked_up(&"bob-phone", &conv(), Some(before_the_leave), now);
    hub.handle_news(FeedNews { position: at(2, 7), ..news(vec![message(7)]) }, now);
    assert_eq!(commands(&mut hub), []);
}

#[test]
fn who_joined_ahead_of_the_news_is_not_hinted_what_was_before() {
    let now = Instant::now();
    let mut hub = hub_with_bob(2, now);
    hub.handle_ack(&"bob-phone", &conv(), seq(2), None, now);
    hub.handle_connected("carol-phone", user("carol"));
    hub.handle_standing(&"carol-phone", standing(5, 5, None), now);
    hub.handle_sweep(now + Duration::from_secs(9));
    assert_eq!(commands(&mut hub), []);
}

#[test]
fn a_reader_is_never_told_what_is_before_their_part() {
    let now = Instant::now();
    let mut hub = hub_with_bob(1, now);
    hub.handle_connected("carol-phone", user("carol"));
    hub.handle_standing(&"carol-phone", standing(4, 4, None), now);
    hub.handle_news(news(vec![message(2), message(3), join(4, "carol")]), now);
    assert_eq!(
        commands(&mut hub),
        [push("bob-phone", 2), push("bob-phone", 3), push("bob-phone", 4), push("carol-phone", 4)]
    );
}

#[test]
fn a_large_conversation_is_hinted() {
    let now = Instant::now();
    let mut hub = hub_with_bob(1, now);
    hub.handle_news(FeedNews { members: 501, ..news(vec![message(2)]) }, now);
    assert_eq!(commands(&mut hub), [hint("bob-phone", 1, 2)]);
}

// Behaviour 17
#[test]
fn the_sweep_hints_who_has_not_acknowledged_for_three_seconds() {
    let start = Instant::now();
    let mut hub = hub_with_bob(1, start);
    hub.handle_ack(&"bob-phone", &conv(), seq(1), None, start);
    hub.handle_news(news(vec![message(2)]), start);
    commands(&mut hub);
    hub.handle_sweep(start);
    hub.handle_sweep(start + Duration::from_millis(2_900));
    assert_eq!(commands(&mut hub), []);
    hub.handle_sweep(start + Duration::from_secs(3));
    assert_eq!(commands(&mut hub), [hint("bob-phone", 1, 2)]);
}

#[test]
fn who_has_acknowledged_all_is_left_alone() {
    let start = Instant::now();
    let mut hub = hub_with_bob(3, start);
    hub.handle_ack(&"bob-phone", &conv(), seq(3), None, start);
    hub.handle_sweep(start + Duration::from_secs(60));
    assert_eq!(commands(&mut hub), []);
}

#[test]
fn who_never_acknowledges_is_hinted_ever_more_seldom() {
    let start = Instant::now();
    let mut hub = hub_with_bob(3, start);
    let mut hints = 0;
    for second in 0..600 {
        hub.handle_sweep(start + Duration::from_secs(second));
        hints += commands(&mut hub).len();
    }
    assert!((10..=15).contains(&hints), "{hints} hints in ten minutes");
}

// Behaviour 17
#[test]
fn who_reacts_to_hints_is_hinted_after_three_seconds_again() {
    let start = Instant::now();
    let mut hub = hub_with_bob(3, start);
    for second in 0..60 {
        hub.handle_sweep(start + Duration::from_secs(second));
    }
    let acked = start + Duration::from_secs(60);
    hub.handle_ack(&"bob-phone", &conv(), seq(3), None, acked);
    hub.handle_news(news(vec![message(4)]), acked);
    commands(&mut hub);

    hub.handle_sweep(acked);
    hub.handle_sweep(acked + Duration::from_secs(3));
    assert_eq!(commands(&mut hub), [hint("bob-phone", 1, 4)]);
}

#[test]
fn a_lost_leave_entry_is_hinted_until_it_is_acknowledged() {
    let start = Instant::now();
    let mut hub = hub_with_bob(1, start);
    hub.handle_ack(&"bob-phone", &conv(), seq(1), None, start);
    hub.handle_news(news(vec![leave(2, "bob"), message(3)]), start);
    commands(&mut hub);
    hub.handle_sweep(start);
    hub.handle_sweep(start + Duration::from_secs(3));
    assert_eq!(commands(&mut hub), [hint("bob-phone", 1, 2)]);
    hub.handle_ack(&"bob-phone", &conv(), seq(3), None, start);
    hub.handle_sweep(start + Duration::from_secs(90));
    assert_eq!(commands(&mut hub), []);
    assert_eq!(hub.feeds_after(None, 10), []);
}

#[test]
fn a_join_whose_news_was_lost_is_found_by_reloading() {
    let now = Instant::now();
    let mut hub = TestHub::new(HubConfig::default());
    hub.handle_connected("bob-phone", user("bob"));
    hub.handle_loaded(&"bob-phone");
    hub.handle_news(news(vec![message(3)]), now);
    assert_eq!(commands(&mut hub), []);

    reload(&mut hub, standing(3, 2, None), now);
    hub.handle_news(news(vec![message(4)]), now);
    assert_eq!(commands(&mut hub), [push("bob-phone", 4)]);
    hub.handle_sweep(now + Duration::from_secs(3));
    assert_eq!(commands(&mut hub), [hint("bob-phone", 1, 4)]);
}

#[test]
fn who_has_read_all_is_left_alone_by_reloading() {
    let now = Instant::now();
    let mut hub = hub_with_bob(1, now);
    hub.handle_ack(&"bob-phone", &conv(), seq(1), None, now);
    reload(&mut hub, standing(1, 1, None), now);
    hub.handle_news(news(vec![leave(2, "bob")]), now);
    hub.handle_ack(&"bob-phone", &conv(), seq(2), None, now);
    commands(&mut hub);

    reload(&mut hub, standing(9, 1, Some(2)), now);
    hub.handle_sweep(now + Duration::from_secs(90));
    assert_eq!(commands(&mut hub), []);
    assert_eq!(hub.feeds_after(None, 10), []);
}

// Behaviour 8
#[test]
fn who_is_a_member_again_after_a_restore_is_found_by_reloading() {
    let now = Instant::now();
    let mut hub = hub_with_bob(1, now);
    hub.handle_news(news(vec![leave(2, "bob")]), now);
    hub.handle_ack(&"bob-phone", &conv(), seq(2), None, now);
    commands(&mut hub);

    reload(&mut hub, Standing { position: at(2, 1), ..standing(1, 1, None) }, now);
    hub.handle_sweep(now + Duration::from_secs(3));
    assert_eq!(commands(&mut hub), [hint("bob-phone", 2, 1)]);
}

// Behaviour 14
#[test]
fn a_leave_during_a_reload_is_not_missed() {
    let now = Instant::now();
    let mut hub = hub_with_bob(1, now);
    hub.handle_connected("carol-phone", user("carol"));
    hub.handle_loaded(&"carol-phone");

    assert!(hub.handle_reloading(&"carol-phone"));
    hub.handle_news(news(vec![join(2, "carol"), leave(3, "carol")]), now);
    hub.handle_ack(&"carol-phone", &conv(), seq(3), None, now);
    hub.handle_standing(&"carol-phone", standing(2, 2, None), now);
    hub.handle_loaded(&"carol-phone");
    commands(&mut hub);
    hub.handle_news(news(vec![message(4)]), now);
    assert_eq!(commands(&mut hub), [push("bob-phone", 4)]);
}

#[test]
fn a_session_that_is_gone_is_not_reloaded() {
    let mut hub = hub_with_bob(1, Instant::now());
    hub.handle_disconnected(&"bob-phone");
    assert!(!hub.handle_reloading(&"bob-phone"));
}

#[test]
fn heads_that_moved_without_news_are_read() {
    let now = Instant::now();
    let mut hub = hub_with_bob(1, now);
    hub.handle_news(FeedNews { position: at(1, 2), ..news(vec![]) }, now);
    assert_eq!(commands(&mut hub), [HubCommand::Fetch { conv: conv(), after: seq(1) }]);
}

// Behaviour 8
#[test]
fn a_raised_epoch_makes_the_hub_look_everyone_up_and_hint_them() {
    let now = Instant::now();
    let mut hub = hub_with_bob(9, now);
    hub.handle_news(FeedNews { position: at(2, 5), ..news(vec![]) }, now);
    assert_eq!(commands(&mut hub), [HubCommand::LookUp { session: "bob-phone", conv: conv() }]);
    hub.handle_standing(&"bob-phone", Standing { position: at(2, 5), ..standing(5, 1, None) }, now);
    hub.handle_sweep(now + Duration::from_secs(3));
    assert_eq!(commands(&mut hub), [hint("bob-phone", 2, 5)]);
    hub.handle_ack(&"bob-phone", &conv(), seq(9), Some(Epoch::new(1).unwrap()), now);
    assert_eq!(commands(&mut hub), [hint("bob-phone", 2, 5)]);
}

// Behaviour 14
#[test]
fn a_leave_during_a_later_look_up_is_not_missed_either() {
    let now = Instant::now();
    let mut hub = hub_with_bob(9, now);
    hub.handle_connected("carol-phone", user("carol"));
    hub.handle_standing(&"carol-phone", standing(9, 1, None), now);
    hub.handle_news(FeedNews { position: at(2, 5), ..news(vec![]) }, now);
    let found = Standing { position: at(2, 5), ..standing(5, 1, None) };
    hub.handle_looked_up(&"carol-phone", &conv(), Some(found.clone()), now);
    hub.handle_news(FeedNews { position: at(2, 6), ..news(vec![leave(6, "bob")]) }, now);
    hub.handle_looked_up(&"bob-phone", &conv(), Some(found), now);
    commands(&mut hub);
    hub.handle_news(FeedNews { position: at(2, 7), ..news(vec![message(7)]) }, now);
    let told = HubCommand::Push { session: "carol-phone", conv: conv(), position: at(2, 7), frame: 7 };
    assert_eq!(commands(&mut hub), [told]);
}

// Behaviour 14
#[test]
fn who_is_no_member_after_a_restore_is_forgotten() {
    let now = Instant::now();
    let mut hub = hub_with_bob(9, now);
    hub.handle_news(FeedNews { position: at(2, 5), ..news(vec![]) }, now);
    hub.handle_looked_up(&"bob-phone", &conv(), None, now);
    hub.handle_news(FeedNews { position: at(2, 6), ..news(vec![message(6)]) }, now);
    assert_eq!(commands(&mut hub), [HubCommand::LookUp { session: "bob-phone", conv: conv() }]);
    assert_eq!(hub.feeds_after(None, 10), []);
}

#[test]
fn a_feed_far_behind_is_not_read_entry_by_entry() {
    let now = Instant::now();
    let mut hub = hub_with_bob(1, now);
    hub.handle_news(FeedNews { position: at(1, 50_000), ..news(vec![]) }, now);
    assert_eq!(commands(&mut hub), [HubCommand::LookUp { session: "bob-phone", conv: conv() }]);
}

#[test]
fn a_session_that_ended_is_told_nothing_and_forgotten() {
    let now = Instant::now();
    let mut hub = hub_with_bob(1, now);
    hub.handle_disconnected(&"bob-phone");
    hub.handle_news(news(vec![message(2)]), now);
    assert_eq!(commands(&mut hub), []);
    assert_eq!((hub.session_count(), hub.feeds_after(None, 10)), (0, vec![]));
}
