//! How many appends a second the SQLite store acknowledges, next to a raw loop that inserts the same rows into the same
//! tables, 500 a transaction.
//!
//! `cargo run --release -p gapless-store --example sqlite_append_rate [FOLDER [LOAD]]`, with `hot`, `spread`, `hot-one` or `spread-one` for a load. The time
//! of the processor is printed as well, since it says more on a machine that others use too.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement that fails ends, and prints")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use gapless_core::{Append, Authority, History, Operation};
use gapless_proto::{Body, ConvId, Key, UserId};
use gapless_store::{Creation, SqliteStore, Store};
use rusqlite::{Connection, TransactionBehavior, params};

const ROUNDS: usize = 5;
const FLOOR_TRANSACTION_ROWS: usize = 500;

struct Load {
    name: &'static str,
    conversations: usize,
    senders: usize,
    pipelined: usize,
    rows: usize,
}

const LOADS: [Load; 4] = [
    Load { name: "hot-one", conversations: 1, senders: 64, pipelined: 1, rows: 100_000 },
    Load { name: "spread-one", conversations: 1_000, senders: 256, pipelined: 1, rows: 100_000 },
    Load { name: "hot", conversations: 1, senders: 64, pipelined: 8, rows: 200_000 },
    Load { name: "spread", conversations: 1_000, senders: 256, pipelined: 8, rows: 200_000 },
];

#[tokio::main]
async fn main() {
    let folder = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let only = std::env::args().nth(2);
    for load in LOADS.iter().filter(|load| only.as_ref().is_none_or(|name| name == load.name)) {
        let mut ratios = Vec::new();
        for round in 0..ROUNDS {
            let (ours, theirs) = if round % 2 == 0 {
                let ours = through_the_store(&folder, load).await;
                (ours, raw(&folder, load).await)
            } else {
                let theirs = raw(&folder, load).await;
                (through_the_store(&folder, load).await, theirs)
            };
            println!(
                "{:>7} ours {ours:>8.0}/s  floor {theirs:>8.0}/s  ratio {:.2}",
                load.name,
                ours / theirs
            );
            ratios.push(ours / theirs);
        }
        ratios.sort_by(f64::total_cmp);
        println!("{:>7} median ratio {:.2}", load.name, ratios[ROUNDS / 2]);
    }
}

async fn through_the_store(folder: &Path, load: &Load) -> f64 {
    let folder = tempfile::tempdir_in(folder).unwrap();
    let store = opened(folder.path(), load).await;
    let (started, before) = (Instant::now(), processor_seconds());
    let senders = (0..load.senders).map(|sender| {
        let store = Arc::clone(&store);
        let appends: Vec<Append> =
            (sender..load.rows).step_by(load.senders).map(|row| append(load, row)).collect();
        let pipelined = load.pipelined;
        tokio::spawn(async move { send_all(&*store, appends, pipelined).await })
    });
    for sender in senders.collect::<Vec<_>>() {
        sender.await.unwrap();
    }
    let rate = per_second(load.rows, started.elapsed());
    print_processor(load, "ours", &before);
    store.close().await;
    rate
}

/// Keeps some sends in flight until all are acknowledged.
async fn send_all(store: &dyn Store, appends: Vec<Append>, pipelined: usize) {
    let mut in_flight = FuturesUnordered::new();
    for append in appends {
        if in_flight.len() == pipelined {
            let outcome: Result<_, _> = in_flight.next().await.unwrap();
            let _: gapless_core::Appended = outcome.unwrap();
        }
        in_flight.push(store.append(append, None));
    }
    while let Some(outcome) = in_flight.next().await {
        outcome.unwrap();
    }
}

async fn raw(folder: &Path, load: &Load) -> f64 {
    let folder = tempfile::tempdir_in(folder).unwrap();
    opened(folder.path(), load).await.close().await;
    tokio::task::block_in_place(|| insert_all(&folder.path().join("gapless.db"), load))
}

