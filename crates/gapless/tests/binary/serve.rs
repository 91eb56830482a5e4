//! `gapless serve`, from its start to its end.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::Duration;

use gapless_testkit::Gateway;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::command::{admin, gapless, run, serve, store_in};

const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn a_server_says_where_it_listens_and_nothing_else() {
    let folder = TempDir::new().unwrap();
    let mut command =
        gapless(&["serve", "--listen", "127.0.0.1:0", "--auth", "open", "--store", &store_in(folder.path())]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    let address = line.strip_prefix("listening on http://127.0.0.1:").unwrap_or_else(|| panic!("{line}"));
    assert!(address.parse::<u16>().is_ok(), "{line}");

    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(lines.next().is_none());
}

// Behaviour 20
#[test]
fn an_open_server_on_all_addresses_does_not_start() {
    let said = run(&["serve", "--auth", "open", "--listen", "0.0.0.0:0"]);
    assert!(said.complained().contains("lets in everyone who reaches 0.0.0.0:0"), "{said}");
}

#[test]
fn two_servers_do_not_share_one_file() {
    let folder = TempDir::new().unwrap();
    let server = serve(&folder, &["--auth", "open"]);
    let second =
        run(&["serve", "--auth", "open", "--listen", "127.0.0.1:0", "--store", &store_in(folder.path())]);
    assert!(second.complained().contains("is in use by another process"), "{second}");
    drop(server);
    serve(&folder, &["--auth", "open"]);
}

#[test]
fn a_port_that_is_taken_is_named() {
    let folder = TempDir::new().unwrap();
    let server = serve(&folder, &["--auth", "open"]);
    let address = server.address().to_string();
    let second = run(&["serve", "--auth", "open", "--listen", &address]);
    assert!(second.complained().contains(&format!("can't listen on {address}")), "{second}");
}

#[test]
fn a_server_that_is_told_to_stop_drains_and_ends_well() {
    let folder = TempDir::new().unwrap();
    let mut server = serve(&folder, &["--auth", "open"]);
    admin(&server, &["create", "c", "--creator", "alice"]).printed();
    server.terminate().unwrap();
    assert!(server.wait_exit(PATIENCE).unwrap().success(), "{}", server.stderr());
    let log = server.stderr();
    assert!(log.contains("draining") && log.contains("stopped"), "{log}");

    server.restart().unwrap();
    assert!(admin(&server, &["epoch", "--all"]).printed().starts_with("1 "), "what was there is there");
}

#[test]
fn a_server_that_is_told_twice_ends_at_once() {
    let folder = TempDir::new().unwrap();
    let mut server = serve(&folder, &["--auth", "open", "--set", "drain.deadline=1h"]);
    let _unfinished = unfinished_request(&server);
    server.terminate().unwrap();
    while !server.stderr().contains("draining") {
        std::hint::spin_loop();
    }
    server.terminate().unwrap();
    assert_eq!(server.wait_exit(PATIENCE).unwrap().code(), Some(1));
}

#[test]
fn a_request_that_does_not_end_is_dropped_at_the_deadline() {
    let folder = TempDir::new().unwrap();
    let mut server = serve(&folder, &["--auth", "open", "--set", "drain.deadline=10ms"]);
    let _unfinished = unfinished_request(&server);
    server.terminate().unwrap();
    assert!(server.wait_exit(PATIENCE).unwrap().success(), "{}", server.stderr());
}

// Behaviours 10 and 11
#[test]
fn what_was_answered_outlives_kill_9_and_is_stored_once() {
    let folder = TempDir::new().unwrap();
    let mut server = serve(&folder, &["--auth", "open"]);
    admin(&server, &["create", "c", "--creator", "alice"]).printed();
    let send =
        |server: &Gateway| post(server, "/v1/conversations/c/entries?user=alice", r#"{"key":"k","body":1}"#);
    assert!(send(&server).contains(r#""seq":2,"#));

    server.restart().unwrap();
    let again = send(&server);
    assert!(again.contains(r#""seq":2,"#) && again.contains(r#""duplicate":true"#), "{again}");
}

#[test]
fn the_demo_is_made_once_and_says_what_to_type() {
    let folder = TempDir::new().unwrap();
    for _ in 0..2 {
        let mut server = serve(&folder, &["--auth", "open", "--demo"]);
        let page = get(&server, "/v1/conversations/demo/entries?user=bob");
        assert!(page.contains("\"head\":5") && page.contains("tunnel"), "{page}");
        server.terminate().unwrap();
        server.wait_exit(PATIENCE).unwrap();
    }
    let refused = run(&["serve", "--demo"]);
    assert!(refused.complained().contains("auth.secrets"), "{refused}");
}

#[test]
fn a_log_for_programs_is_json() {
    let folder = TempDir::new().unwrap();
    let mut server = serve(&folder, &["--auth", "open", "--log-format", "json", "--log-level", "debug"]);
    get(&server, "/v1/conversations?user=bob&token=hush");
    server.terminate().unwrap();
    server.wait_exit(PATIENCE).unwrap();
    let log = server.stderr();
    let lines: Vec<serde_json::Value> =
        log.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect();
    let answered = lines.iter().find(|line| line["message"] == "answered").unwrap();
    assert_eq!((&answered["status"], &answered["span"]["route"]), (&200.into(), &"/v1/conversations".into()));
    assert!(!log.contains("hush"), "a token is in the log");
}

/// What a server answers to a GET.
fn get(server: &Gateway, path: &str) -> String {
    exchange(
        server,
        &format!("GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", server.address()),
    )
}

/// What a server answers to a POST of JSON.
fn post(server: &Gateway, path: &str, body: &str) -> String {
    let headers =
        format!("host: {}\r\nconnection: close\r\ncontent-type: application/json", server.address());
    let length = body.len();
    exchange(server, &format!("POST {path} HTTP/1.1\r\n{headers}\r\ncontent-length: {length}\r\n\r\n{body}"))
}

/// A request whose body the server has begun to wait for, and that never comes.
fn unfinished_request(server: &Gateway) -> TcpStream {
    let mut socket = TcpStream::connect(server.address()).unwrap();
    let headers = "content-type: application/json\r\ncontent-length: 100\r\nexpect: 100-continue";
    write!(
        socket,
        "POST /v1/conversations?user=alice HTTP/1.1\r\nhost: {}\r\n{headers}\r\n\r\n",
        server.address()
    )
    .unwrap();
    let mut answer = [0; 25];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 100 Continue\r\n\r\n");
    socket
}

fn exchange(server: &Gateway, request: &str) -> String {
    let mut socket = TcpStream::connect(server.address()).unwrap();
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}
