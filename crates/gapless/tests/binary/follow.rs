//! `gapless serve` beside a real node: transfers of a token are told, and a reorg takes them back.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::Duration;

use gapless_testkit::poll_until;
use tempfile::TempDir;

use crate::command::{gapless, run, serve, store_in};
use crate::node::{Node, TOKEN, declared, get};
use crate::tail::Tail;

// Chain behaviours 7, 15
#[test]
fn transfers_of_a_token_are_told_and_a_reorg_takes_them_back() {
    let node = Node::start();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("chain.toml");
    fs::write(&file, declared(&node)).unwrap();
    node.transfer(1, 2, 500);
    let follow = format!("chains.follow={}", file.display());
    let server = serve(&folder, &["--auth", "open", "--set", &follow]);

    let topic = ["--user", "bob", "--topic", "chain:31337:transfers", "--cursor", "31337:0:0"];
    node.is_followed(server.address());
    let mut tail = Tail::start(&server, &topic);
    assert!(tail.next_line().contains(r#""value":"500""#));
    node.transfer(2, 3, 70);
    assert!(tail.next_line().contains(r#""value":"70""#));

    node.reorg(1, 0xfe);
    assert!(tail.next_line().contains("REVOKED"));
    node.transfer(2, 4, 8);
    assert!(tail.next_line().contains(r#""value":"8""#));
    node.mine(13);
    let is_taken =
        || Ok(get(server.address(), "/v1/chains/31337?user=bob").contains("\"number\":17").then_some(()));
    poll_until(Duration::from_secs(30), is_taken).unwrap().expect("the follower takes the newest block");
    let is_shown = || {
        let metrics = get(server.address(), "/metrics");
        Ok(metrics.contains("gapless_chain_head{chain=\"31337\"} 17").then_some(()))
    };
    poll_until(Duration::from_secs(30), is_shown).unwrap().expect("the newest block is in the metrics");
    let mut values =
        Tail::start(&server, &["--user", "bob", "--topic", "chain:31337:transfers", "--snapshot"]);
    let holder = |number: u8| format!("0x{number:040x}");
    let lines: Vec<_> = (0..3).map(|_| values.next_line()).collect();
    for (holder, balance) in [(holder(1), "-500"), (holder(2), "492"), (holder(4), "8")] {
        let line = format!("chain:31337:transfers[{holder}] = \"{balance}\"");
        assert!(lines.iter().any(|said| said.ends_with(&line)), "{line} in {lines:#?}");
    }
}

#[test]
fn a_file_that_declares_no_chain_is_refused_with_what_is_wrong() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("chain.toml");
    fs::write(&file, "chain = 1\nnodes = []\ntopics = []\n").unwrap();
    let store = store_in(folder.path());
    let said = run(&["follow", file.to_str().unwrap(), "--store", &store]);
    assert!(said.complained().contains("no topic is declared"), "{said}");
}

#[test]
fn a_chain_that_is_declared_twice_is_refused_with_how_to_mend_it() {
    let folder = TempDir::new().unwrap();
    let [one, other] = ["one.toml", "other.toml"].map(|name| {
        let file = folder.path().join(name);
        let topic =
            format!("[[topics]]\nname = \"t\"\naddresses = [\"{TOKEN}\"]\nbuiltin = \"erc20_balance\"\n");
        fs::write(&file, format!("chain = 31337\nnodes = [\"http://localhost\"]\n{topic}")).unwrap();
        file.to_str().unwrap().to_owned()
    });
    let store = store_in(folder.path());
    for (files, words) in [
        ([&one, &other], "both declare chain 31337; put all its topics into one of them"),
        ([&one, &one], "is named twice; name it once"),
    ] {
        let said = run(&["follow", files[0], files[1], "--store", &store]);
        assert!(said.complained().contains(words), "{said}");
        let follow = format!("chains.follow={},{}", files[0], files[1]);
        for command in ["serve", "check-config"] {
            let said = run(&[command, "--auth", "open", "--store", &store, "--set", &follow]);
            assert!(said.complained().contains(words), "{said}");
        }
    }
}

#[test]
fn the_help_names_all_that_may_stand_in_a_file() {
    let help = run(&["follow", "--help"]);
    for key in [
        "chain",
        "nodes",
        "start",
        "genesis",
        "poll",
        "name",
        "addresses",
        "event",
        "builtin",
        "key",
        "value",
    ] {
        assert!(help.printed().contains(&format!("`{key}")), "{key}\n{help}");
    }
}

#[test]
fn nodes_may_be_named_on_the_command_line() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("chain.toml");
    let topic = format!("[[topics]]\nname = \"t\"\naddresses = [\"{TOKEN}\"]\nbuiltin = \"erc20_balance\"\n");
    fs::write(&file, format!("chain = 31337\n{topic}")).unwrap();
    let (file, store) = (file.to_str().unwrap(), store_in(folder.path()));
    let follow = |arguments: &[&str]| run(&[&["follow", "--store", &store], arguments].concat());
    for (arguments, words) in
        [(&[file][..], "no node is named"), (&["--rpc", "http://localhost", file, file], "one chain")]
    {
        let said = follow(arguments);
        assert!(said.complained().contains(words), "{said}");
    }
    let said = follow(&["--rpc", "localhost:8545", file]);
    assert!(said.stderr.contains("ws or wss"), "{said}");

    let node = Node::start();
    let mut command = gapless(&["follow", "--store", &store, "--rpc", "http://127.0.0.1:1", "--rpc"]);
    command.arg(format!("http://{}", node.address())).arg(file).stderr(Stdio::piped());
    let mut following = command.spawn().unwrap();
    let log = BufReader::new(following.stderr.take().unwrap());
    let connected = log.lines().map_while(Result::ok).find(|line| line.contains("connected to a node"));
    following.kill().unwrap();
    following.wait().unwrap();
    assert!(connected.unwrap().contains("node=1"));
}