fn insert_all(path: &Path, load: &Load) -> f64 {
    let appends: Vec<Append> = (0..load.rows).map(|row| append(load, row)).collect();
    let mut connection = Connection::open(path).unwrap();
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL;
             PRAGMA synchronous = FULL;
             PRAGMA cache_size = -65536;
             PRAGMA wal_autocheckpoint = 8000;",
        )
        .unwrap();
    let mut heads = vec![load.senders as i64; load.conversations];
    let (started, before) = (Instant::now(), processor_seconds());
    for rows in appends.chunks(FLOOR_TRANSACTION_ROWS) {
        insert(&mut connection, rows, &mut heads);
    }
    print_processor(load, "floor", &before);
    per_second(load.rows, started.elapsed())
}

/// How long each thread has run, by its name; those of one name together.
fn processor_seconds() -> BTreeMap<String, f64> {
    let mut seconds = BTreeMap::new();
    for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        let times = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        let nanoseconds: f64 = times.split(' ').next().and_then(|time| time.parse().ok()).unwrap_or(0.0);
        *seconds.entry(name.trim().to_owned()).or_default() += nanoseconds / 1e9;
    }
    seconds
}

fn print_processor(load: &Load, what: &str, before: &BTreeMap<String, f64>) {
    let threads = processor_seconds().into_iter().map(|(name, seconds)| {
        let spent = seconds - before.get(&name).unwrap_or(&0.0);
        format!("{name} {:.1} µs", spent * 1e6 / load.rows as f64)
    });
    println!("{:>7} {what}, an append: {}", load.name, threads.collect::<Vec<_>>().join(", "));
}

fn insert(connection: &mut Connection, rows: &[Append], heads: &mut [i64]) {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let mut entry = transaction
        .prepare_cached(
            "INSERT INTO entry (feed, seq, kind, sender, key, ts, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )
        .unwrap();
    let mut touched = BTreeSet::new();
    for append in rows {
        let Operation::Message { sender, key, body } = &append.operation else { unreachable!() };
        let conversation: usize = append.conv.as_str()[5..].parse().unwrap();
        heads[conversation] += 1;
        touched.insert(conversation);
        entry
            .execute(params![
                append.conv.as_str(),
                heads[conversation],
                "message",
                sender.as_str(),
                key.as_str(),
                1_700_000_000_000_i64,
                body.as_str()
            ])
            .unwrap();
    }
    drop(entry);
    let mut feed = transaction.prepare_cached("UPDATE feed SET head = ?2 WHERE feed = ?1").unwrap();
    for conversation in touched {
        feed.execute(params![conv(conversation).as_str(), heads[conversation]]).unwrap();
    }
    drop(feed);
    transaction.commit().unwrap();
}

/// A store with the load's conversations in it; everyone is in all of them.
async fn opened(folder: &Path, load: &Load) -> Arc<dyn Store> {
    let (store, mut news) = SqliteStore::open(&folder.join("gapless.db")).unwrap();
    tokio::spawn(async move { while news.recv().await.is_some() {} });
    for conversation in 0..load.conversations {
        let creation = Creation {
            conv: conv(conversation),
            creator: user(0),
            members: (0..load.senders).map(user).collect(),
            history: History::FromJoin,
        };
        store.create(creation).await.unwrap();
    }
    Arc::new(store)
}

fn append(load: &Load, row: usize) -> Append {
    let sender = row % load.senders;
    // Scattered, so that the rows of one transaction belong to conversations all over the file.
    let conversation = row.wrapping_mul(2_654_435_761) / 7 % load.conversations;
    Append {
        conv: conv(conversation),
        authority: Authority::Member,
        operation: Operation::Message {
            sender: user(sender),
            key: Key::new(&format!("key-{row:016x}")).unwrap(),
            body: Body::from_text(format!(r#"{{"text":"{row:0>90}"}}"#)).unwrap(),
        },
    }
}

fn conv(number: usize) -> ConvId {
    ConvId::new(&format!("conv-{number:06}")).unwrap()
}

fn user(number: usize) -> UserId {
    UserId::new(&format!("user-{number:06}")).unwrap()
}

fn per_second(rows: usize, took: Duration) -> f64 {
    rows as f64 / took.as_secs_f64()
}
