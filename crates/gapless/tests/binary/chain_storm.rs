//! Reorgs without end, a server that is killed again and again, and a client that holds what is true in the end.

use std::net::SocketAddr;
use std::time::Duration;

use gapless_client::{
    Client, ClientConfig, ClientEvent, Credentials, Events, MemoryState, TopicFold, Topics, TopicsStart,
};
use gapless_proto::{Cursor, DeviceId, Mode, Topic, TopicEvent, UserId, ValueKey};
use gapless_testkit::poll_until;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::chain_blocks::{block_of, try_take};
use crate::send::demo;

const PATIENCE: Duration = Duration::from_secs(60);
const ROUNDS: u64 = 120;
const KILLS: u64 = 6;

// Chain behaviours 1, 9, 15
#[test]
fn a_client_holds_what_is_canonical_whatever_is_reorganised_and_killed() {
    let (_folder, mut server) = demo();
    let runtime = Runtime::new().unwrap();
    let mut chain = Chain::begin();
    chain.hand_in(server.address());
    let (client, mut events) = runtime.block_on(follow(&server.url(), &topic(1), "1:0:0"));
    let mut fold = TopicFold::new(10_000);

    for round in 1..=ROUNDS {
        // Up to three blocks vanish, and one more than that takes their place.
        chain.reorganise(round, usize::try_from(round % 4).unwrap());
        if round.is_multiple_of(ROUNDS / KILLS) {
            server.kill_9().unwrap();
            server.restart().unwrap();
        }
        chain.hand_in(server.address());
    }
    let last = format!(r#"{{"to":"{}"}}"#, chain.names.last().unwrap());
    runtime.block_on(until(&mut events, &mut fold, |event| event.payload.as_str() == last));

    let held: Vec<_> = fold.events().map(|event| event.payload.as_str().to_owned()).collect();
    let canonical: Vec<_> = chain.names.iter().map(|name| format!(r#"{{"to":"{name}"}}"#)).collect();
    assert_eq!(held, canonical);
    let (topic, alice) = (topic(1), ValueKey::new("alice").unwrap());
    assert_eq!(fold.value(&topic, &alice).unwrap().as_str(), format!("\"{}\"", canonical.len()));
    runtime.block_on(client.close());
}

/// A client that is told of a topic from a cursor on.
pub(crate) async fn follow(url: &str, topic: &Topic, cursor: &str) -> (Client, Events) {
    let credentials =
        Credentials::Open { user: UserId::new("bob").unwrap(), device: DeviceId::new("phone").unwrap() };
    let config = ClientConfig::new(url.parse().unwrap(), credentials);
    let (client, events) = Client::start(config, MemoryState::new()).await.unwrap();
    let start = TopicsStart::After(Cursor::new(cursor).unwrap());
    client.subscribe(Topics { names: vec![topic.clone()], mode: Mode::Instant, start }).await.unwrap();
    (client, events)
}

/// Folds until the newest event is this one.
pub(crate) async fn until(events: &mut Events, fold: &mut TopicFold, is_last: impl Fn(&TopicEvent) -> bool) {
    let folding = async {
        while !fold.events().last().is_some_and(&is_last) {
            match events.next().await.expect("the client goes on") {
                ClientEvent::Topics { told, .. } => fold.handle(&told).unwrap(),
                ClientEvent::TopicsRefused { message, .. } => panic!("{message}"),
                _ => {}
            }
        }
    };
    timeout(PATIENCE, folding).await.expect("the last event comes");
}

pub(crate) fn topic(chain: u64) -> Topic {
    Topic::new(&format!("chain:{chain}:transfers")).unwrap()
}

/// The canonical chain, as an indexer has it; a block is named by what made it.
struct Chain {
    names: Vec<String>,
}

impl Chain {
    fn begin() -> Self {
        Self { names: vec!["first".to_owned()] }
    }

    fn reorganise(&mut self, round: u64, depth: usize) {
        let kept = self.names.len().saturating_sub(depth).max(1);
        let new = self.names.len() - kept + 1;
        self.names.truncate(kept);
        self.names.extend((0..new).map(|nth| format!("{round}-{nth}")));
    }

    /// Hands in the newest blocks until the server has them, which it may have from an earlier try.
    fn hand_in(&self, server: SocketAddr) {
        let from = self.names.len().saturating_sub(5);
        let blocks: Vec<_> = (from..self.names.len()).map(|index| self.block(index)).collect();
        let taken = poll_until(PATIENCE, || {
            let answer = try_take(server, &blocks).unwrap_or_default();
            assert!(!answer.starts_with("HTTP/1.1 4"), "{answer}");
            Ok(answer.starts_with("HTTP/1.1 200").then_some(()))
        });
        taken.unwrap().expect("the server takes the blocks");
    }

    fn block(&self, index: usize) -> String {
        let parent = index.checked_sub(1).map_or("none", |parent| &self.names[parent]);
        block_of(index as u64 + 1, &hash(&self.names[index]), &hash(parent), &self.names[index])
    }
}

/// A hash that tells names apart.
fn hash(name: &str) -> String {
    let digits: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{digits:0>64}")
}
