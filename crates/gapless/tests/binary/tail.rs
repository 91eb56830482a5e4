//! `gapless tail`: every entry is printed, in order, whatever happens to the server or to it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use gapless_testkit::{Gateway, free_port, poll_until};
use tempfile::TempDir;

use crate::command::{Said, admin, gapless, lines_of, said};
use crate::send::{demo, send};

const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn entries_are_printed_as_they_come() {
    let (_folder, server) = demo();
    let mut tail = Tail::start(&server, &["--user", "bob", "demo"]);
    assert!(tail.next_line().ends_with("alice added bob"));

    send(&server, &["--user", "alice", "demo", "hello"]).printed();
    assert!(tail.next_line().ends_with("alice: hello"));
}

#[test]
fn it_goes_on_when_the_server_comes_back_and_misses_nothing() {
    let (_folder, mut server) = demo();
    let mut tail = Tail::start(&server, &["--user", "bob", "demo"]);
    send(&server, &["--user", "alice", "demo", "a"]).printed();
    assert_eq!(tail.texts(1), ["a"]);

    server.restart().unwrap();
    for text in ["b", "c"] {
        send(&server, &["--user", "alice", "demo", text]).printed();
    }
    assert_eq!(tail.texts(2), ["b", "c"]);
}

#[test]
fn json_lines_are_events_of_the_protocol() {
    let (_folder, server) = demo();
    send(&server, &["--user", "alice", "--key", "k-1", "demo", "hello"]).printed();
    let mut tail = Tail::start(&server, &["--user", "bob", "--json", "--after", "2", "demo"]);
    let event: serde_json::Value = serde_json::from_str(&tail.next_line()).unwrap();
    assert_eq!(event["t"], "event");
    assert_eq!((&event["seq"], &event["key"]), (&3.into(), &"k-1".into()));
    assert_eq!(event["body"]["text"], "hello");
}

#[test]
fn after_skips_what_comes_before_and_a_seq_that_is_not_there_yet_is_refused() {
    let (_folder, server) = demo();
    for text in ["a", "b", "c"] {
        send(&server, &["--user", "alice", "demo", text]).printed();
    }
    assert_eq!(Tail::start(&server, &["--user", "bob", "--after", "4", "demo"]).texts(1), ["c"]);

    let beyond = said(&mut tail(&server, &["--user", "bob", "--after", "900", "demo"]));
    assert!(beyond.complained().contains("no seq 900 yet"), "{beyond}");
}

// G3
#[test]
fn with_a_state_it_goes_on_where_it_was_killed_and_no_entry_is_missing() {
    let (_folder, server) = demo();
    let state = TempDir::new().unwrap();
    let arguments = ["--user", "bob", "--state", state.path().to_str().unwrap(), "demo"];
    let mut seen: Vec<String> = Vec::new();
    for round in 0..5 {
        let mut tail = Tail::start(&server, &arguments);
        for number in 0..10 {
            send(&server, &["--user", "alice", "demo", &format!("{round}-{number}")]).printed();
        }
        seen.extend(tail.texts(5));
        seen.extend(tail.kill());
    }
    let mut tail = Tail::start(&server, &arguments);
    send(&server, &["--user", "alice", "demo", "end"]).printed();
    while seen.last().is_none_or(|last| last != "end") {
        seen.extend(tail.texts(1));
    }

    // A line may come again after a kill; none is missing or out of order.
    let mut once: Vec<String> = Vec::new();
    for text in seen {
        if !once.contains(&text) {
            once.push(text);
        }
    }
    let all = (0..5).flat_map(|round| (0..10).map(move |number| format!("{round}-{number}")));
    assert_eq!(once, all.chain(["end".to_owned()]).collect::<Vec<_>>());
}

