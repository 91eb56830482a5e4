//! Who is let in, for how long, and what others learn.

use std::time::Duration;

use gapless_proto::{ClientMessage, CloseCode, ErrorCode, NoticeCode, ServerMessage};
use tokio_tungstenite::tungstenite::Error;

use crate::client::Client;
use crate::test_server::TestServer;

// Behaviour 20
#[tokio::test]
async fn a_token_that_is_not_ours_or_is_over_is_refused_before_the_upgrade() {
    let server = TestServer::start().await;
    for token in [
        TestServer::foreign_token("alice"),
        server.expired_token("alice"),
        "nonsense".to_owned(),
        String::new(),
    ] {
        match Client::connect(server.address(), &token).await {
            Err(Error::Http(response)) => assert_eq!(response.status().as_u16(), 401),
            Err(other) => panic!("expected 401, got {other}"),
            Ok(_) => panic!("{token} was taken"),
        }
    }
    server.stopped().await;
}

// Behaviour 20
#[tokio::test]
async fn a_token_that_runs_out_is_announced_and_then_ends_the_connection() {
    let server = TestServer::start().await;
    let token = server.token_for("alice", "phone", Duration::from_millis(500));
    let mut alice = Client::connect(server.address(), &token).await.unwrap();
    assert!(alice.expect_welcome().await.expires_at.is_some());

    match alice.next().await {
        ServerMessage::Notice(notice) => {
            assert_eq!(notice.code, NoticeCode::TokenExpiring);
            assert!(notice.expires_in_ms.is_some_and(|millis| millis <= 1_000));
        }
        other => panic!("expected a notice, got {other:?}"),
    }
    alice.expect_close_with(CloseCode::Unauthenticated).await;
    server.stopped().await;
}

// Behaviour 20
#[tokio::test]
async fn a_renewed_connection_outlives_its_first_token() {
    let server = TestServer::start().await;
    let conv = server.conversation("c", &["alice"]).await;
    let first = server.token_for("alice", "phone", Duration::from_millis(500));
    let mut alice = Client::connect(server.address(), &first).await.unwrap();
    let expires_at = alice.expect_welcome().await.expires_at.unwrap();

    alice.expect(|message| matches!(message, ServerMessage::Notice(_)).then_some(())).await;
    let token = server.token("alice");
    let rid = alice.next_rid();
    alice.tell(&ClientMessage::Renew { rid, token }).await;

    let renewed = alice
        .expect(|message| match message {
            ServerMessage::Renewed { rid: answered, expires_at } if answered == rid => Some(expires_at),
            _ => None,
        })
        .await;
    assert!(renewed > expires_at);
    // A connection with the same first token is closed when it expires; this one isn't.
    let mut other = Client::connect(server.address(), &first).await.unwrap();
    other.expect_close_with(CloseCode::Unauthenticated).await;
    alice.send(&conv, "still-here").await;
    server.stopped().await;
}

// Behaviour 20
#[tokio::test]
async fn a_connection_is_renewed_only_by_a_token_of_the_same_user_and_device() {
    let server = TestServer::start().await;
    let mut alice = server.connect("alice").await;
    for (token, code) in [
        (server.token("mallory"), ErrorCode::Forbidden),
        (server.token_for("alice", "laptop", Duration::from_secs(60)), ErrorCode::Forbidden),
        (TestServer::foreign_token("alice"), ErrorCode::Unauthenticated),
        ("nonsense".to_owned(), ErrorCode::Unauthenticated),
    ] {
        let rid = alice.next_rid();
        alice.tell(&ClientMessage::Renew { rid, token }).await;
        assert_eq!(alice.expect_error_code(rid).await, code);
    }
    server.stopped().await;
}
