//! What was acknowledged outlives the death of any process; what wasn't is there once or not at all.

use std::collections::BTreeMap;

use gapless_proto::{Kind, ServerMessage};
use gapless_testkit::{Gateway, Postgres};
use tempfile::TempDir;

use crate::command::{admin, gapless, serve};
use crate::websocket::Client;

/// After how many answers of each round something is killed.
const ROUNDS: [usize; 6] = [1, 0, 40, 3, 100, 17];
const MESSAGES: usize = 1_000;

// Behaviour 11
#[test]
fn messages_outlive_the_servers_kill_9_once_and_in_order() {
    let folder = TempDir::new().unwrap();
    let mut server = serve(&folder, &["--auth", "open"]);
    admin(&server, &["create", "c", "--creator", "alice"]).printed();

    let mut outbox = Outbox::default();
    for answers in ROUNDS {
        let client = outbox.send_until(&server, answers);
        server.kill_9().unwrap();
        outbox.take_rest(client);
        server.restart().unwrap();
    }

    outbox.send_all(&server);
    outbox.compare(&server);
}

// Behaviour 11
#[test]
fn messages_outlive_the_databases_kill_9_once_and_in_order() {
    let mut postgres = Postgres::start().unwrap();
    let store = postgres.create_database().unwrap();
    let command = gapless(&["serve", "--listen", "127.0.0.1:0", "--auth", "open", "--store", &store]);
    let server = Gateway::start(command).unwrap();
    admin(&server, &["create", "c", "--creator", "alice"]).printed();

    let mut outbox = Outbox::default();
    for answers in ROUNDS {
        let client = outbox.send_until(&server, answers);
        postgres.kill_9().unwrap();
        outbox.take_rest(client);
        postgres.restart().unwrap();
    }

    outbox.send_all(&server);
    outbox.compare(&server);
}

/// The messages of one client: it sends all that is unanswered whenever it comes back, in order and without waiting.
#[derive(Default)]
struct Outbox {
    /// The seq of each message that was acknowledged.
    acknowledged: BTreeMap<usize, u64>,
}

impl Outbox {
    /// Sends what is unanswered, on as many connections as it takes, and returns once so many answers have come.
    fn send_until(&mut self, server: &Gateway, answers: usize) -> Client {
        let wanted = self.acknowledged.len() + answers;
        loop {
            let mut client = Client::connect_at_last(server.address(), "alice");
            let mut unanswered = (0..MESSAGES).filter(|number| !self.acknowledged.contains_key(number));
            let lasts =
                unanswered.all(|number| client.send("c", &format!("k{number}"), number, "hello").is_ok());
            while lasts && self.acknowledged.len() < wanted && self.take_next(&mut client).is_some() {}
            if self.acknowledged.len() >= wanted {
                return client;
            }
        }
    }

    /// Takes what still comes until the connection ends.
    fn take_rest(&mut self, mut client: Client) {
        while self.take_next(&mut client).is_some() {}
    }

    fn send_all(&mut self, server: &Gateway) {
        let unanswered = MESSAGES - self.acknowledged.len();
        assert!(unanswered > 0, "everything was sent before the last kill");
        self.send_until(server, unanswered);
    }

    fn take_next(&mut self, client: &mut Client) -> Option<()> {
        match client.next()? {
            ServerMessage::Sent(sent) => {
                let number = usize::try_from(sent.rid.get()).unwrap();
                assert!(self.acknowledged.insert(number, sent.seq.get()).is_none());
            }
            ServerMessage::Error(error) => assert!(error.code.is_retryable(), "{error:?}"),
            _ => {}
        }
        Some(())
    }

    /// Compares what was acknowledged with the log.
    fn compare(&self, server: &Gateway) {
        let log = Client::connect_at_last(server.address(), "alice").read_all("c");
        let messages: Vec<_> = log.iter().filter(|entry| entry.kind == Kind::Message).collect();
        let keys: Vec<_> = messages.iter().map(|entry| entry.key.as_ref().unwrap().to_string()).collect();
        assert_eq!(keys, (0..MESSAGES).map(|number| format!("k{number}")).collect::<Vec<_>>());
        let seqs: Vec<_> = messages.iter().map(|entry| entry.seq.get()).collect();
        assert_eq!(seqs, self.acknowledged.values().copied().collect::<Vec<_>>());
    }
}
