//! `gapless send`: what is printed is stored, once and in order.

use std::io::Write as _;
use std::process::{Child, Stdio};

use gapless_testkit::{Gateway, free_port};
use tempfile::TempDir;

use crate::command::{SECRET, Said, admin, gapless, run, serve, store_in};
use crate::tail::Tail;

#[test]
fn a_message_is_stored_and_its_seq_printed() {
    let (_folder, server) = demo();
    assert_eq!(send(&server, &["--user", "alice", "demo", "hello"]).printed(), "3");
    assert_eq!(send(&server, &["--user", "bob", "demo", "hello, alice"]).printed(), "4");
    assert_eq!(
        Tail::start(&server, &["--user", "bob", "demo"]).lines_with(": ", 2),
        ["hello", "hello, alice"]
    );
}

// Behaviour 10
#[test]
fn the_same_key_is_stored_once_however_often_it_is_sent() {
    let (_folder, mut server) = demo();
    let arguments = ["--user", "alice", "--key", "k-1", "demo", "hello"];
    assert_eq!(send(&server, &arguments).printed(), "3");
    server.restart().unwrap();
    assert_eq!(send(&server, &arguments).printed(), "3");

    let other = send(&server, &["--user", "alice", "--key", "k-1", "demo", "other"]);
    assert!(other.complained().contains("KEY_CONFLICT"), "{other}");
}

// Behaviour 12
#[test]
fn lines_are_stored_in_their_order() {
    let (_folder, server) = demo();
    let mut sending = send_lines(&server, &["--user", "alice", "demo"]);
    let lines: Vec<_> = (0..1_000).map(|number| format!("line {number}")).collect();
    let mut stdin = sending.stdin.take().unwrap();
    write!(stdin, "{}", lines.join("\n\n")).unwrap();
    drop(stdin);

    let printed = sending.wait_with_output().unwrap();
    let seqs: Vec<_> = (3..1_003).map(|seq| seq.to_string()).collect();
    assert_eq!(String::from_utf8(printed.stdout).unwrap().lines().collect::<Vec<_>>(), seqs);
    assert!(printed.status.success());
    assert_eq!(Tail::start(&server, &["--user", "bob", "demo"]).texts(1_000), lines);
}

// Behaviours 11, 12
#[test]
fn a_server_that_is_killed_while_lines_are_sent_has_each_once_and_in_order() {
    let (_folder, mut server) = demo();
    let mut sending = send_lines(&server, &["--user", "alice", "demo"]);
    let mut stdin = sending.stdin.take().unwrap();
    let lines: Vec<_> = (0..3_000).map(|number| format!("line {number}")).collect();
    let text = lines.join("\n");
    let writing = std::thread::spawn(move || stdin.write_all(text.as_bytes()).unwrap());
    for _ in 0..3 {
        server.restart().unwrap();
    }

    writing.join().unwrap();
    assert!(sending.wait().unwrap().success());
    assert_eq!(Tail::start(&server, &["--user", "bob", "demo"]).texts(3_000), lines);
}

#[test]
fn a_server_that_is_not_there_yet_is_waited_for() {
    let (_folder, mut server) = demo();
    server.kill_9().unwrap();
    let sending = send_command(&server, &["--user", "alice", "demo", "hello"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    server.restart().unwrap();
    assert_eq!(String::from_utf8(sending.wait_with_output().unwrap().stdout).unwrap(), "3\n");
}

#[test]
fn a_server_that_never_was_there_was_sent_nothing() {
    let url = format!("http://127.0.0.1:{}", free_port());
    let said = run(&["send", "--url", &url, "--user", "alice", "--timeout", "300ms", "demo", "hello"]);
    let complaint = said.complained();
    assert!(complaint.contains(&format!("nothing was sent within 300ms: no connection to {url}")), "{said}");
    assert!(complaint.contains("`--url`") && !complaint.contains("--key"), "{said}");
}

#[test]
fn a_dash_stands_for_stdin() {
    let (_folder, server) = demo();
    let mut sending = send_lines(&server, &["--user", "alice", "demo", "-"]);
    sending.stdin.take().unwrap().write_all(b"a\nb\n").unwrap();
    let output = sending.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "3\n4\n");
    assert_eq!(Tail::start(&server, &["--user", "bob", "demo"]).texts(2), ["a", "b"]);
}

#[test]
fn json_is_sent_as_it_is_and_what_is_none_is_refused_by_line() {
    let (_folder, server) = demo();
    let mut sending = send_lines(&server, &["--user", "alice", "--json", "demo"]);
    sending.stdin.take().unwrap().write_all(b"[1, 2.50]\n{\n\"x\"\n").unwrap();
    let output = sending.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "3\n4\n");
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(complaint.contains("line 2: "), "{complaint}");
    assert_eq!(Tail::start(&server, &["--user", "bob", "demo"]).lines_with(": ", 2), ["[1, 2.50]", "\"x\""]);
}