// Behaviour 9
#[test]
fn what_is_trimmed_is_said() {
    let (_folder, server) = demo();
    for text in ["a", "b", "c"] {
        send(&server, &["--user", "alice", "demo", text]).printed();
    }
    admin(&server, &["trim", "demo", "--below", "5"]).printed();
    let mut tail = Tail::start(&server, &["--user", "bob", "--json", "demo"]);
    let trimmed: serde_json::Value = serde_json::from_str(&tail.next_line()).unwrap();
    assert_eq!(trimmed, serde_json::json!({"t": "trimmed", "conv": "demo", "from": 1, "to": 4}));
    assert!(tail.next_line().contains(r#""text":"c""#));
}

// Behaviour 8
#[test]
fn a_rewound_log_is_said_and_read_from_the_beginning() {
    let (_folder, server) = demo();
    send(&server, &["--user", "alice", "demo", "a"]).printed();
    let mut tail = Tail::start(&server, &["--user", "bob", "--json", "demo"]);
    for _ in 0..2 {
        assert!(tail.next_line().contains(r#""t":"event""#));
    }

    admin(&server, &["epoch", "demo"]).printed();
    send(&server, &["--user", "alice", "demo", "b"]).printed();
    assert_eq!(tail.next_line(), r#"{"conv":"demo","t":"reset"}"#);
    let again: Vec<_> = (0..3).map(|_| tail.next_line()).collect();
    assert!(again[2].contains(r#""text":"b""#), "{again:?}");
}

// Behaviour 20
#[test]
fn a_conversation_that_is_not_served_ends_it_and_says_how_to_mend_that() {
    let (_folder, server) = demo();
    for conv in ["nowhere", "demo"] {
        let refused = said(&mut tail(&server, &["--user", "mallory", conv]));
        assert!(refused.complained().contains(&format!("gapless admin create {conv}")), "{refused}");
    }
}

#[test]
fn two_processes_do_not_share_a_state_and_two_users_neither() {
    let (_folder, server) = demo();
    let state = TempDir::new().unwrap();
    let folder = state.path().to_str().unwrap();
    let mut first = Tail::start(&server, &["--user", "bob", "--state", folder, "demo"]);
    first.next_line();
    let second = said(&mut tail(&server, &["--user", "bob", "--state", folder, "demo"]));
    assert!(second.complained().contains("in use by another process"), "{second}");

    first.kill();
    let other = said(&mut tail(&server, &["--user", "alice", "--state", folder, "demo"]));
    assert!(other.complained().contains("belongs to bob"), "{other}");
}

#[test]
fn a_reader_that_has_seen_enough_ends_it_quietly() {
    let (_folder, server) = demo();
    let mut tail = Tail::start(&server, &["--user", "bob", "demo"]);
    tail.next_line();
    tail.hang_up();
    while tail.child.try_wait().unwrap().is_none() {
        send(&server, &["--user", "alice", "demo", "hello"]).printed();
    }
    assert!(tail.wait().success());
}

#[test]
fn a_reader_that_has_seen_enough_ends_it_even_if_nothing_more_comes() {
    let (_folder, server) = demo();
    let child =
        tail(&server, &["--user", "bob", "demo"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut tail = Tail { child: child.unwrap(), lines: None };
    let mut stdout = BufReader::new(tail.child.stdout.take().unwrap());
    stdout.read_line(&mut String::new()).unwrap();
    drop(stdout);

    let ended = poll_until(PATIENCE, || Ok(tail.child.try_wait()?)).unwrap();
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
}

#[test]
fn without_following_it_ends_with_what_there_is() {
    let (_folder, server) = demo();
    for text in ["a", "b", "c"] {
        send(&server, &["--user", "alice", "demo", text]).printed();
    }
    let all = ended(tail(&server, &["--user", "bob", "--no-follow", "demo"]));
    assert_eq!(all.printed().lines().count(), 4, "{all}");
    let none = ended(tail(&server, &["--user", "bob", "--no-follow", "--after", "5", "demo"]));
    assert_eq!(none.printed(), "");

    let state = TempDir::new().unwrap();
    let arguments = ["--user", "bob", "--no-follow", "--state", state.path().to_str().unwrap(), "demo"];
    assert_eq!(ended(tail(&server, &arguments)).printed().lines().count(), 4);
    assert_eq!(ended(tail(&server, &arguments)).printed(), "");
    send(&server, &["--user", "alice", "demo", "more"]).printed();
    assert!(ended(tail(&server, &arguments)).printed().ends_with("alice: more"));

    let refused = ended(tail(&server, &["--user", "bob", "--no-follow", "nowhere"]));
    refused.complained();
}

#[test]
fn a_server_that_is_not_there_is_named_and_waited_for_no_longer_than_told() {
    let url = format!("http://127.0.0.1:{}", free_port());
    for further in [&[][..], &["--no-follow"]] {
        let mut arguments = vec!["tail", "--url", &url, "--user", "bob", "--timeout", "300ms", "demo"];
        arguments.extend(further);
        let gave_up = ended(gapless(&arguments));
        let complaint = gave_up.complained();
        assert!(complaint.contains(&format!("no connection to {url}: ")), "{gave_up}");
        assert!(
            complaint.contains("error: gave up after 300ms") && complaint.contains("`--url`"),
            "{gave_up}"
        );
    }
}

#[test]
fn a_server_that_went_away_is_waited_for_no_longer_than_told() {
    let (_folder, mut server) = demo();
    let arguments = ["--user", "bob", "--timeout", "300ms", "demo"];
    let child = tail(&server, &arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut tail = Tail { child, lines: None };
    let mut stdout = BufReader::new(tail.child.stdout.take().unwrap());
    stdout.read_line(&mut String::new()).unwrap();
    server.kill_9().unwrap();

    let ended = poll_until(PATIENCE, || Ok(tail.child.try_wait()?)).unwrap();
    assert_eq!(ended.and_then(|status| status.code()), Some(1));
}

#[test]
fn a_seq_below_the_first_is_refused_with_what_it_may_be() {
    let (_folder, server) = demo();
    let refused = said(&mut tail(&server, &["--user", "bob", "--after", "-1", "demo"]));
    assert!(refused.code == Some(2) && refused.stderr.contains("0 or more"), "{refused}");
}

/// A running tail.
pub(crate) struct Tail {
    child: Child,
    lines: Option<Receiver<String>>,
}

impl Tail {
    pub(crate) fn start(server: &Gateway, arguments: &[&str]) -> Self {
        let mut child = tail(server, arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = lines_of(&mut child);
        Self { child, lines: Some(lines) }
    }

    pub(crate) fn next_line(&mut self) -> String {
        self.lines.as_ref().unwrap().recv_timeout(PATIENCE).unwrap()
    }

    /// The texts of the next messages.
    pub(crate) fn texts(&mut self, count: usize) -> Vec<String> {
        self.lines_with("alice: ", count)
    }

    /// What stands behind `mark` in the next lines that have it.
    pub(crate) fn lines_with(&mut self, mark: &str, count: usize) -> Vec<String> {
        let mut found = Vec::new();
        while found.len() < count {
            found.extend(behind(&self.next_line(), mark));
        }
        found
    }

    /// Kills it and returns the texts that it had printed and nobody had taken.
    fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let lines = self.lines.take().unwrap();
        lines.iter().filter_map(|line| behind(&line, "alice: ")).collect()
    }

    fn hang_up(&mut self) {
        self.lines = None;
    }

    fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn behind(line: &str, mark: &str) -> Option<String> {
    line.split_once(mark).map(|(_, text)| text.to_owned())
}

/// What a command said that must end by itself.
fn ended(mut command: Command) -> Said {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    if poll_until(PATIENCE, || Ok(child.try_wait()?)).unwrap().is_none() {
        child.kill().unwrap();
    }
    Said::of(child.wait_with_output().unwrap())
}

fn tail(server: &Gateway, arguments: &[&str]) -> Command {
    let mut command = gapless(&["tail", "--url", &server.url()]);
    command.args(arguments);
    command
}
