//! How a gateway stops, and how an operator ends a user's connections.

use std::time::Duration;

use gapless_proto::{CloseCode, NoticeCode, ServerMessage};
use gapless_server::Scopes;

use crate::client::within;
use crate::test_server::{TestServer, keys};

#[tokio::test]
async fn a_gateway_that_stops_tells_everyone_when_to_come_back_and_closes() {
    let mut server = TestServer::start_with(|config| {
        config.drain.reconnect_spread = Duration::from_secs(60);
    })
    .await;
    let mut clients = Vec::new();
    for _ in 0..20 {
        clients.push(server.connect("alice").await);
    }

    server.begin_stop();

    let mut times = Vec::new();
    for client in &mut clients {
        match client.next().await {
            ServerMessage::Notice(notice) => {
                assert_eq!(notice.code, NoticeCode::Draining);
                times.push(notice.reconnect_after_ms.unwrap());
            }
            other => panic!("expected a notice, got {other:?}"),
        }
        client.expect_close_with(CloseCode::ServiceRestart).await;
    }
    assert!(times.iter().all(|millis| *millis <= 60_000));
    times.sort_unstable();
    times.dedup();
    assert!(times.len() > 10, "all come back at the same time: {times:?}");
    server.stopped().await;
}

#[tokio::test]
async fn sends_under_way_are_answered_before_the_gateway_stops() {
    let (mut server, store) = TestServer::start_faulty().await;
    let conv = server.conversation("c", &["alice"]).await;
    let mut alice = server.connect("alice").await;
    store.hold_appends(true);
    let mut rids = Vec::new();
    for number in 0..10 {
        rids.push(alice.begin_send(&conv, &format!("k{number}"), "hello").await);
    }
    store.appends_are_held(10).await;

    server.begin_stop();
    alice.expect(|message| matches!(message, ServerMessage::Notice(_)).then_some(())).await;
    store.hold_appends(false);

    alice.expect_all_sent(rids).await;
    alice.expect_close_with(CloseCode::ServiceRestart).await;
    assert_eq!(server.messages(&conv).await, keys("k", 10));
    server.stopped().await;
}

#[tokio::test]
async fn what_does_not_end_by_the_deadline_is_dropped() {
    let (mut server, store) = TestServer::start_faulty_with(|config| {
        config.drain.deadline = Duration::from_millis(300);
    })
    .await;
    let conv = server.conversation("c", &["alice"]).await;
    let mut alice = server.connect("alice").await;
    store.hold_appends(true);
    alice.begin_send(&conv, "k", "hello").await;
    store.appends_are_held(1).await;

    server.begin_stop();

    server.stopped().await;
}

#[tokio::test]
async fn a_gateway_that_stops_takes_no_new_connection() {
    let mut server = TestServer::start().await;
    let idle = server.connect("alice").await;
    server.begin_stop();
    within(async {
        while tokio::net::TcpStream::connect(server.address()).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    drop(idle);
    server.stopped().await;
}

#[tokio::test]
async fn an_operator_ends_all_connections_of_one_user() {
    let server = TestServer::start().await;
    let conv = server.conversation("c", &["alice", "bob"]).await;
    let mut phone = server.connect("alice").await;
    let mut laptop = server.connect("alice").await;
    let mut bob = server.connect("bob").await;

    let operator = server.scoped_token("operator", Scopes { admin: true, ..Scopes::default() });
    let (status, body) = server.http("POST", "/v1/admin/users/alice/kick", &operator).await;
    assert_eq!((status, body.as_str()), (200, r#"{"closed":2}"#));

    phone.expect_close_with(CloseCode::Kicked).await;
    laptop.expect_close_with(CloseCode::Kicked).await;
    bob.send(&conv, "still-here").await;
    server.stopped().await;
}

#[tokio::test]
async fn a_store_that_is_closed_under_a_running_gateway_ends_it_with_an_error() {
    let server = TestServer::start().await;
    let _client = server.connect("alice").await;
    server.store().close().await;
    let error = server.ended().await.unwrap_err();
    assert!(error.to_string().contains("the store was closed"), "{error}");
}
