//! Processes that write to a SQLite file and are killed, or run out of room: what was acknowledged is there, once.
//!
//! The processes are this same test binary, told by the environment what to do.

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

use gapless_store::{AppendError, SqliteStore, Store};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::task::JoinSet;

use crate::checks::each_once_in_order;
use crate::sqlite_file::SqliteFile;
use crate::world::{Conversation, Database as _, World, conv, seqs};

/// Names the file to a child process.
const CHILD_FILE: &str = "GAPLESS_TEST_CHILD_FILE";
const SENDERS: usize = 8;

// Behaviour 11
#[tokio::test]
async fn what_was_acknowledged_survives_kill_9_once_and_in_order() {
    let file = SqliteFile::fresh();
    let (store, news) = file.open().await;
    drop(news);
    create(&store).await;
    store.close().await;
    let mut acknowledged = BTreeMap::new();
    for life in 0..10 {
        // The moments of death differ widely, and differently in each run.
        let acks = 1 + life * life * 7;
        acknowledged.extend(write_until_killed(&file.path(), life, acks));
    }

    let world = World::begin(file).await;
    let chat = world.conversation("chat");
    let log = chat.log().await;
    each_once_in_order(&seqs(&log), chat.head().await).unwrap();
    let mut stored = BTreeMap::new();
    for entry in log.into_iter().filter_map(|entry| Some((entry.key?, entry.seq.get()))) {
        let key = entry.0.as_str().to_owned();
        assert!(stored.insert(key, entry.1).is_none(), "a key is stored twice");
    }
    assert!(!acknowledged.is_empty());
    for (key, seq) in &acknowledged {
        assert_eq!(stored.get(key), Some(seq), "{key} was acknowledged");
        let again = chat.send("alice", key, key).await.unwrap();
        assert_eq!((again.position.seq.get(), again.duplicate), (*seq, true));
    }
    for key in stored.keys() {
        assert!(chat.send("alice", key, key).await.unwrap().duplicate);
    }
}

// Behaviour 11
#[test]
fn a_full_disk_fails_sends_whole_and_heals_when_there_is_room() {
    let file = SqliteFile::fresh();
    let status = child("sqlite_crash::runs_out_of_room", &file.path()).spawn().unwrap().wait().unwrap();
    assert!(status.success(), "{status}");
}

/// Lets a child write; kills it once it has told of so many acknowledged sends. Returns all that it told.
fn write_until_killed(path: &Path, life: usize, acks: usize) -> BTreeMap<String, u64> {
    let mut writing = child("sqlite_crash::writes_until_killed", path)
        .env("GAPLESS_TEST_CHILD_LIFE", life.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = Told::of(&mut writing);
    let mut acknowledged = BTreeMap::new();
    acknowledged.extend(told.by_ref().take(acks));
    writing.kill().unwrap();
    // What it had told before it died may still be in the pipe.
    acknowledged.extend(told);
    writing.wait().unwrap();
    acknowledged
}

/// What a child tells: a key and its seq a line.
struct Told(std::io::Lines<BufReader<ChildStdout>>);

impl Told {
    fn of(child: &mut Child) -> Self {
        Self(BufReader::new(child.stdout.take().unwrap()).lines())
    }
}

impl Iterator for Told {
    type Item = (String, u64);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.by_ref().map_while(Result::ok).find_map(|line| {
            let (key, seq) = line.strip_prefix("acknowledged ")?.split_once(' ')?;
            Some((key.to_owned(), seq.parse().ok()?))
        })
    }
}

/// This binary, running one of the ignored tests below. A write beyond a limit on the size of files fails instead of ending it.
fn child(test: &str, path: &Path) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", r#"trap "" XFSZ; exec "$0" "$@""#])
        .arg(env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"])
        .env(CHILD_FILE, path);
    command
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a process that another test starts and kills"]
async fn writes_until_killed() {
    let Some(store) = childs_store() else {
        return;
    };
    let life = env::var("GAPLESS_TEST_CHILD_LIFE").unwrap();
    let mut senders = JoinSet::new();
    for sender in 0..SENDERS {
        let (chat, life) = (chat_of(&store), life.clone());
        senders.spawn(async move {
            for number in 0.. {
                let key = format!("{life}-{sender}-{number}");
                let seq = crate::world::seq_of(chat.send("alice", &key, &key).await);
                let mut output = std::io::stdout().lock();
                writeln!(output, "acknowledged {key} {seq}").unwrap();
                output.flush().unwrap();
            }
        });
    }
    senders.join_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a process that another test starts"]
async fn runs_out_of_room() {
    let Some(store) = childs_store() else {
        return;
    };
    create(&store).await;
    let chat = chat_of(&store);
    let mut sent = 0;
    for round in 0..3 {
        set_file_size_max(Some(300_000 * (round + 1)));
        let mut failed = 0;
        while failed < 20 {
            let key = format!("{round}-{sent}-{failed}");
            match chat.send("alice", &key, &"x".repeat(10_000)).await {
                Ok(_) => sent += 1,
                Err(AppendError::Store(error)) => {
                    assert!(error.is_retryable(), "{error:?}");
                    failed += 1;
                }
                Err(error) => panic!("{error:?}"),
            }
        }
        // Each check writes a little; so it must fail before long.
        while store.check().await.is_ok() {}
        assert_eq!(chat.head().await, 1 + sent);
        set_file_size_max(None);
        store.check().await.unwrap();
        for failed in 0..20 {
            chat.send("alice", &format!("{round}-{sent}-{failed}"), &"x".repeat(10_000)).await.unwrap();
            sent += 1;
        }
    }
    each_once_in_order(&seqs(&chat.log().await), 1 + sent).unwrap();
    store.close().await;
}

/// Sets how large a file may become; `None` for as large as it likes.
fn set_file_size_max(bytes: Option<u64>) {
    let (_, hard) = getrlimit(Resource::RLIMIT_FSIZE).unwrap();
    setrlimit(Resource::RLIMIT_FSIZE, bytes.unwrap_or(hard), hard).unwrap();
}

/// The store of a child process; `None` when this isn't one, as when somebody runs all ignored tests.
fn childs_store() -> Option<Arc<dyn Store>> {
    let path = env::var_os(CHILD_FILE)?;
    let (store, news) = SqliteStore::open(Path::new(&path)).unwrap();
    drop(news);
    Some(Arc::new(store))
}

async fn create(store: &Arc<dyn Store>) {
    let creation = crate::world::creation(gapless_core::History::FromJoin, "chat", &["alice"]);
    store.create(creation).await.unwrap();
}

fn chat_of(store: &Arc<dyn Store>) -> Conversation {
    Conversation { store: Arc::clone(store), id: conv("chat") }
}
