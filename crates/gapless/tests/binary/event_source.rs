//! A plain `EventSource` in a real browser, on a page of another origin.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use gapless_testkit::{GAPLESS_TEST_BROWSER, browser_folder, chromium_binary};
use serde_json::Value;
use tempfile::TempDir;

use crate::command::{lines_of, serve};
use crate::node::{Node, declared};

const PATIENCE: Duration = Duration::from_secs(60);

// Chain behaviours 2, 7
#[test]
fn an_event_source_of_a_browser_sees_a_reorg_and_misses_nothing_across_a_restart() {
    let node = Node::start();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("chain.toml");
    fs::write(&file, declared(&node)).unwrap();
    let follow = format!("chains.follow={}", file.display());
    let mut server = serve(&folder, &["--auth", "open", "--set", &follow]);
    node.transfer(1, 2, 500);
    node.is_followed(server.address());

    let topics = "topics=chain:31337:transfers&cursor=31337:0:0&user=bob";
    let mut page = Page::open(&format!("{}/v1/events?{topics}", server.url()));
    assert_eq!(page.next()["t"], "subscribed");
    assert_eq!(value_of(&page.next()), "500");
    node.transfer(2, 3, 70);
    let orphan = page.next();
    assert_eq!(value_of(&orphan), "70");

    node.reorg(1, 0xfe);
    let revoke = page.next();
    assert_eq!((&revoke["t"], &revoke["id"]), (&"revoke".into(), &revoke["fromCursor"]));
    server.kill_9().unwrap();
    node.transfer(2, 4, 8);
    server.restart().unwrap();
    assert_eq!(page.next()["t"], "subscribed", "it comes back by itself");
    let event = page.next();
    assert_eq!((&event["t"], value_of(&event)), (&"event".into(), "8"));
    node.transfer(4, 5, 9);
    assert_eq!(value_of(&page.next()), "9", "nothing comes twice");
}

fn value_of(event: &Value) -> &str {
    event["payload"]["args"]["value"].as_str().unwrap_or_else(|| panic!("{event}"))
}

/// A page with an `EventSource`, in a browser of its own that ends with it.
struct Page {
    process: Child,
    lines: Receiver<String>,
}

impl Page {
    fn open(url: &str) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/binary/event_source.cjs");
        let mut process = Command::new("node")
            .arg(script)
            .arg(chromium_binary().unwrap())
            .arg(url)
            .env(GAPLESS_TEST_BROWSER, browser_folder().unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = lines_of(&mut process);
        Self { process, lines }
    }

    /// The next event, with its name as `t` and the page's `lastEventId` as `id`.
    fn next(&mut self) -> Value {
        let line = self.lines.recv_timeout(PATIENCE).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"))
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        self.process.wait().ok();
    }
}
