//! Small questions about feeds and members.

use gapless_core::{History, Interval};
use gapless_proto::{ConvId, UserId};

use crate::world::{World, conv, seq, user};

contract![
    heads_are_those_of_the_feeds_that_exist,
    a_feeds_row_tells_its_policy_and_bounds,
    memberships_are_told_in_pieces_in_id_order,
    a_membership_is_the_latest_and_tells_where_the_feed_is,
    members_are_the_present_ones_in_pieces_in_id_order,
];

async fn heads_are_those_of_the_feeds_that_exist(world: World) {
    let chat = world.create("chat", &["alice", "bob"]).await;
    world.create("other", &["alice"]).await;
    chat.say_many("alice", "k", 3).await;
    assert_eq!(world.store.heads(&[]).await.unwrap(), []);
    let mut heads = world.store.heads(&[conv("other"), conv("nowhere"), conv("chat")]).await.unwrap();
    heads.sort_by(|(one, _), (other, _)| one.cmp(other));
    let told: Vec<_> =
        heads.iter().map(|(conv, feed)| (conv.as_str(), feed.head.get(), feed.members)).collect();
    assert_eq!(told, [("chat", 5, 2), ("other", 1, 1)]);
    assert_eq!(heads[0].1, chat.info().await.feed);
}

async fn a_feeds_row_tells_its_policy_and_bounds(world: World) {
    let chat = world.create_with(History::All, "chat", &["alice"]).await;
    chat.say_many("alice", "k", 4).await;
    world.store.trim(&chat.id, seq(3)).await.unwrap();
    let info = chat.info().await;
    assert_eq!((info.history, info.min_seq, info.feed.head), (History::All, seq(3), seq(5)));
    assert_eq!(world.store.info(&conv("nowhere")).await.unwrap(), None);
}

async fn memberships_are_told_in_pieces_in_id_order(world: World) {
    for name in ["c", "a", "e", "b", "d"] {
        world.create(name, &["alice", "bob"]).await;
    }
    world.create("without-bob", &["alice"]).await;
    let chat = world.conversation("c");
    for _ in 0..5 {
        chat.leave("bob", "alice").await;
        chat.join("bob", "alice").await;
    }
    world.conversation("d").leave("bob", "bob").await;

    let mut told: Vec<ConvId> = Vec::new();
    loop {
        let piece = world.store.memberships(&user("bob"), told.last(), 2).await.unwrap();
        assert!(piece.len() <= 2);
        if piece.is_empty() {
            break;
        }
        told.extend(piece.into_iter().map(|membership| membership.conv));
    }
    assert_eq!(told, ["a", "b", "c", "d", "e"].map(conv));
    let all = world.store.memberships(&user("bob"), None, 100).await.unwrap();
    let latest = |name: &str| all.iter().find(|found| found.conv == conv(name)).unwrap().latest;
    assert_eq!((latest("c").from, latest("c").to), (seq(12), None));
    assert_eq!((latest("d").from, latest("d").to), (seq(2), Some(seq(3))));
    assert_eq!(world.store.memberships(&user("mallory"), None, 100).await.unwrap(), []);
}

async fn a_membership_is_the_latest_and_tells_where_the_feed_is(world: World) {
    let chat = world.create("chat", &["alice", "bob"]).await;
    let left = chat.leave("bob", "bob").await;
    chat.say_many("alice", "k", 2).await;
    let bob = world.store.membership(&chat.id, &user("bob")).await.unwrap().unwrap();
    let latest = Interval { from: seq(2), to: Some(seq(left)) };
    assert_eq!((bob.conv, bob.latest, bob.feed), (chat.id.clone(), latest, chat.info().await.feed));
    let joined = chat.join("bob", "bob").await;
    let bob = world.store.membership(&chat.id, &user("bob")).await.unwrap().unwrap();
    assert_eq!((bob.latest.from, bob.latest.to, bob.feed.members), (seq(joined), None, 2));
    assert_eq!(world.store.membership(&conv("nowhere"), &user("bob")).await.unwrap(), None);
}

async fn members_are_the_present_ones_in_pieces_in_id_order(world: World) {
    let chat = world.create("chat", &["dan", "bob", "éva", "Al", "carol", "zoe"]).await;
    chat.leave("carol", "carol").await;
    chat.leave("zoe", "zoe").await;
    chat.join("zoe", "dan").await;
    let mut told: Vec<UserId> = Vec::new();
    loop {
        let piece = world.store.members(&chat.id, told.last(), 2).await.unwrap();
        assert!(piece.len() <= 2);
        if piece.is_empty() {
            break;
        }
        told.extend(piece);
    }
    // Ids are compared byte by byte.
    assert_eq!(told, ["Al", "bob", "dan", "zoe", "éva"].map(user));
    assert_eq!(world.store.members(&conv("nowhere"), None, 10).await.unwrap(), []);
}
