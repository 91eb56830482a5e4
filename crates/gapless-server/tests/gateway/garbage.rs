//! Whatever a peer sends: a named error or close code, no panic, no growth.

use std::time::Duration;

use futures_util::SinkExt as _;
use gapless_proto::{ClientMessage, CloseCode, ErrorCode, ServerMessage};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::{Bytes, Message};

use crate::client::{Client, within};
use crate::test_server::TestServer;

// Behaviour 19
#[tokio::test]
async fn a_malformed_frame_is_answered_with_an_error_and_the_connection_goes_on() {
    let server = TestServer::start().await;
    let conv = server.conversation("c", &["alice"]).await;
    let mut alice = server.connect("alice").await;
    let long = "x".repeat(10_000);
    let frames = [
        "hello".to_owned(),
        String::new(),
        "[]".to_owned(),
        "{}".to_owned(),
        r#"{"t":7}"#.to_owned(),
        r#"{"t":"dance"}"#.to_owned(),
        r#"{"t":"subscribe","rid":1}"#.to_owned(),
        r#"{"t":"send"}"#.to_owned(),
        r#"{"t":"send","rid":1,"conv":"c","key":"k"}"#.to_owned(),
        r#"{"t":"send","rid":-1,"conv":"c","key":"k","body":1}"#.to_owned(),
        r#"{"t":"send","rid":1,"conv":["c"],"key":"k","body":1}"#.to_owned(),
        r#"{"t":"send","rid":1,"conv":"c","key":"","body":1}"#.to_owned(),
        format!(r#"{{"t":"send","rid":1,"conv":"{long}","key":"k","body":1}}"#),
        format!(r#"{{"t":"send","rid":1,"conv":"c","key":"{long}","body":1}}"#),
        format!(r#"{{"t":"{long}","rid":1}}"#),
        r#"{"t":"sync","rid":1,"conv":"c","after":1.5}"#.to_owned(),
        r#"{"t":"sync","rid":1,"conv":"c","after":9007199254740992}"#.to_owned(),
        r#"{"t":"sync","rid":1,"conv":"c","after":0,"limit":-1}"#.to_owned(),
        r#"{"t":"sync","rid":1,"conv":"c","after":0,"epoch":"now"}"#.to_owned(),
        r#"{"t":"ack","conv":"c"}"#.to_owned(),
        r#"{"t":"renew","rid":1}"#.to_owned(),
        format!(r#"{{"t":"send","rid":1,"conv":"c","key":"k","body":{}}}"#, "[".repeat(20_000)),
    ];
    for (number, frame) in frames.into_iter().enumerate() {
        let beginning: String = frame.chars().take(80).collect();
        alice.tell_text(frame).await;
        match alice.next().await {
            ServerMessage::Error(error) => {
                assert_eq!(error.code, ErrorCode::BadRequest, "{beginning}");
                assert!(!error.message.is_empty() && error.message.len() < 500, "{beginning}");
            }
            other => panic!("{beginning} was answered with {other:?}"),
        }
        alice.send(&conv, &format!("between-{number}")).await;
        alice.expect_event().await;
    }
    server.stopped().await;
}

// Behaviour 19
#[tokio::test]
async fn an_error_repeats_the_rid_if_it_can_be_read() {
    let server = TestServer::start().await;
    let mut alice = server.connect("alice").await;
    for (frame, rid) in
        [(r#"{"t":"send","rid":7}"#, Some(7)), (r#"{"t":"send","rid":"7"}"#, None), ("{", None)]
    {
        alice.tell_text(frame).await;
        match alice.next().await {
            ServerMessage::Error(error) => assert_eq!(error.rid.map(gapless_proto::Rid::get), rid, "{frame}"),
            other => panic!("{frame} was answered with {other:?}"),
        }
    }
    server.stopped().await;
}

// Behaviour 19
#[tokio::test]
async fn ten_malformed_frames_in_a_row_end_the_connection() {
    let server = TestServer::start().await;
    let mut alice = server.connect("alice").await;
    for _ in 0..9 {
        alice.tell_text("?").await;
    }
    alice.tell(&ClientMessage::Pong).await;
    for _ in 0..10 {
        alice.tell_text("?").await;
    }
    let mut errors = 0;
    let code = loop {
        match alice.next_raw().await {
            Message::Text(_) => errors += 1,
            Message::Close(Some(frame)) => break u16::from(frame.code),
            other => panic!("unexpected {other:?}"),
        }
    };
    assert_eq!((errors, code), (19, CloseCode::ProtocolError.number()));
    server.stopped().await;
}

// Behaviour 19
#[tokio::test]
async fn frames_that_are_none_of_ours_end_the_connection_with_a_code() {
    let server = TestServer::start().await;
    let too_large = "x".repeat(10 << 20);
    let invalid = Bytes::from_static(b"\xc3\x28");
    let cases = [
        (Message::binary(vec![1, 2, 3]), CloseCode::ProtocolError),
        (Message::text(too_large), CloseCode::TooLarge),
        (frame(Data::Text, invalid, true), CloseCode::ProtocolError),
        (frame(Data::Continue, Bytes::from_static(b"?"), true), CloseCode::ProtocolError),
        (frame(Data::Reserved(3), Bytes::from_static(b"?"), true), CloseCode::ProtocolError),
    ];
    for (message, code) in cases {
        let mut client = server.connect("alice").await;
        // The server may end the connection before it has read all of it.
        let _ = within(client.socket().send(message)).await;
        client.expect_close_with(code).await;
    }
    server.stopped().await;
}

// Behaviour 19
#[tokio::test]
async fn a_message_in_too_many_fragments_ends_the_connection() {
    let server = TestServer::start().await;
    let mut client = server.connect("alice").await;
    let piece = Bytes::from(vec![b'x'; 16 << 10]);
    let mut kind = Data::Text;
    for _ in 0..6 {
        let _ = within(client.socket().send(frame(kind, piece.clone(), false))).await;
        kind = Data::Continue;
    }
    client.expect_close_with(CloseCode::TooLarge).await;
    server.stopped().await;
}

fn frame(kind: Data, payload: Bytes, is_final: bool) -> Message {
    Message::Frame(Frame::message(payload, OpCode::Data(kind), is_final))
}

// Behaviour 19
#[tokio::test]
async fn a_body_over_the_limit_is_refused_and_the_connection_goes_on() {
    let server = TestServer::start().await;
    let conv = server.conversation("c", &["alice"]).await;
    let mut alice = server.connect("alice").await;
    // As JSON text, with its quotes.
    let largest = "x".repeat((64 << 10) - 2);

    let rid = alice.begin_send(&conv, "largest", &largest).await;
    alice.expect_sent(rid).await;
    let rid = alice.begin_send(&conv, "larger", &format!("{largest}x")).await;
    assert_eq!(alice.expect_error_code(rid).await, ErrorCode::TooLarge);

    alice.send(&conv, "small").await;
    assert_eq!(server.messages(&conv).await, ["largest", "small"]);
    server.stopped().await;
}

// Behaviour 19
#[tokio::test]
async fn a_peer_that_takes_no_answer_is_no_longer_read_from() {
    let server = TestServer::start().await;
    let conv = server.conversation("c", &["alice", "bob"]).await;
    for number in 0..200 {
        server.say_text(&conv, "alice", &format!("m{number}"), &"x".repeat(1_000)).await;
    }
    let sync = format!(r#"{{"t":"sync","rid":1,"conv":"{conv}","after":0,"limit":200}}"#);
    for request in [Message::text(sync), Message::Ping(Bytes::from_static(&[b'x'; 125])), Message::text("?")]
    {
        let mut greedy = server.connect("alice").await;
        assert!(!takes_a_million(&mut greedy, &request).await, "the server went on reading {request:?}");
    }
    server.connect("bob").await.send(&conv, "others-are-served").await;
    server.stopped().await;
}

/// Whether the server takes so many requests. A send is held up once it reads no more and what the kernels keep between it and us is
/// full.
async fn takes_a_million(client: &mut Client, request: &Message) -> bool {
    for _ in 0..1_000_000 {
        let send = client.socket().send(request.clone());
        match tokio::time::timeout(Duration::from_secs(1), send).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return false,
        }
    }
    true
}

// Behaviour 19
#[tokio::test]
async fn a_handshake_that_is_never_finished_is_given_up() {
    let server = TestServer::start_with(|config| {
        config.session.handshake_max = Duration::from_millis(200);
    })
    .await;
    let mut slow = TcpStream::connect(server.address()).await.unwrap();
    slow.write_all(b"GET /v1/ws HTTP/1.1\r\nhost: x\r\nsec-websocket-").await.unwrap();
    let mut answer = Vec::new();
    within(slow.read_to_end(&mut answer)).await.unwrap();
    server.stopped().await;
}

// Behaviour 19
#[tokio::test]
async fn a_request_that_is_no_handshake_is_refused() {
    let server = TestServer::start().await;
    let (status, body) = server.http("GET", "/v1/ws", &server.token("alice")).await;
    assert_eq!(status, 400);
    assert!(body.contains("BAD_REQUEST"), "{body}");
    server.stopped().await;
}

#[tokio::test]
async fn a_browser_may_give_its_token_as_a_subprotocol() {
    let server = TestServer::start().await;
    let token = server.token("alice");
    let mut alice = Client::connect_as_browser(server.address(), &token).await.unwrap();
    alice.expect_welcome().await;
    server.stopped().await;
}
