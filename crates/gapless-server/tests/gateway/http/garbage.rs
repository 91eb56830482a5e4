//! Requests that aren't what they should be.

use std::net::SocketAddr;

use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::api::{Answer, Api, Caller};

const ENTRIES: &str = "/v1/conversations/c/entries";

// Behaviour 19
#[tokio::test]
async fn a_body_that_can_not_be_read_is_refused_with_the_reason() {
    let server = server().await;
    let alice = server.user("alice");
    let long = "x".repeat(10_000);
    for (body, said) in [
        ("".as_bytes(), "EOF"),
        (b"{", "EOF"),
        (b"nonsense", "the body isn't JSON"),
        (b"[]", "can't be read"),
        (br#"{"key":"k"}"#, "missing field `body`"),
        (br#"{"body":1}"#, "missing field `key`"),
        (br#"{"key":1,"body":1}"#, "invalid type: integer `1`, expected a string"),
        (br#"{"key":"","body":1}"#, "a key may not be empty"),
        (br#"{"key":"a b","body":1}"#, "white space"),
        (br#"{"key":"k","body":1,"bdy":2}"#, "unknown field `bdy`, expected one of `key`, `body`, `sender`"),
        (br#"{"key":"k","key":"l","body":1}"#, "duplicate field `key`"),
        (br#"{"key":"k","body":1} x"#, "trailing characters"),
        (br#"{"key":"k","body":nul}"#, "expected"),
        (b"{\"key\":\"k\",\"body\":\"\xff\"}", "invalid unicode"),
        (b"{\"key\":\"k\",\"body\":\"\x00\"}", "control character"),
        (format!(r#"{{"key":"{long}","body":1}}"#).as_bytes(), "a key of 10000 bytes is too long"),
        (format!(r#"{{"key":"k","body":1,"{long}":1}}"#).as_bytes(), "unknown field"),
    ] {
        let answer = post(&alice, "application/json", body).await;
        let message = answer.refused(400, "BAD_REQUEST");
        assert!(message.contains(said), "{said}: {message}");
        assert!(message.len() < 300, "a message repeats what was sent: {message}");
    }
    assert_eq!(alice.get(ENTRIES).await.done()["head"], 1, "nothing was stored");
}

// Behaviour 19
#[tokio::test]
async fn a_body_of_another_type_is_refused() {
    let server = server().await;
    let alice = server.user("alice");
    let body = br#"{"key":"k","body":1}"#;
    for content_type in ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""] {
        let message = post(&alice, content_type, body).await.refused(415, "BAD_REQUEST");
        assert!(message.contains("application/json"), "{message}");
    }
    post(&alice, "Application/JSON; charset=utf-8", body).await.done();
}

// Behaviour 19
#[tokio::test]
async fn a_body_may_be_as_long_as_the_limit_and_no_longer() {
    let server = server().await;
    let alice = server.user("alice");
    let send = async |key: &str, bytes: usize| {
        let body = "x".repeat(bytes - 2);
        alice.post(ENTRIES, &json!({"key": key, "body": body})).await
    };
    send("fits", 64 << 10).await.done();
    let message = send("over", (64 << 10) + 1).await.refused(413, "TOO_LARGE");
    assert!(message.contains("65536"), "{message}");
    let message = send("far over", 1 << 20).await.refused(413, "TOO_LARGE");
    assert!(message.contains("the request has more") && message.ends_with("may have 65536"), "{message}");
}

// Behaviour 19
#[tokio::test]
async fn a_body_over_the_limit_is_not_read() {
    let server = server().await;
    let head = |rest: &str| {
        format!(
            "POST {ENTRIES} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n{rest}",
            server.token("alice"),
        )
    };
    let announced = exchange(server.address(), head("content-length: 99999999999\r\n\r\n").as_bytes()).await;
    assert!(announced.starts_with("HTTP/1.1 413 "), "{announced}");

    let mut unannounced = head("transfer-encoding: chunked\r\n\r\n").into_bytes();
    for _ in 0..40 {
        unannounced.extend(format!("1000\r\n{}\r\n", "x".repeat(0x1000)).bytes());
    }
    let unannounced = exchange(server.address(), &unannounced).await;
    assert!(unannounced.starts_with("HTTP/1.1 413 "), "{unannounced}");
}

// Behaviour 19
#[tokio::test]
async fn an_id_that_can_not_be_one_is_named() {
    let server = server().await;
    let alice = server.user("alice");
    let long = "x".repeat(10_000);
    for (method, path, said) in [
        (Method::GET, format!("/v1/conversations/{long}"), "a conversation id of 10000 bytes is too long"),
        (Method::GET, "/v1/conversations/a%20b/entries".to_owned(), "white space"),
        (Method::GET, "/v1/conversations/a%00b/members".to_owned(), "control characters"),
        (Method::GET, "/v1/conversations/%FF".to_owned(), "percent-encoding"),
        (Method::GET, "/v1/conversations/%zz".to_owned(), "percent-encoding"),
        (Method::PUT, format!("/v1/conversations/c/members/{long}"), "a user id of 10000 bytes is too long"),
        (Method::DELETE, "/v1/conversations/c/members/a%0Ab".to_owned(), "control characters"),
    ] {
        let message = alice.call(method, &path, None).await.refused(400, "BAD_REQUEST");
        assert!(message.contains(said), "{said}: {message}");
        assert!(message.len() < 300, "a message repeats what was sent: {message}");
    }
}

#[tokio::test]
async fn an_id_may_hold_whatever_can_be_encoded() {
    let server = Api::start().await;
    let conv = "ü/?#%+;😀";
    server.conversation(conv, &["alice"]).await;
    let encoded = "%C3%BC%2F%3F%23%25%2B%3B%F0%9F%98%80";
    let shown = server.user("alice").get(&format!("/v1/conversations/{encoded}")).await.done();
    assert_eq!(shown["conv"], conv);
    let listed = server.user("alice").get(&format!("/v1/conversations?after={encoded}")).await.done();
    assert_eq!(listed["conversations"], json!([]));
}

// Behaviour 19
#[tokio::test]
async fn a_parameter_that_is_wrong_is_named() {
    let server = server().await;
    let alice = server.user("alice");
    for (query, said) in [
        ("after=-1", "`after` is wrong: seq must be a whole number"),
        ("after=9007199254740992", "`after` is wrong: seq 9007199254740992 is too large"),
        ("epoch=x", "`epoch` is wrong: epoch must be a whole number"),
        ("limit=many", "`limit` is wrong"),
        ("after=1&after=2", "`after` is given twice"),
        ("aftr=1", "takes no parameter `aftr`; it takes after, epoch, limit"),
        ("after=%zz", "percent-encoding"),
        ("after=%ff", "percent-encoding"),
    ] {
        let message = alice.get(&format!("{ENTRIES}?{query}")).await.refused(400, "BAD_REQUEST");
        assert!(message.contains(said), "{said}: {message}");
    }
}

// Behaviour 19
#[tokio::test]
async fn what_is_no_request_is_refused_and_hurts_nobody() {
    let server = server().await;
    for garbage in [
        &b"nonsense\r\n\r\n"[..],
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST /v1/conversations HTTP/1.1\r\nhost: x\r\ncontent-length: nonsense\r\n\r\n",
    ] {
        let answer = exchange(server.address(), garbage).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{garbage:?}: {answer}");
    }
    let headers = format!("GET /live HTTP/1.1\r\nhost: x\r\nx-long: {}\r\n\r\n", "x".repeat(1 << 20));
    let answer = exchange(server.address(), headers.as_bytes()).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    server.user("alice").get(ENTRIES).await.done();
}

#[tokio::test]
async fn a_smaller_limit_still_lets_a_conversation_be_made() {
    let server = Api::start_with(|config| config.session.body_bytes_max = 10).await;
    let members: Vec<String> = (0..500).map(|number| format!("member{number}")).collect();
    let request = json!({"conv": "c", "creator": "alice", "members": members});
    server.service().post("/v1/conversations", &request).await.done();
    server
        .user("alice")
        .post(ENTRIES, &json!({"key": "k", "body": 12345678901_u64}))
        .await
        .refused(413, "TOO_LARGE");
    server.user("alice").post(ENTRIES, &json!({"key": "k", "body": 1234567890})).await.done();
}

/// A server with a conversation `c` of alice.
async fn server() -> Api {
    let server = Api::start().await;
    server.conversation("c", &["alice"]).await;
    server
}

async fn post(caller: &Caller, content_type: &str, body: &[u8]) -> Answer {
    let request = caller.request(Method::POST, ENTRIES);
    caller.send(request.header("content-type", content_type).body(body.to_vec())).await
}

/// Sends bytes, and reads what comes back until the server is done.
async fn exchange(address: SocketAddr, bytes: &[u8]) -> String {
    let mut socket = TcpStream::connect(address).await.unwrap();
    // The server may hang up before it has read everything.
    let _ = socket.write_all(bytes).await;
    let _ = socket.shutdown().await;
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}