// Behaviour 19
#[test]
fn a_message_that_is_too_large_is_refused_and_the_next_line_goes_on() {
    let (_folder, server) = demo();
    let mut sending = send_lines(&server, &["--user", "alice", "demo"]);
    let large = "x".repeat(100_000);
    sending.stdin.take().unwrap().write_all(format!("a\n{large}\nb\n").as_bytes()).unwrap();
    let output = sending.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "3\n4\n");
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(complaint.contains("line 2: a body of 100011 bytes is over the server's limit"), "{complaint}");
}

// Behaviour 20
#[test]
fn a_conversation_that_is_not_ones_own_is_refused_like_one_that_is_not_there() {
    let (_folder, server) = demo();
    let foreign = send(&server, &["--user", "mallory", "demo", "hello"]);
    let missing = send(&server, &["--user", "mallory", "nowhere", "hello"]);
    assert_eq!(foreign.complained().replace("demo", "nowhere"), missing.complained());
    assert!(missing.complained().contains("gapless admin create nowhere"), "{missing}");
}

// Behaviour 20
#[test]
fn who_says_nothing_about_themselves_or_has_a_bad_token_is_told_what_to_do() {
    let (_folder, server) = demo();
    assert!(send(&server, &["demo", "hello"]).complained().contains("--user NAME"));

    let folder = TempDir::new().unwrap();
    let server = serve(&folder, &["--secret", SECRET]);
    let said = send(&server, &["--token", "nonsense", "demo", "hello"]);
    assert!(said.complained().contains("gapless token"), "{said}");
    let said = send(&server, &["--user", "alice", "demo", "hello"]);
    assert!(said.complained().contains("gapless token --user alice"), "{said}");
}

// Behaviour 20
#[test]
fn a_token_for_a_server_that_takes_none_is_told_to_be_a_name() {
    let (_folder, server) = demo();
    let said = send(&server, &["--token", "T.O.K", "demo", "hello"]);
    assert!(said.complained().contains("takes no tokens"), "{said}");
    assert!(said.complained().contains("give `--user NAME` instead"), "{said}");
}

#[test]
fn an_address_below_which_there_is_no_gapless_is_refused_at_once() {
    let (_folder, server) = demo();
    let url = format!("{}/elsewhere", server.url());
    let said = run(&["send", "--url", &url, "--user", "alice", "demo", "hello"]);
    assert!(said.complained().contains("/elsewhere/v1/ws: the answer is 404 Not Found"), "{said}");
    assert!(said.complained().contains("such as http://127.0.0.1:7700"), "{said}");
    let said = run(&["send", "--url", "localhost:7700", "--user", "alice", "demo", "hello"]);
    assert!(said.code == Some(2) && said.stderr.contains("write http://localhost:7700"), "{said}");
}

#[test]
fn encryption_that_the_server_does_not_have_is_told() {
    let (_folder, server) = demo();
    let url = server.url().replace("http://", "https://");
    let said = run(&["send", "--url", &url, "--user", "alice", "demo", "hello"]);
    assert!(said.complained().contains("its address begins with http://"), "{said}");
}

/// A server with a conversation of alice and bob, whose next seq is 3. It comes back on the same port.
pub(crate) fn demo() -> (TempDir, Gateway) {
    let folder = TempDir::new().unwrap();
    let listen = format!("127.0.0.1:{}", free_port());
    let store = store_in(folder.path());
    let serve = gapless(&["serve", "--auth", "open", "--listen", &listen, "--store", &store]);
    let server = Gateway::start(serve).unwrap();
    admin(&server, &["create", "demo", "--creator", "alice", "--member", "bob"]).printed();
    (folder, server)
}

pub(crate) fn send(server: &Gateway, arguments: &[&str]) -> Said {
    let url = server.url();
    let mut all = vec!["send", "--url", &url];
    all.extend(arguments);
    run(&all)
}

fn send_command(server: &Gateway, arguments: &[&str]) -> std::process::Command {
    let mut command = gapless(&["send", "--url", &server.url()]);
    command.args(arguments);
    command
}

fn send_lines(server: &Gateway, arguments: &[&str]) -> Child {
    send_command(server, arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}
